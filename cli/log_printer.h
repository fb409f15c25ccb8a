#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "engine/report/log_merger.h"
#include "engine/report/terminal.h"

namespace dtrain {

enum class LogForm { kText, kJson, kJsonLines };

struct LogStyle {
  LogForm form = LogForm::kText;
  bool timestamps = false;
  bool raw = false;  // without a prefix; bytes as written, but on a terminal
  TerminalMode mode;
};

/// Prints records of logs one after another: text prefixed by the trial (and
/// the rank, where it is not 0); or JSON. All of it is escaped where a terminal
/// would obey it.
class LogPrinter {
 public:
  LogPrinter(std::ostream& out, LogStyle style)
      : out_(out), style_(std::move(style)) {}

  void Print(const MergedRecord& merged);
  /// Ends the document or the line that is open. Call it once, at the end.
  void Finish();

 private:
  std::string Json(const MergedRecord& merged) const;
  void PrintText(const MergedRecord& merged);
  bool GoesOn(const MergedRecord& merged) const;

  std::ostream& out_;
  LogStyle style_;
  bool first_ = true;
  // The record whose line is not ended: a longer one was cut.
  std::optional<MergedRecord> open_;
};

}  // namespace dtrain
