// What a program says, and what comes of it.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/uuid.h"
#include "engine/command/command_trial.h"
#include "engine/train/log_line.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// So many of the lines that make no sense are shown.
constexpr std::int64_t kMostShown = 10;
constexpr std::size_t kShownLine = 100;

void Warn(const std::string& text) {
  LogLine(LogLevel::kWarning, "dtrain: " + text);
}

// Whether `path` lies in `directory`.
bool IsInside(const fs::path& path, const fs::path& directory) {
  std::error_code error;
  const fs::path inner =
      fs::weakly_canonical(path, error)
          .lexically_relative(fs::weakly_canonical(directory, error));
  return !error && !inner.empty() && *inner.begin() != ".." && inner != ".";
}

}  // namespace

void CommandTrial::Take(const ReportLine& line) {
  ++lines_;
  if (line.too_long) {
    return Ignore(
        line.text,
        "is longer than " + FormatBytes(std::int64_t{ReportLines::kMostLine}));
  }
  // Between the lines of a text that was printed so.
  if (line.text.find_first_not_of(" \t\r") == line.text.npos) return;
  try {
    const ProgramReport report = ParseProgramReport(line.text, units_);
    std::visit([this](const auto& kind) { On(kind); }, report);
  } catch (const Error& error) {
    Ignore(line.text, error.what());
  }
}

void CommandTrial::Ignore(const std::string& line, const std::string& why) {
  const std::string text =
      "line " + std::to_string(lines_) + " " + why + ": '" +
      Truncate(EscapeForTerminal(ToValidUtf8(line.substr(0, 400))),
               kShownLine) +
      "'";
  if (++ignored_ == 1) first_ignored_ = text;
  if (ignored_ <= kMostShown) {
    Warn("ignored, see docs/protocol.md: " + text);
  } else if (ignored_ == kMostShown + 1) {
    Warn("more lines are ignored; they are only counted");
  }
}

// Training does not go backwards: what says so was meant otherwise.
void CommandTrial::RequireAhead(const ProgramPoint& point, double& last,
                                const char* what) {
  if (point.count < last) {
    throw Error(ErrorKind::kFailed, std::string("goes back: the ") + what +
                                        " before was at " + FormatNumber(last));
  }
  last = point.count;
}

void CommandTrial::Advance(const ProgramPoint& point) {
  at_ = point;
  untouched_ = false;
  units_.unit = point.unit;
  units_.is_open = false;
  // The runner learns what the program counts before it hears a report.
  if (!std::exchange(told_count_, true)) TellProgress();
}

void CommandTrial::On(const ProgramTraining& report) {
  RequireAhead(report.point, training_at_, "training report");
  Advance(report.point);
  means_.Add(report);
  if (rate_.Take(clock_.monotonic())) return SendMeans();
  if (std::exchange(told_of_means_, true)) return;
  Warn(
      "training reports come faster than they can be recorded; from here the "
      "record has means of them");
}

