// CommandTrial's handling of a program's reports: validation, rate limit,
// messages to the runner, checkpoints. The loop that calls it is in
// command_trial.cc.
//
// Every line is untrusted. One that is not a report, or whose count decreases,
// is counted and shown at most ten times, and changes nothing. A program that
// reports faster than the store records gets its training reports averaged; for
// validations and checkpoints, which must not be lost, it has to wait, because
// its pipe is not read meanwhile.
//
// The order of a checkpoint with a validation is what makes a result survive:
// the files are copied, with the reports that the runner has not acknowledged
// and the validation itself in the checkpoint's state; then the runner is told
// of the checkpoint, and then of the validation. A process that resumes there
// sends all of them again. Reports of the same count that come after the
// checkpoint are written beside it if the runner has gone (KeepLateReports).
//
// On a full disk the first checkpoint in a row is skipped. The second suspends
// the program by SIGSTOP, with its training in memory, until there is space.

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_files.h"
#include "engine/os/system_error.h"
#include "engine/program/command_trial.h"
#include "engine/train/log_line.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Most ignored lines that are shown.
constexpr std::int64_t kMaxShown = 10;
constexpr std::size_t kShownLine = 100;
// Time between reports that a program still prints. Below any hang_timeout that
// makes sense, as tests have.
constexpr Duration kSignOfLife = std::chrono::milliseconds(500);

void Warn(const std::string& text) {
  LogLine(LogLevel::kWarning, "dtrain: " + text);
}

bool HasMetric(const MetricValues& metrics, const std::string& name) {
  return std::ranges::any_of(
      metrics, [&name](const auto& metric) { return metric.first == name; });
}

// True if `path` is inside `directory`.
bool IsInside(const fs::path& path, const fs::path& directory) {
  std::error_code error;
  const fs::path inner =
      fs::weakly_canonical(path, error)
          .lexically_relative(fs::weakly_canonical(directory, error));
  return !error && !inner.empty() && *inner.begin() != ".." && inner != ".";
}

}  // namespace

void CommandTrial::OnLine(const ReportLine& line, Connection* connection) {
  ++lines_;
  if (connection != nullptr && connection->refused) return;
  if (line.too_long) {
    return Ignore(
        line.text,
        "is longer than " + FormatBytes(std::int64_t{ReportLines::kMaxLine}));
  }
  // Blank lines are ignored.
  if (line.text.find_first_not_of(" \t\r") == line.text.npos) return;
  try {
    // Only on a socket, where several processes may connect.
    const auto rank = connection ? ParseHello(line.text) : std::nullopt;
    if (rank) return Welcome(*connection, *rank);
    const ProgramReport report = ParseProgramReport(line.text, units_);
    RefuseBothSources(report);
    if (!refusal_.empty()) return;
    std::visit([this](const auto& kind) { On(kind); }, report);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStore) throw;
    Ignore(line.text, error.what());
  }
}

void CommandTrial::Ignore(const std::string& line, const std::string& why) {
  CountIgnored("line " + std::to_string(lines_) + " " + why + ": '" +
               Truncate(EscapeForTerminal(ToValidUtf8(line.substr(0, 400))),
                        kShownLine) +
               "'");
}

void CommandTrial::CountIgnored(const std::string& text) {
  if (++ignored_ == 1) first_ignored_ = text;
  if (ignored_ <= kMaxShown) {
    Warn("ignored, see docs/protocol.md: " + text);
  } else if (ignored_ == kMaxShown + 1) {
    Warn("more lines are ignored; they are only counted");
  }
}

// Rejects reports whose count decreases.
void CommandTrial::RequireMonotonic(const ProgramPoint& point, double& last,
                                    const char* what) {
  if (point.count < last) {
    throw Error(ErrorKind::kFailed,
                std::string("has a smaller count than the last ") + what +
                    ", " + FormatNumber(last));
  }
  last = point.count;
}

void CommandTrial::Advance(const ProgramPoint& point) {
  at_ = point;
  awaits_first_report_ = false;
  units_.unit = point.unit;
  units_.is_open = false;
  // The runner must know the program's unit before the first report.
  if (!std::exchange(sent_position_, true)) SendProgress();
}

