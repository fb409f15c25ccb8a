#include "cli/secrets.h"

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

bool HasValue(const ConfigResult& result,
              const std::pair<std::string, std::string>& variable) {
  return !result.config ||
         std::ranges::count(result.config->environment, variable) > 0;
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
  // Values too short to be told from other text are hidden beside their names
  // only.
  constexpr std::size_t kTelling = 4;
  std::string hidden = text;
  for (const auto& [name, value] : config.environment) {
    if (value.empty()) continue;
    HideAfterName(hidden, name, value);
    if (value.size() >= kTelling) ReplaceAll(hidden, value, kHidden);
  }
  if (hidden == text && config.environment.empty()) return text;
  const ConfigResult again = ReadConfig(hidden, {.file_name = "recorded"});
  const bool safe =
      std::ranges::none_of(config.environment, [&](const auto& variable) {
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
  for (const auto& [name, unused] : section.at(kVariables).items()) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      missing.push_back(name);
    } else {
      config.environment.emplace_back(name, value);
    }
  }
  return missing;
}

}  // namespace dtrain
