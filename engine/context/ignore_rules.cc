#include "engine/context/ignore_rules.h"

#include <ranges>

#include "engine/base/text.h"

namespace dtrain {

void IgnoreRules::Add(std::string_view text, const std::string& directory) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (const std::string& line : Split(text, '\n')) {
    auto pattern = IgnorePattern::Parse(line);
    if (pattern) rules_.push_back({directory, *std::move(pattern)});
  }
}

bool IgnoreRules::IsIgnored(std::string_view path, bool is_directory) const {
  for (const Rule& rule : std::views::reverse(rules_)) {
    if (!path.starts_with(rule.directory)) continue;
    const std::string_view inside = path.substr(rule.directory.size());
    if (rule.pattern.Matches(inside, is_directory)) {
      return !rule.pattern.negated();
    }
  }
  return false;
}

}  // namespace dtrain
