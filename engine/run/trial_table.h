#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/rows.h"
#include "engine/wire/message.h"
#include "searchers/searcher.h"

namespace dtrain {

/// Reason why a trial's process was asked to end.
enum class StopCause {
  kNone,
  kPause,    // another trial needs its slot, and it has no operation
  kRunner,   // the runner ends: Ctrl-C, a time limit
  kFailure,  // it violated the protocol; `failure` explains how
  kHang,     // no step for too long
  kCancel,   // killed by a user
  kTime,     // it has reached its time limit
};

/// Range of batches, `until` not included.
struct BatchRange {
  std::int64_t from = 0;
  std::int64_t until = 0;
};

/// Values that earlier runs of a trial measured beyond the checkpoint that the
/// present run started from. They count until this run measures them again or,
/// by kind of metric, has trained past them. Pure.
class EarlierValues {
 public:
  EarlierValues() = default;
  /// `from` are the batches of the checkpoint, `last` those of the last earlier
  /// value; none if it is not beyond `from`.
  EarlierValues(std::int64_t from, std::int64_t last);

  /// The run has measured at `batches`. Returns the range that it has passed
  /// since the last call and whose earlier values no longer count.
  [[nodiscard]] std::optional<BatchRange> Pass(MetricKind kind,
                                               std::int64_t batches);
  /// The run has ended in an orderly way: no earlier value counts any longer.
  [[nodiscard]] std::optional<BatchRange> PassAll();

  /// True if there is none.
  bool empty() const { return last_ == 0; }
  /// True if a value at `batches` may replace one of them.
  bool Cover(std::int64_t batches) const { return batches <= last_; }

 private:
  std::int64_t from_ = 0;
  std::int64_t last_ = 0;                 // 0: none
  std::array<std::int64_t, 2> passed_{};  // by MetricKind, not included
};

/// A trial's process, from the moment it is queued for a slot: its last signs
/// of life, its reports, and the reason for its end. Pure.
class TrialProcess {
 public:
  /// `restored` is the checkpoint that it starts from, at `from` batches, or
  /// empty. Earlier processes have reported up to `reported` batches.
  TrialProcess(std::string restored, std::int64_t from, std::int64_t reported)
      : earlier(from, reported), restored_(std::move(restored)), from_(from) {}

  // ---- Its life.

  /// It has got its slot. `time`: the same moment on the clock of reports.
  void SetRunning(Duration now, Timestamp time);
  /// It has shown a sign of life.
  void SetAlive(Duration now) { last_step_ = now; }
  /// This runner was stopped for `delay`, in which it saw no signs of life.
  void ForgiveDelay(Duration delay) { last_step_ += delay; }
  /// Sets the progress of its operation; a change is a sign of life.
  void SetProgress(const Progress& progress, Duration now);
  /// True if it could work and has shown no sign of life for `limit`. A process
  /// that is blocked on the store or on a full disk does not hang.
  bool IsHanging(Duration now, std::chrono::duration<double> limit) const;
  /// Returns the running time that is not recorded yet, which is from now on.
  double DrainSeconds(Duration now);
  /// It begins an operation.
  void SetWorking(Duration now) { working_since_ = now; }
  /// Returns the seconds that it has worked on its operation, without those
  /// that it was blocked by a full disk, and starts again from 0.
  double DrainWork(Duration now);

  bool running() const { return running_; }
  Duration started() const { return started_; }
  /// True if an earlier process made this report and the checkpoint kept it,
  /// because its acknowledgement had not arrived.
  bool IsFromCheckpoint(std::int64_t batches, Timestamp time) const {
    return !restored_.empty() && batches <= from_ && time < start_time_;
  }
  double recorded_seconds() const { return recorded_seconds_; }
  const Progress& progress() const { return progress_; }
  const std::string& restored() const { return restored_; }
  std::int64_t from() const { return from_; }

  // ---- Its orders.