// True for a report beyond the length at which the search has stopped the
// trial. A program that reads operations makes none.
bool CommandTrial::IsUnwanted(const ProgramPoint& point) {
  const auto until = static_cast<double>(until_.count);
  if (!closed_ || !spec_.stops_trials || point.count <= until) return false;
  if (!std::exchange(warned_of_unwanted_, true)) {
    LogLine(LogLevel::kInfo,
            "dtrain: reports beyond " + LengthText(until_.count, until_.unit) +
                ", where the trial has ended, are not recorded");
  }
  return true;
}

void CommandTrial::On(const ProgramTraining& report) {
  if (IsUnwanted(report.point)) return;
  RequireMonotonic(report.point, training_at_, "training report");
  Advance(report.point);
  trained_metric_ = trained_metric_ ||
                    HasMetric(report.metrics, spec_.settings.searcher_metric);
  MarkIfLate(report.point);
  means_.Add(report);
  if (rate_.TryAcquire(clock_.monotonic())) return SendMeans();
  if (std::exchange(warned_of_means_, true)) return;
  Warn(
      "training reports arrive faster than they can be recorded; from here on "
      "their means are recorded");
}

// Makes the program wait until one more report is allowed.
void CommandTrial::AwaitReportBudget() {
  while (!rate_.TryAcquire(clock_.monotonic())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void CommandTrial::SendMeans() {
  if (means_.empty()) return;
  ProgramTraining report = means_.Drain();
  channel_.Send(TrainingReport{.batches = report.point.batches,
                               .epoch = report.point.epoch,
                               .metrics = std::move(report.metrics),
                               .time = clock_.now()});
}

void CommandTrial::On(const ProgramValidation& report) {
  if (IsUnwanted(report.point)) return;
  RequireMonotonic(report.point, validation_at_, "validation");
  Advance(report.point);
  AwaitReportBudget();
  SendMeans();
  ObserveForStopping(report.metrics);
  MarkIfLate(report.point);
  Record(MakeMessage(report), report);
}

ValidationReport CommandTrial::MakeMessage(const ProgramValidation& report) {
  ValidationReport message{.seq = 1,  // any; it gets its own when it is sent
                           .batches = report.point.batches,
                           .epoch = report.point.epoch,
                           .metrics = report.metrics,
                           .time = clock_.now()};
  // An initial validation precedes what training reads.
  if (message.batches > 0) message.unread = std::exchange(unread_so_far_, {});
  return message;
}

void CommandTrial::Record(ValidationReport message,
                          const ProgramValidation& report) {
  channel_.Send(std::move(message));
  validation_ = report;
  CompleteIfDone();
}

void CommandTrial::ObserveForStopping(const MetricValues& metrics) {
  if (!early_stop_ || !ended_early_.empty()) return;
  const EarlyStopping& rule = early_stop_->settings();
  for (const auto& [name, value] : metrics) {
    if (name != rule.metric || !early_stop_->Observe(value)) continue;
    ended_early_ = early_stop_->Reason();
    LogLine(LogLevel::kInfo, "dtrain: ended early: " + ended_early_);
  }
}

void CommandTrial::CompleteIfDone() {
  if (done_ || !validation_ || !refusal_.empty()) return;
  // A test run ends after one validation.
  const bool is_test = spec_.settings.validation_batches > 0;
  const bool early = units_.planned ? validation_->point.count <
                                          static_cast<double>(until_.count)
                                    : !ended_early_.empty();
  if (early && ended_early_.empty()) return;
  if (!units_.planned && !early && !is_test) return;
  const double count = validation_->point.count;
  if (units_.planned && count > static_cast<double>(until_.count) &&
      !std::exchange(warned_of_overshoot_, true)) {
    Warn("the program trained to " + LengthText(count, until_.unit) +
         " instead of " + std::to_string(until_.count) +
         "; the operation counts as complete");
  }
  if (unsaved_) {
    // Its training is not in a checkpoint, so the operation is not complete.
    stop_sent_ = true;
    SendOperation({{"type", "stop"}});
    BeginEnding("its checkpoint was not saved");
    return;
  }
  Complete(early);
  if (units_.planned && !early) return;
  SendOperation({{"type", "close"}});
  const std::string why = early ? ended_early_ : "the test has its validation";
  if (!EndsByItself()) return EndNow(why);
  BeginEnding(why);
}

// The program exited with 0, so it has trained as long as it wanted.
void CommandTrial::CompleteOpenEnded() {
  // Without a validation in this run, the one before its checkpoint counts.
  const bool has_result = validation_ || !spec_.restore.empty();
  if (!units_.planned && !done_ && has_result) Complete(/*early=*/false);
}

void CommandTrial::Complete(bool early) {
  done_ = true;
  OperationCompleted completed{
      .length = until_, .batches = at_.batches, .early = early};
  if (early) completed.why_early = ended_early_;
  // The result is its report, which precedes this message.
  if (validation_) completed.batches = validation_->point.batches;
  channel_.Send(std::move(completed));
  if (units_.planned && !EndsByItself()) Suspend();
}

// The validation of its count is in the checkpoint before the runner hears of
// either: whatever dies in between, a process that resumes there reports it.
void CommandTrial::On(const ProgramCheckpoint& report) {
  std::optional<ProgramValidation> validation;
  if (report.validation && !IsUnwanted(report.point)) {
    validation = {.point = report.point, .metrics = *report.validation};
    RequireMonotonic(report.point, validation_at_, "validation");
  }
  RequireMonotonic(report.point, checkpoint_at_, "checkpoint");
  Advance(report.point);
  // A program that saves after the order to stop has followed it.
  stop_followed_ = stop_followed_ || stop_sent_;
  AwaitReportBudget();
  SendMeans();
  std::optional<ValidationReport> message;
  if (validation) {
    message = MakeMessage(*validation);
    ObserveForStopping(validation->metrics);
  }
  const fs::path source = fs::path(spec_.context) / report.path;
  while (true) {
    DiskWait wait(spec_.CheckpointPath(""), clock_);
    if (TryCheckpoint(report.point, source, message)) break;
    // The program is suspended, with its training in memory, until there is
    // space or it must stop.
    program_->SignalAll(SIGSTOP);
    const bool has_space = AwaitSpace(wait);
    program_->SignalAll(SIGCONT);
    if (!has_space) break;
  }
  if (validation) Record(*std::move(message), *validation);
}

// Returns false if there was no space and it must be retried. The first failure
// in a row is skipped: the next checkpoint may succeed.
bool CommandTrial::TryCheckpoint(
    const ProgramPoint& point, const fs::path& source,
    const std::optional<ValidationReport>& validation) try {
  SaveCheckpoint(point, source, validation);
  unsaved_.reset();
  return true;
} catch (const Error& error) {
  const bool is_full = error.kind() == ErrorKind::kDiskFull;
  const bool is_lost = error.kind() == ErrorKind::kStore;
  // The directory was gone twice: this is a fault of the machine.
  if (is_lost && unsaved_) throw;
  const bool waits = is_full && unsaved_ && !channel_.stop_requested();
  Warn(std::string("checkpoint at ") + PositionText() +
       " was not saved: " + error.what() +
       (waits ? "; the program is suspended until there is space" : ""));
  channel_.Send(CheckpointFailed{
      .batches = point.batches, .message = error.what(), .waits = waits});
  if (is_full || is_lost) unsaved_ = error;
  // Frees the space for the next checkpoint.
  if (is_full && !waits) RemoveFromScratch(source);
  return !waits;
}

bool CommandTrial::AwaitSpace(DiskWait& wait) {
  wait.Begin();
  while (!wait.IsOver()) {
    if (channel_.stop_requested()) return false;
    DiskWait::Sleep();
  }
  return true;
}

void CommandTrial::SaveCheckpoint(
    const ProgramPoint& point, const fs::path& source,
    const std::optional<ValidationReport>& validation) {
  RequireDirectory();
  ProgramState state{.epoch = point.epoch, .count = point.count};
  state.trainer.batches = point.batches;
  state.trainer.unacknowledged = channel_.Unacknowledged();
  if (validation) state.trainer.unacknowledged.emplace_back(*validation);
  SetStopping(state.trainer);
  const std::string uuid = RandomUuid();
  const fs::path path = spec_.CheckpointPath(uuid);
  WrittenCheckpoint written = SaveProgramCheckpoint(path, source, state, spec_);
  checkpoint_ = point.count;
  saved_ = uuid;
  saved_state_ = std::move(state.trainer);
  late_ = false;
  RemoveFromScratch(source);
  channel_.Send(CheckpointSaved{.uuid = uuid,
                                .batches = point.batches,
                                .epoch = point.epoch,
                                .bytes = written.bytes,
                                .files = std::move(written.files),
                                .time = clock_.now()});
}

// Handles a report that the last checkpoint, of this count, lacks.
void CommandTrial::MarkIfLate(const ProgramPoint& point) {
  if (saved_.empty() || point.batches > saved_state_.batches) return;
  late_ = true;
  SetStopping(saved_state_);
}

void CommandTrial::SetStopping(TrainingState& state) const {
  if (early_stop_) state.early_stop = early_stop_->Save();
  state.ended = ended_early_;
}

// A runner that has died, as a worker's may have, records nothing more, but the
// next one continues from the last checkpoint. Reports of its count are not
// made again, so those that came after it are written beside it.
void CommandTrial::KeepLateReports() {
  if (!late_ || !(stop_sent_ || channel_.closed())) return;
  SendMeans();
  late_ = false;
  std::vector<TrialMessage> reports = channel_.Unacknowledged();
  // Reports beyond the checkpoint are made again by the process that resumes
  // there.
  std::erase_if(reports, [this](const TrialMessage& message) {
    return std::visit(
        [this](const auto& kind) {
          if constexpr (requires { kind.batches; }) {
            return kind.batches > saved_state_.batches;
          }
          return false;
        },
        message);
  });
  if (reports.empty()) return;
  saved_state_.unacknowledged = std::move(reports);
  if (WriteLateReports(spec_.directory, saved_, saved_state_.ToJson())) return;
  Warn("the reports after the last checkpoint cannot be kept: " + ErrnoText());
}

// Files in the scratch directory were written for dtrain.
void CommandTrial::RemoveFromScratch(const fs::path& source) const {
  std::error_code ignored;
  if (IsInside(source, scratch_)) fs::remove_all(source, ignored);
}

void CommandTrial::On(const ProgramProgress& report) { Advance(report.point); }

void CommandTrial::On(const ProgramEnd& report) {
  end_report_ = report;
  LogLine(report.reason == EndReason::kUserStop ? LogLevel::kInfo
                                                : LogLevel::kError,
          "dtrain: the program reports its end: " +
              std::string(report.reason == EndReason::kRefused
                              ? "fatal"
                              : EndReasonName(report.reason)) +
              (report.message.empty() ? "" : ": " + report.message));
  BeginEnding("the program reported its end");
}

void CommandTrial::On(const ProgramUnread& report) {
  unread_ = WithoutPlaced(report.names, spec_);
  if (!validation_) unread_so_far_ = unread_;
}

void CommandTrial::On(const ProgramStopping&) { stop_followed_ = stop_sent_; }

void CommandTrial::SendProgress() {
  progress_at_ = clock_.monotonic();
  const bool alive =
      activity_ != sent_activity_ && progress_at_ - activity_at_ >= kSignOfLife;
  if (std::exchange(progress_, at_.batches) == at_.batches && !alive) return;
  activity_at_ = progress_at_;
  sent_activity_ = activity_;
  const auto batches = static_cast<double>(at_.batches);
  const auto until = static_cast<double>(until_.count);
  // Estimated total number of batches.
  const double total = at_.count > 0
                           ? batches * until / at_.count
                           : (units_.unit == Unit::kBatches ? until : 0);
  const double per_epoch = at_.epoch > 0 ? batches / at_.epoch : 0;
  channel_.Send(Progress{.batches = at_.batches,
                         .total = std::llround(total),
                         .batches_per_epoch = std::llround(per_epoch),
                         .activity = activity_});
}

}  // namespace dtrain
