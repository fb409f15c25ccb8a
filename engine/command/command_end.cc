// How a program ends, and what that makes of the trial.

#include <csignal>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/text.h"
#include "engine/command/command_trial.h"
#include "engine/train/log_line.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;

void LogEnd(LogLevel level, const std::string& text) {
  LogLine(level, "dtrain: " + text);
}

}  // namespace

void CommandTrial::BeginEnding(const std::string& why) {
  if (end_by_) return;
  end_by_ = clock_.monotonic() + limits_.ending;
  why_ending_ = why;
}

void CommandTrial::SeeToEnding() {
  const Duration now = clock_.monotonic();
  if (!end_by_ || now < *end_by_) return;
  if (!std::exchange(terminated_, true)) {
    LogEnd(LogLevel::kWarning,
           why_ending_ + ", but the program has not ended within " +
               FormatDuration(limits_.ending) + "; it is sent SIGTERM");
    program_->Signal(SIGTERM);
    end_by_ = now + limits_.after_term;
  } else {
    LogEnd(LogLevel::kWarning, "the program ignores SIGTERM; it is killed");
    program_->Signal(SIGKILL);
    end_by_ = now + limits_.after_term;
  }
}

// What its children write later than this is not for us.
void CommandTrial::Drain() {
  const Duration deadline = clock_.monotonic() + limits_.drain;
  bool more = Turn(Duration(0));
  while (reports_ || !connections_.empty()) {
    const Duration limit = more ? deadline + 9 * limits_.drain : deadline;
    if (clock_.monotonic() >= limit) break;
    more = Turn(milliseconds(20));
  }
  HearOperations();
}

CommandEnd CommandTrial::Judge() {
  const ProgramExit exit = *program_->Reap();
  const auto word = [&](EndReason reason, const std::string& message = "") {
    return CommandEnd{.word = Finished{reason, message}, .exit = exit};
  };
  if (said_end_) {
    if (said_end_->reason == EndReason::kUserStop && validation_) {
      CompleteUnplanned();
    }
    return word(said_end_->reason, said_end_->message);
  }
  if (disk_full_ && (done_ || stop_told_)) {
    return word(EndReason::kDiskFull, disk_full_->what());
  }
  if (stop_told_) {
    SayWhereItGoesOn();
    return word(EndReason::kStopped);
  }
  if (exit.code != 0 && !terminated_) {
    LogEnd(LogLevel::kError,
           HowItEnded(exit) + " at " + HowFar() + IgnoredText());
    return {.exit = exit};
  }
  if (closed_) return word(EndReason::kCompleted);
  CompleteUnplanned();
  // It is called again for what is still to come.
  if (done_ || untouched_) return word(EndReason::kStopped);
  const std::string why = "the program ended at " + HowFar() +
                          " without a validation of '" +
                          spec_.settings.searcher_metric + "'" +
                          (units_.planned ? " there" : "") + IgnoredText();
  LogEnd(LogLevel::kError, why);
  return word(EndReason::kError, why);
}

void CommandTrial::SayWhereItGoesOn() const {
  const std::string from =
      checkpoint_ ? "its checkpoint at " + FormatNumber(*checkpoint_) + " " +
                        std::string(UnitName(units_.unit))
                  : "its beginning, for it has made no checkpoint";
  LogEnd(LogLevel::kInfo, "stopped at " + HowFar() + "; goes on from " + from);
}

std::string CommandTrial::HowItEnded(const ProgramExit& exit) {
  if (exit.signal == 0) {
    return "the program exited with code " + std::to_string(exit.code);
  }
  return "the program was killed by signal " + std::to_string(exit.signal);
}

std::string CommandTrial::HowFar() const {
  return FormatNumber(at_.count) +
         (units_.planned ? " of " + std::to_string(until_.count) : "") + " " +
         std::string(UnitName(units_.unit));
}

std::string CommandTrial::IgnoredText() const {
  if (ignored_ == 0) return "";
  return "; " + std::to_string(ignored_) +
         (ignored_ == 1 ? " line was" : " lines were") +
         " ignored, the first: " + first_ignored_;
}

}  // namespace dtrain