  /// Sets whether it works on the trial's first operation.
  void SetOperationSent(bool sent) { operation_sent_ = sent; }
  bool operation_sent() const { return operation_sent_; }
  void SetCloseSent() { close_sent_ = true; }
  bool close_sent() const { return close_sent_; }

  // ---- Its end.

  /// It is asked to end. No effect if it is ending for another reason.
  void Stop(StopCause cause);
  /// It is killed because of an error, which overrides a request to end. False,
  /// without effect, if it is being killed already.
  [[nodiscard]] bool Kill(StopCause cause, std::string why);
  /// A user has killed it, which overrides any other reason.
  void Cancel() { stop_ = StopCause::kCancel; }
  /// Its final message.
  void SetFinished(Finished finished) { finished_ = std::move(finished); }

  StopCause stop() const { return stop_; }
  /// True if a request of the runner, not an error, ends it.
  bool asked_to_stop() const {
    return stop_ == StopCause::kRunner || stop_ == StopCause::kPause ||
           stop_ == StopCause::kTime;
  }
  /// It has saved a checkpoint.
  void SetSaved() { saved_since_stop_ = saved_since_stop_ || asked_to_stop(); }
  /// True if it has saved one since it was asked to stop.
  bool saved_since_stop() const { return saved_since_stop_; }
  /// Error of a `Kill`, or message of the full disk that blocks it.
  const std::string& failure() const { return failure_; }
  const std::optional<Finished>& finished() const { return finished_; }
  bool FinishedBy(EndReason reason) const {
    return finished_ && finished_->reason == reason;
  }

  // ---- A full disk.

  /// It is blocked until there is space. False if it was blocked before.
  [[nodiscard]] bool Block(Duration now, std::string why);
  /// It has saved a checkpoint. True if it was blocked.
  [[nodiscard]] bool Unblock(Duration now);
  /// True if a failure to save a checkpoint is news for the user: the first one
  /// since the last checkpoint, and the first that blocks.
  [[nodiscard]] bool IsNewsOfDisk(bool blocks);
  /// Time since which it is blocked.
  const std::optional<Duration>& blocked_since() const { return disk_wait_; }

  // ---- Acknowledgements.

  /// A message was received and its record added. True if an acknowledgement
  /// has to be scheduled: one covers all records of a transaction.
  [[nodiscard]] bool Receive(std::int64_t seq);
  /// Returns the highest number to acknowledge, once; 0 for none.
  std::int64_t PopUnacknowledged() { return std::exchange(received_, 0); }

  // ---- Its reports.

  MetricValues training;
  MetricValues validation;
  std::optional<BestValidation> validated;  // its last validation
  EarlierValues earlier;

 private:
  std::string restored_;
  std::int64_t from_;
  bool running_ = false;
  Duration started_{0};
  Timestamp start_time_{0};
  Duration last_step_{0};
  double recorded_seconds_ = 0;
  std::optional<Duration> working_since_;  // none: it is starting, or idle
  Duration blocked_{0};                    // since then
  Progress progress_;
  bool operation_sent_ = true;  // the first one is in its specification
  bool close_sent_ = false;
  StopCause stop_ = StopCause::kNone;
  std::string failure_;
  std::optional<Finished> finished_;
  bool saved_since_stop_ = false;
  std::optional<Duration> disk_wait_;
  int disk_reported_ = 0;      // 1: a failed checkpoint, 2: that it is blocked
  std::int64_t received_ = 0;  // highest number not acknowledged; 0: none
};

/// State of a trial that has not ended. A plain record without rules of its
/// own: TrialTable changes what a replay must restore, Experiment the rest,
/// beside the record in the store. A search may have a hundred thousand paused
/// trials, so the fields that only a process needs are in `process`.
struct TrialState {
  // Recorded state, ahead of the store by the contents of the outbox.
  // `row.batches` is how far values are recorded, which after a restart is
  // ahead of `position`.
  TrialRow row;
  std::int64_t position = 0;  // batches trained by its last process

