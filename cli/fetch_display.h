#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "engine/report/terminal.h"

namespace dtrain {

/// How far a download is, on stderr: a line that is drawn again on a terminal,
/// elsewhere a line now and then; nothing with --quiet. Leaves no half line.
class FetchDisplay {
 public:
  explicit FetchDisplay(const GlobalOptions& globals);
  FetchDisplay(const FetchDisplay&) = delete;
  FetchDisplay& operator=(const FetchDisplay&) = delete;
  ~FetchDisplay() { Clear(); }

  /// `bytes` of `file`, which has `expected`, are there.
  void Show(std::string_view file, std::int64_t bytes, std::int64_t expected);
  /// One line that stays.
  void Say(const std::string& text);
  /// Takes the line away.
  void Clear();

 private:
  using Instant = std::chrono::steady_clock::time_point;

  void Begin(std::string_view file, std::int64_t bytes, Instant now);
  std::string Line(std::int64_t bytes, std::int64_t expected,
                   Instant now) const;

  const GlobalOptions& globals_;
  TerminalMode mode_;
  std::string file_;
  Instant began_;
  Instant shown_;
  std::int64_t began_with_ = 0;
  bool drawn_ = false;
};

}  // namespace dtrain
