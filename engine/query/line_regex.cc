// Regular expressions are RE2's: their time is linear in the size of a line,
// whatever the pattern.

#include "engine/query/line_regex.h"

#include <re2/re2.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {

LineRegex::LineRegex(const std::string& pattern, std::string_view option) {
  const std::string where(option);
  if (pattern.size() > kMaxPattern) {
    throw Error(ErrorKind::kUsage, where + ": the expression has " +
                                       std::to_string(pattern.size()) +
                                       " bytes; the maximum is " +
                                       std::to_string(kMaxPattern));
  }
  RE2::Options options;
  options.set_log_errors(false);
  const auto compiled = std::make_shared<const RE2>(pattern, options);
  if (!compiled->ok()) {
    throw Error(ErrorKind::kUsage, where + ": '" + pattern +
                                       "': " + compiled->error() +
                                       "; use RE2 syntax "
                                       "(docs/cli/inspect.md)");
  }
  compiled_ = compiled;
}

bool LineRegex::Matches(std::string_view line) const {
  const auto finds = [&](std::string_view text) {
    return RE2::PartialMatch({text.data(), text.size()}, *compiled_);
  };
  return IsValidUtf8(line) ? finds(line) : finds(ToValidUtf8(line));
}

}  // namespace dtrain