  // Orders of the searcher.
  std::vector<std::int64_t> operations;  // absolute lengths, first is current
  std::int64_t turn = 0;                 // place in the queue for slots
  std::vector<std::int64_t> completed;   // lengths of operations, ascending
  double worked = 0;  // seconds of earlier processes on the operation
  // After a restart of the runner: the batches from which on the work on the
  // operation is known. `untimed` until a process shows them.
  std::optional<std::int64_t> timed_from;
  bool untimed = false;
  double reached = 0;  // longest length trained to so far
  bool close_requested = false;
  bool ended_early = false;    // by itself, with success
  std::string why_early;       // reason given by the trial, or empty
  bool exit_reported = false;  // to the searcher: an early exit
  // Time of the last report that the reporter received, by MetricKind.
  std::array<Timestamp, 2> shown{};
  // NaN or infinite, if an operation ended with such a metric.
  std::optional<double> bad_metric;

  std::unique_ptr<TrialProcess> process;  // null if it has no process
  bool ended = false;                     // its state is final
  // Message of its last failure, if it has not trained since.
  std::string last_failure;
  // Of its earlier runs, which its time limit does not count: it runs again.
  double seconds_forgiven = 0;
  int gpu_faults = 0;  // faults of GPUs that it met without training since
  std::vector<std::string> last_lines;  // of the log of its last process

  /// Length of the longest operation completed.
  std::int64_t trained() const {
    return completed.empty() ? 0 : completed.back();
  }
  /// It wants no more training; `why` is its reason, or empty.
  void SetEndedEarly(const std::string& why);
  /// Does so if that is the recorded reason of its state.
  void RecoverEarlyEnd(const std::string& reason);
  TrialIndex index() const { return row.id.number - 1; }
  bool has_work() const { return !operations.empty(); }
  /// True if its process has nothing to do: it can start the next operation or
  /// release its slot.
  bool idle() const {
    return process && process->running() && !has_work() &&
           !process->close_sent() && process->stop() == StopCause::kNone;
  }
};

/// Returns the seconds of training and validation of the trial's operation,
/// which its process has completed at `batches`. What earlier runners have
/// trained of it is estimated by the speed of the rest. 0: unknown.
double DrainOperationSeconds(TrialState& trial, std::int64_t batches,
                             Duration now);

/// Queue of the trials that need a process: pending ones in the order of their
/// turns, and delayed ones, which have failed and are restarted later, with or
/// without the slot that they had. Trials are identified by number. Every call
/// takes O(log n).
class StartQueue {
 public:
  /// Adds a pending trial. No effect if it is pending or delayed.
  void Add(std::int64_t turn, std::int64_t trial);
  /// Adds a trial that becomes pending at `when`. If it `keeps_slot`, `held`
  /// counts it until then. REQUIRES: it is not pending.
  void Delay(Duration when, std::int64_t turn, std::int64_t trial,
             bool keeps_slot = false);
  /// Makes those pending whose delay has passed.
  void Wake(Duration now);
  /// Time at which `Wake` has something to do.
  std::optional<Duration> next_wake() const;

  /// Removes the pending trial with the lowest turn. REQUIRES: size() > 0.
  std::int64_t Pop();
  void Clear();

  /// Number of pending trials, without delayed ones.
  std::size_t size() const { return pending_.size(); }
  bool empty() const { return pending_.empty() && later_.empty(); }
  /// Number of slots that are kept free for delayed trials.
  std::size_t held() const { return held_.size(); }

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;  // turn, trial

  std::set<Place> pending_;
  std::multimap<Duration, Place> later_;
  std::set<std::int64_t> delayed_;  // trials in `later_`
  std::set<std::int64_t> held_;     // those of them that keep their slot
};

/// The trials of a search that have not ended, their operations and their
/// processes. Pure: events and operations bring it to the same state when they
/// happen and when they are replayed from the record.
class TrialTable {
 public:
  using Trials = std::map<std::int64_t, std::unique_ptr<TrialState>>;
  using Live = std::map<std::int64_t, TrialState*>;

