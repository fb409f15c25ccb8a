// Hiding the values of environment variables in everything that is recorded.
//
// Values are replaced in the text of the YAML, so that comments and order
// survive. The result is parsed again; if a value is still found, for example
// because it was written with escapes, the effective configuration is recorded
// instead of the text.

#include "engine/app/secrets.h"

#include <algorithm>
#include <cstdlib>

namespace dtrain {
namespace {

constexpr char kHidden[] = "REDACTED";
constexpr char kSection[] = "environment";
constexpr char kVariables[] = "environment_variables";

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
      environment.Of(device).emplace_back(name, text);
    }
  }
}

bool HasValue(const ConfigResult& result,
              const std::pair<std::string, std::string>& variable) {
  return !result.config ||
         std::ranges::count(result.config->environment.All(), variable) > 0;
}

}  // namespace

std::vector<std::string> RecordedArgv(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  for (const std::string& word : argv) {
    const std::size_t section = word.find(kSection);
    const std::size_t equals =
        section == std::string::npos ? section : word.find('=', section);
    words.push_back(equals == std::string::npos
                        ? word
                        : word.substr(0, equals + 1) + kHidden);
  }
  return words;
}

std::string RecordedYaml(const std::string& text,
                         const ExperimentConfig& config) {
  // Short values, which may occur in other text, are hidden only after their
  // names.
  constexpr std::size_t kTelling = 4;
  std::string hidden = text;
  const EnvironmentVariables variables = config.environment.All();
  for (const auto& [name, value] : variables) {
    if (value.empty()) continue;
    HideAfterName(hidden, name, value);
    if (value.size() >= kTelling) ReplaceAll(hidden, value, kHidden);
  }
  if (hidden == text && variables.empty()) return text;
  const ConfigResult again = ReadConfig(hidden, {.file_name = "recorded"});
  const bool safe = std::ranges::none_of(variables, [&](const auto& variable) {
    return !variable.second.empty() && HasValue(again, variable);
  });
  if (safe) return hidden;
  return "# as it was run; the values of its environment variables are not "
         "recorded\n" +
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
