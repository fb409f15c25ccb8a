// Hiding the values of environment variables, and the credentials of
// Determined's keys that have no effect here, in everything that is recorded.
//
// Values are replaced in the text of the YAML, so that comments and order
// survive. The result is parsed again; if a value is still found, for example
// because it was written with escapes, the effective configuration is recorded
// instead of the text.

#include "engine/app/secrets.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "engine/base/web_address.h"
#include "engine/config/environment.h"
#include "engine/config/read_config.h"
#include "engine/config/yaml_reader.h"

namespace dtrain {
namespace {

constexpr const char* kHidden = kHiddenValue;
constexpr char kSection[] = "environment";
constexpr char kVariables[] = "environment_variables";
constexpr char kRegistry[] = "registry_auth";

void ReplaceAll(std::string& text, const std::string& from,
                const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Replaces `value` where it follows `name` and its separator.
void HideAfterName(std::string& text, const std::string& name,
                   const std::string& value) {
  for (std::size_t at = text.find(name); at != std::string::npos;
       at = text.find(name, at + name.size())) {
    const std::size_t begin =
        text.find_first_not_of(" \t\"':=", at + name.size());
    if (begin == std::string::npos) return;
    if (text.compare(begin, value.size(), value) == 0) {
      text.replace(begin, value.size(), kHidden);
    }
  }
}

// Reads the variables in `names` for `device` from this process's environment.
void FillVariables(const nlohmann::json& names, const std::string& device,
                   TrialEnvironment& environment,
                   std::vector<std::string>& missing) {
  for (const auto& [name, value] : names.items()) {
    if (value.is_object()) continue;  // those of a device
    const char* text = std::getenv(name.c_str());
    if (text == nullptr) {
      missing.push_back(name);
    } else {
      environment.ForDevice(device).emplace_back(name, text);
    }
  }
}

// Keys of a checkpoint_storage of type s3 or azure.
constexpr std::array<std::string_view, 4> kStorageCredentials = {
    "access_key", "connection_string", "credential", "secret_key"};

// Adds the values of all scalars in `node`, each with its key.
void AddScalars(const std::string& key, const Node& node,
                EnvironmentVariables& values) {
  if (node.IsScalar() && !node.is_null()) values.emplace_back(key, node.text);
  for (const Node::Entry& entry : node.entries) {
    AddScalars(entry.key, entry.value, values);
  }
  for (const Node& item : node.items) AddScalars(key, item, values);
}

// Returns the credentials in a YAML text, each with its key. They are not part
// of a configuration.
EnvironmentVariables Credentials(const std::string& text) {
  EnvironmentVariables values;
  Findings findings = Findings::Discarding();
  const auto root = ReadYaml(text, {}, findings);
  if (!root) return values;
  const Node* environment = root->Find(kSection);
  if (environment != nullptr) {
    const Node* registry = environment->Find(kRegistry);
    if (registry != nullptr) AddScalars(kRegistry, *registry, values);
  }
  const Node* storage = root->Find("checkpoint_storage");
  for (const std::string_view key : kStorageCredentials) {
    const Node* value = storage == nullptr ? nullptr : storage->Find(key);
    if (value != nullptr) AddScalars(std::string(key), *value, values);
  }
  std::erase_if(values, [](const auto& one) { return one.second.empty(); });
  return values;
}

bool HasValue(const ConfigResult& result,
              const std::pair<std::string, std::string>& variable) {
  return !result.config ||
         std::ranges::count(result.config->environment.All(), variable) > 0;
}

}  // namespace

std::vector<std::string> RecordedArgv(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  bool is_address = false;  // follows --notify
  // The command of `dtrain run` is that of trials.
  auto command = std::ranges::find(argv, "--");
  if (std::find(argv.begin(), command, "run") == command) command = argv.end();
  for (const std::string& word : std::ranges::subrange(argv.begin(), command)) {
    constexpr std::string_view kNotify = "--notify";
    if (std::exchange(is_address, word == kNotify)) {
      words.push_back(ShownUrl(word));
      continue;
    }
    std::size_t section = word.find(kSection);
    for (const std::string_view key : {"notify", "--notify", "--set=notify"}) {
      if (word.starts_with(key)) section = 0;
    }
    for (const std::string_view key : kStorageCredentials) {
      section = std::min(section,
                         word.find("checkpoint_storage." + std::string(key)));
    }
    const std::size_t equals =
        section == std::string::npos ? section : word.find('=', section);
    words.push_back(equals == std::string::npos
                        ? word
                        : word.substr(0, equals + 1) + kHidden);
  }
  words.insert(words.end(), command, argv.end());
  return words;
}

bool HasCredentials(const std::string& text) {
  return !Credentials(text).empty();
}

std::string RecordedYaml(const std::string& text,
                         const ExperimentConfig& config) {
  // Short values, which may occur in other text, are hidden only after their
  // names. User names and addresses of registries are no secrets elsewhere.
  constexpr std::size_t kMinValue = 4;
  constexpr std::size_t kMinCredential = 8;
  std::string hidden = text;
  const EnvironmentVariables variables = config.environment.All();
  const EnvironmentVariables credentials = Credentials(text);
  const std::string url = config.notify ? config.notify->url : "";
  if (variables.empty() && credentials.empty() && url.empty()) return text;
  if (!url.empty()) ReplaceAll(hidden, url, ShownUrl(url));
  const auto hide = [&hidden](const EnvironmentVariables& secrets,
                              std::size_t min_length) {
    for (const auto& [name, value] : secrets) {
      if (value.empty()) continue;
      HideAfterName(hidden, name, value);
      if (value.size() >= min_length) ReplaceAll(hidden, value, kHidden);
    }
  };
  hide(variables, kMinValue);
  hide(credentials, kMinCredential);
  const ConfigResult again =
      ReadConfig(hidden, {.file_name = "recorded", .stored = true});
  const bool has_url =
      !url.empty() && url != ShownUrl(url) &&
      (again.config ? again.config->notify && again.config->notify->url == url
                    : text.find("notify") != text.npos);
  const bool safe =
      std::ranges::none_of(variables,
                           [&](const auto& variable) {
                             return !variable.second.empty() &&
                                    HasValue(again, variable);
                           }) &&
      !has_url &&
      std::ranges::all_of(Credentials(hidden), [](const auto& credential) {
        return credential.second == kHidden;
      });
  if (safe) return hidden;
  return "# as it was run; values of environment variables and credentials are "
         "not recorded\n" +
         ToYaml(config.effective);
}

std::vector<std::string> FillEnvironment(ExperimentConfig& config) {
  std::vector<std::string> missing;
  const auto section =
      config.effective.value(kSection, nlohmann::json::object());
  if (!section.is_object() || !section.contains(kVariables)) return missing;
  const nlohmann::json& variables = section.at(kVariables);
  FillVariables(variables, "", config.environment, missing);
  for (const auto& [name, value] : variables.items()) {
    if (value.is_object()) {
      FillVariables(value, name, config.environment, missing);
    }
  }
  return missing;
}

}  // namespace dtrain
