// CommandTrial's handling of programs that know nothing of dtrain: their
// metrics are found in what they print or write.
//
// Such a program cannot be told to wait or to stop. When it has reached the
// length of an operation and goes on, it is suspended until the runner has
// answered; what it has printed beyond the length is recorded only if the
// search asks for more. When the search has stopped the trial, the program gets
// SIGTERM at once, except at the length where it ends by itself: there it may
// be writing its results.

#include <algorithm>
#include <csignal>
#include <utility>

#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/program/command_trial.h"
#include "engine/train/log_line.h"

namespace dtrain {

void CommandTrial::ObserveMetrics() {
  MetricSource source = *spec_.metrics;
  // An experiment that was recorded before keeps its rule.
  first_value_ = source.first_value || spec_.rules < 2;
  source.first_value = first_value_;
  const std::string& metric = spec_.settings.searcher_metric;
  // An epoch more or less is much, a batch is not.
  const bool refuses_zero = units_.planned && units_.unit == Unit::kEpochs;
  const std::filesystem::path context = spec_.context;
  if (!source.file.empty()) {
    file_.emplace(source, context / source.file, metric, at_.count, units_.unit,
                  refuses_zero, findings_);
  } else if (!source.tensorboard.empty()) {
    events_.emplace(source, context / source.tensorboard, metric, at_.count,
                    refuses_zero, findings_);
  } else {
    printed_.emplace(source, metric, at_.count, refuses_zero, findings_);
  }
  const auto told = LengthInWords(spec_, until_);
  const Length end = told ? *told : spec_.max_length.value_or(Length{});
  if (end.count > 0) ends_at_ = static_cast<double>(end.count);
}

void CommandTrial::ReadFrom(ProgramOutput& output) {
  if (output.Fill()) SetActive();
  while (const auto line = output.Next()) {
    if (printed_) printed_->Read(*line);
  }
}

void CommandTrial::SetActive() {
  ++activity_;
  active_at_ = clock_.monotonic();
}

void CommandTrial::PollMetrics() {
  const bool any = (file_ && file_->Poll()) ||
                   (events_ && events_->Poll(clock_.monotonic()));
  if (any) SetActive();
  // Reports the last step if no other one will tell that it is over: training
  // ends there, or a checkpoint of that count was saved.
  const std::optional<double> held = printed_ ? printed_->held()
                                     : file_  ? file_->held()
                                              : events_->held();
  const bool saved = held && checkpoint_ && *checkpoint_ >= *held;
  const bool quiet = clock_.monotonic() - active_at_ >= limits_.quiet;
  // A program that reads operations waits for one at each length.
  const bool waits = held && lines_ > 0 && units_.planned &&
                     *held >= static_cast<double>(until_.count);
  const bool is_last = (held && ends_at_ && *held >= *ends_at_) || waits;
  if (saved || (quiet && is_last)) {
    if (printed_) printed_->Settle();
    if (file_) file_->Settle();
    if (events_) events_->Settle();
  }
  ReportFindings();
}

// Reads what is left once the program has ended. The last line of a program
// that was killed may be a part of one.
void CommandTrial::EndMetrics() {
  const bool whole = program_->Reap()->code == 0;
  for (auto* output : {&output_, &errors_}) {
    if (!printed_ || !whole) continue;
    if (const auto line = (*output)->Rest()) printed_->Read(*line);
  }
  // A step that dtrain has cut off has no last values.
  const bool cut_off = terminated_ && !first_value_;
  const bool has_steps = !spec_.metrics->step.empty();
  if (printed_ && !(cut_off && has_steps)) printed_->End(whole);
  if (file_) file_->End(whole);
  if (file_ && !cut_off) file_->Settle();
  if (events_) events_->End(/*whole=*/!cut_off);
  ReportFindings();
  AwaitDecision();
}

// Records what was found, up to the length of the operation.
void CommandTrial::ReportFindings() {
  for (const MetricFindings::Remark& remark :
       std::exchange(findings_.remarks, {})) {
    // Names of columns and tags are the program's.
    const std::string text = EscapeForTerminal(remark.text);
    if (remark.ignored) {
      CountIgnored(text);
    } else {
      LogLine(LogLevel::kWarning, "dtrain: " + text);
    }
  }
  if (!findings_.refusal.empty()) Refuse(findings_.refusal);
  // It is not known whether these are what the search asks for.
  if (!refusal_.empty()) return findings_.reports.clear();
  while (!findings_.reports.empty() && !(done_ && units_.planned)) {
    const FoundReport found = std::move(findings_.reports.front());
    findings_.reports.pop_front();
    Record(found);
  }
}

void CommandTrial::Record(const FoundReport& found) {
  const bool is_epochs = units_.unit == Unit::kEpochs;
  const ProgramPoint point{.unit = units_.unit,
                           .count = found.count,
                           .batches = static_cast<std::int64_t>(found.count),
                           .epoch = is_epochs ? found.count : 0};
  const bool is_validation =
      std::ranges::any_of(found.metrics, [&](const auto& metric) {
        return metric.first == spec_.settings.searcher_metric;
      });
  const std::int64_t longest = spec_.max_length.value_or(Length{}).count;
  if (!is_validation && longest > 0 &&
      found.count > static_cast<double>(longest)) {
    if (std::exchange(warned_of_far_, true)) return;
    const std::string unit(UnitName(units_.unit));
    return CountIgnored("step " + FormatNumber(found.count) +
                        " is beyond the " + std::to_string(longest) + " " +
                        unit +
                        " of the search; the steps of metrics must "
                        "count " +
                        unit);
  }
  try {
    if (is_validation) {
      On(ProgramValidation{point, found.metrics});
    } else {
      On(ProgramTraining{point, found.metrics});
    }
  } catch (const Error& error) {
    CountIgnored("step " + FormatNumber(found.count) + " " + error.what());
  }
}

// Metrics of two sources would be recorded twice, or mixed.
void CommandTrial::RefuseBothSources(const ProgramReport& report) {
  const auto* const saved = std::get_if<ProgramCheckpoint>(&report);
  const bool has_metrics = std::holds_alternative<ProgramTraining>(report) ||
                           std::holds_alternative<ProgramValidation>(report) ||
                           (saved != nullptr && saved->validation);
  if (!spec_.metrics || !has_metrics) return;
  Refuse(
      "the program reports its metrics to dtrain, and the key 'metrics' reads "
      "them elsewhere as well; remove the key");
}

void CommandTrial::Refuse(const std::string& why) {
  if (!std::exchange(refusal_, why).empty()) return;
  LogLine(LogLevel::kError, "dtrain: " + why);
  EndNow("the trial cannot be run like this");
}

// True if the program is expected to exit soon without a signal.
bool CommandTrial::EndsByItself() const {
  // A program that reports checkpoints reads operations, too.
  if (!spec_.metrics || lines_ > 0 || !connections_.empty()) return true;
  return ends_at_ && validation_ && validation_->point.count >= *ends_at_;
}

void CommandTrial::Suspend() {
  if (program_->Reap()) return;
  suspended_ = true;
  program_->SignalAll(SIGSTOP);
}

void CommandTrial::Resume() {
  if (std::exchange(suspended_, false)) program_->SignalAll(SIGCONT);
}

void CommandTrial::EndNow(const std::string& why) {
  if (program_->Reap() || std::exchange(terminated_, true)) return;
  LogLine(LogLevel::kInfo, "dtrain: " + why + "; sending SIGTERM");
  program_->Signal(SIGTERM);
  Resume();
  why_ending_ = why;
  end_by_ = clock_.monotonic() + limits_.after_term;
}

// Returns why no validation was found, as a part of a sentence.
std::string CommandTrial::FoundText() const {
  if (printed_) return EscapeForTerminal(printed_->Hint());
  if (file_) return EscapeForTerminal(file_->Hint());
  return events_ ? EscapeForTerminal(events_->Hint()) : "";
}

}  // namespace dtrain