// A report is only a report: the program waits until there is room for it.
void CommandTrial::AwaitRoom() {
  while (!rate_.Take(clock_.monotonic())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void CommandTrial::SendMeans() {
  if (means_.empty()) return;
  ProgramTraining report = means_.Take();
  channel_.Send(TrainingReport{.batches = report.point.batches,
                               .epoch = report.point.epoch,
                               .metrics = std::move(report.metrics),
                               .time = clock_.now()});
}

void CommandTrial::On(const ProgramValidation& report) {
  RequireAhead(report.point, validation_at_, "validation");
  Advance(report.point);
  AwaitRoom();
  SendMeans();
  channel_.Send(ValidationReport{.batches = report.point.batches,
                                 .epoch = report.point.epoch,
                                 .metrics = report.metrics,
                                 .time = clock_.now()});
  validation_ = report;
  ObserveForStopping(report.metrics);
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
  if (done_ || !validation_) return;
  // A test wants to see one validation, however long the program would train.
  const bool is_test = spec_.settings.validation_batches > 0;
  const bool early = units_.planned ? validation_->point.count <
                                          static_cast<double>(until_.count)
                                    : !ended_early_.empty();
  if (early && ended_early_.empty()) return;
  if (!units_.planned && !early && !is_test) return;
  WarnOfOvershoot();
  if (disk_full_) {
    // What it has trained is in no checkpoint: that is no completion.
    stop_told_ = true;
    Tell({{"type", "stop"}});
    BeginEnding("there is no room for its checkpoint");
    return;
  }
  Complete(early);
  if (units_.planned && !early) return;
  Tell({{"type", "close"}});
  BeginEnding(early ? ended_early_ : "the test has its validation");
}

// The program has exited with 0, and so has trained all that it wanted to.
void CommandTrial::CompleteUnplanned() {
  // Without a validation in this run, the one before its checkpoint counts.
  const bool has_result = validation_ || !spec_.restore.empty();
  if (!units_.planned && !done_ && has_result) Complete(/*early=*/false);
}

void CommandTrial::Complete(bool early) {
  done_ = true;
  OperationCompleted completed{
      .length = until_, .batches = at_.batches, .early = early};
  if (early) completed.why_early = ended_early_;
  if (validation_) {
    completed.batches = validation_->point.batches;
    completed.metrics = validation_->metrics;
  }
  channel_.Send(std::move(completed));
}

void CommandTrial::WarnOfOvershoot() {
  const double count = validation_->point.count;
  if (!units_.planned || count <= static_cast<double>(until_.count)) return;
  if (std::exchange(told_of_overshoot_, true)) return;
  Warn("the program was to train to " + std::to_string(until_.count) + " " +
       std::string(UnitName(until_.unit)) + " and has trained to " +
       FormatNumber(count) + "; that counts as done");
}

void CommandTrial::On(const ProgramCheckpoint& report) {
  RequireAhead(report.point, checkpoint_at_, "checkpoint");
  Advance(report.point);
  AwaitRoom();
  SendMeans();
  const fs::path source = fs::path(spec_.context) / report.path;
  while (true) {
    DiskWait wait(spec_.CheckpointPath(""), clock_);
    if (TryCheckpoint(report.point, source)) return;
    // The program stands still, with its training in memory, until there is
    // space or it has to stop.
    program_->SignalAll(SIGSTOP);
    const bool has_space = AwaitSpace(wait);
    program_->SignalAll(SIGCONT);
    if (!has_space) return;
  }
}

// False if it failed for want of space, and is to be tried again. The first
// failure in a row is passed over: the next checkpoint may do as well.
bool CommandTrial::TryCheckpoint(const ProgramPoint& point,
                                 const fs::path& source) try {
  SaveCheckpoint(point, source);
  disk_full_.reset();
  return true;
} catch (const Error& error) {
  const bool is_full = error.kind() == ErrorKind::kDiskFull;
  const bool waits = is_full && disk_full_ && !channel_.stop_requested();
  Warn(std::string("checkpoint at ") + HowFar() +
       " is not kept: " + error.what() +
       (waits ? "; the program is stopped until there is space" : ""));
  channel_.Send(CheckpointFailed{
      .batches = point.batches, .message = error.what(), .waits = waits});
  if (is_full) disk_full_ = error;
  // It is given up: the space serves the next one.
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

void CommandTrial::SaveCheckpoint(const ProgramPoint& point,
                                  const fs::path& source) {
  RequirePlace();
  ProgramState state{.epoch = point.epoch, .count = point.count};
  state.trainer.batches = point.batches;
  state.trainer.unacknowledged = channel_.Unacknowledged();
  if (early_stop_) state.trainer.early_stop = early_stop_->Save();
  const std::string uuid = RandomUuid();
  const fs::path path = spec_.CheckpointPath(uuid);
  WrittenCheckpoint written = SaveProgramCheckpoint(path, source, state, spec_);
  checkpoint_ = point.count;
  RemoveFromScratch(source);
  channel_.Send(CheckpointSaved{.uuid = uuid,
                                .batches = point.batches,
                                .epoch = point.epoch,
                                .bytes = written.bytes,
                                .files = std::move(written.files),
                                .time = clock_.now()});
}

// What the program has in its scratch directory was made for dtrain.
void CommandTrial::RemoveFromScratch(const fs::path& source) const {
  std::error_code ignored;
  if (IsInside(source, scratch_)) fs::remove_all(source, ignored);
}

void CommandTrial::On(const ProgramProgress& report) { Advance(report.point); }

void CommandTrial::On(const ProgramEnd& report) {
  said_end_ = report;
  LogLine(report.reason == EndReason::kUserStop ? LogLevel::kInfo
                                                : LogLevel::kError,
          "dtrain: the program ends itself: " +
              std::string(EndReasonName(report.reason)) +
              (report.message.empty() ? "" : ": " + report.message));
  BeginEnding("the program has said that it ends");
}

void CommandTrial::TellProgress() {
  progress_at_ = clock_.monotonic();
  if (std::exchange(progress_, at_.batches) == at_.batches) return;
  const auto batches = static_cast<double>(at_.batches);
  const auto until = static_cast<double>(until_.count);
  // How many batches there will be, as far as can be told.
  const double total = at_.count > 0
                           ? batches * until / at_.count
                           : (units_.unit == Unit::kBatches ? until : 0);
  const double per_epoch = at_.epoch > 0 ? batches / at_.epoch : 0;
  channel_.Send(Progress{.batches = at_.batches,
                         .total = std::llround(total),
                         .batches_per_epoch = std::llround(per_epoch)});
}

}  // namespace dtrain