  /// Adds a trial. If its state is final, only counts it and returns nullptr.
  TrialState* Add(TrialRow row);
  /// Takes back the ends of trials: adds them as PAUSED, with the operations
  /// that `events`, all of the search until now, have given them. `rows` are
  /// their records. REQUIRES: they have ended.
  void Reopen(const std::vector<TrialRow>& rows,
              const std::vector<SearcherEventRow>& events);
  /// Returns the trial with this number, or nullptr if it has ended.
  TrialState* Find(std::int64_t number);

  /// Applies an event to its trial. Precedes the call of the searcher.
  void ApplyEvent(const Event& event);
  /// Applies an operation that the searcher returned for `cause`. Returns its
  /// trial; nullptr if that has ended, and for Create and Shutdown. A Reopen of
  /// a trial in the table removes what has ended it.
  TrialState* ApplyOperation(const Event& cause, const Operation& operation);

  /// Updates whether the trial is in `idle` and `ending`. Follows each change
  /// of its process.
  void Refile(const TrialState& trial);

  /// Sets that the trial has trained to `length`, in the searcher's unit. Never
  /// lowers it.
  void Reach(TrialState& trial, double length);

  /// Gives the trial a process, which is queued for its slot and starts from
  /// the checkpoint `restored` at `from` batches.
  TrialProcess& StartProcess(TrialState& trial, std::string restored,
                             std::int64_t from);
  /// Removes the trial's process and returns it.
  std::unique_ptr<TrialProcess> EndProcess(TrialState& trial);
  /// Removes a trial that has ended. The object lives until `Sweep`, since the
  /// caller may still use it. REQUIRES: no process.
  void End(TrialState& trial);
  void Sweep() { swept_.clear(); }

  /// Trials that have not ended, by number.
  const Trials& trials() const { return trials_; }
  /// Trials that have a process, by number: no more than there are slots.
  const Live& live() const { return live_; }
  /// Numbers of the live trials that are idle.
  const std::set<std::int64_t>& idle() const { return idle_; }
  /// Number of live trials whose process is about to end.
  std::size_t ending() const { return ending_.size(); }
  std::int64_t created() const { return created_; }
  std::int64_t ended() const { return ended_; }
  /// Number of ended trials that completed or were stopped by the searcher.
  std::int64_t finished() const { return finished_; }
  /// Number of ended trials that a user killed.
  std::int64_t killed() const { return killed_; }
  /// Number of ended trials that have reported the search's metric.
  std::int64_t measured() const { return measured_; }
  /// Length trained by all trials together, in the searcher's unit.
  double trained_length() const { return trained_length_; }
  /// Part of it that ended trials have trained.
  double ended_length() const { return ended_length_; }

 private:
  void CountEnd(const TrialRow& row, std::int64_t count = 1);
  std::int64_t NextTurn();
  std::int64_t TurnBehind(std::int64_t deferred);

  Trials trials_;
  Live live_;
  std::set<std::int64_t> idle_;
  std::set<std::int64_t> ending_;
  std::vector<std::unique_ptr<TrialState>> swept_;
  std::int64_t created_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t killed_ = 0;
  std::int64_t measured_ = 0;
  double trained_length_ = 0;
  double ended_length_ = 0;
  // Lengths of replayed operations of ended trials, by number.
  std::map<std::int64_t, double> replayed_;
  std::int64_t turns_ = 0;  // given or reserved so far
  // Turns of deferred trials, as ranges: the first turn, and the number.
  std::deque<std::pair<std::int64_t, std::int64_t>> reserved_turns_;
  std::int64_t reserved_ = 0;  // their number
};

}  // namespace dtrain
