#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/ignore_pattern.h"

namespace dtrain {

/// The ignore files that hold in a directory: its own and those above it. The
/// last pattern that matches decides, and a file's patterns count for more
/// than those of the files that were added before it.
class IgnoreRules {
 public:
  /// The lines of an ignore file in `directory`: "" or "a/b/".
  void Add(std::string_view text, const std::string& directory);

  /// Whether `path` ("a/b.txt") is ignored by itself. What lies in a directory
  /// that is ignored is ignored too, whatever a pattern says of it: the caller
  /// does not look there.
  bool IsIgnored(std::string_view path, bool is_directory) const;

  /// How many patterns there are, and back to so many: those of a directory
  /// do not hold outside it.
  std::size_t size() const { return rules_.size(); }
  void Truncate(std::size_t size) { rules_.resize(size); }

 private:
  struct Rule {
    std::string directory = {};
    IgnorePattern pattern = {};
  };

  std::vector<Rule> rules_;
};

}  // namespace dtrain
