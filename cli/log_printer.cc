#include "cli/log_printer.h"

#include <utility>

#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/report/json_view.h"
#include "engine/report/plain_reporter.h"

namespace dtrain {
namespace {

std::string Prefix(const MergedRecord& merged, bool timestamps) {
  std::string prefix = ToString(merged.trial);
  if (merged.record.rank > 0) {
    prefix += "/" + std::to_string(merged.record.rank);
  }
  if (timestamps) prefix += " " + FormatTimestamp(merged.record.time);
  return prefix + " | ";
}

}  // namespace

void LogPrinter::Print(const MergedRecord& merged) {
  switch (style_.form) {
    case LogForm::kText:
      PrintText(merged);
      break;
    case LogForm::kJson:
      out_ << (first_ ? "{\"logs\": [\n" : ",\n") << Json(merged);
      break;
    case LogForm::kJsonLines:
      out_ << Json(merged) << '\n';
      break;
  }
  first_ = false;
}

std::string LogPrinter::Json(const MergedRecord& merged) const {
  return DumpJson(LogJson(merged.trial, merged.record), /*indent=*/-1,
                  style_.mode.terminal);
}

void LogPrinter::Finish() {
  if (open_) out_ << '\n';
  open_.reset();
  if (style_.form == LogForm::kJson) {
    out_ << (first_ ? "{\"logs\": []}\n" : "\n]}\n");
  }
}

void LogPrinter::PrintText(const MergedRecord& merged) {
  const bool goes_on = GoesOn(merged);
  if (open_ && !goes_on) out_ << '\n';
  if (!goes_on && !style_.raw) {
    out_ << Paint(style_.mode, Tone::kDim, Prefix(merged, style_.timestamps));
  }
  const std::string& text = merged.record.text;
  if (!style_.mode.terminal) {
    out_ << text;
  } else if (style_.raw) {
    out_ << EscapeForTerminal(text);
  } else {
    out_ << Paint(style_.mode, ToneOf(merged.record.level),
                  EscapeForTerminal(text));
  }
  open_.reset();
  if (merged.record.partial) {
    open_ = merged;
  } else {
    out_ << '\n';
  }
}

// Whether the record is the rest of the line that is open.
bool LogPrinter::GoesOn(const MergedRecord& merged) const {
  return open_ && open_->trial == merged.trial &&
         open_->record.rank == merged.record.rank &&
         open_->record.from_stderr == merged.record.from_stderr;
}

}  // namespace dtrain
