#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace dtrain {

/// A regular expression in RE2's syntax. Searches a line of UTF-8 in time
/// linear in its length; an invalid byte counts as one character.
class LineRegex {
 public:
  static constexpr std::size_t kMaxPattern = 1000;  // bytes

  /// Throws Error(kUsage), its text begun by `option`, for an invalid or too
  /// long expression.
  explicit LineRegex(const std::string& pattern,
                     std::string_view option = "--grep");

  bool Matches(std::string_view line) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace dtrain
