#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// One line of a program, without its newline.
struct ReportLine {
  std::string text;
  bool too_long = false;  // discarded; `text` is how it began
};

/// Cuts what a program writes into lines, in bounded memory: a line that is too
/// long is thrown away to its end, and said. One thread.
class ReportLines {
 public:
  static constexpr std::size_t kMostLine = std::size_t{1} << 20;

  /// Reads `fd`, which it makes non-blocking.
  explicit ReportLines(UniqueFd fd, std::size_t max_line = kMostLine);

  int fd() const { return fd_.get(); }

  /// Reads once what is there, at most 64 KiB; false at the end of the stream,
  /// or if it cannot be read. What stands behind the last newline is a line
  /// then, too.
  [[nodiscard]] bool Fill();

  std::optional<ReportLine> Next();

 private:
  void Cut(std::string_view text);
  void EndLine();

  UniqueFd fd_;
  std::size_t max_line_;
  std::string line_;  // the one that is not whole yet
  bool too_long_ = false;
  std::deque<ReportLine> lines_;
};

}  // namespace dtrain
