#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// A run of lines of the old text that is replaced by one of the new text; one
/// of the two may be empty. Lines count from 0.
struct LineChange {
  std::size_t old_begin = 0;
  std::size_t old_count = 0;
  std::size_t new_begin = 0;
  std::size_t new_count = 0;

  friend bool operator==(const LineChange&, const LineChange&) = default;
};

/// Splits a text into lines that keep their newline, which the last may lack.
std::vector<std::string_view> SplitLines(std::string_view text);

/// Returns the changes from the old lines to the new ones, ascending: as few
/// removed and added lines as possible, unless the texts differ in thousands of
/// lines, where it may return more to save time.
std::vector<LineChange> DiffLines(
    const std::vector<std::string_view>& old_lines,
    const std::vector<std::string_view>& new_lines);

/// Returns the changes as hunks of a unified diff, with three lines of context,
/// in the format of diff -u without its two head lines.
std::string UnifiedHunks(const std::vector<std::string_view>& old_lines,
                         const std::vector<std::string_view>& new_lines,
                         const std::vector<LineChange>& changes);

}  // namespace dtrain
