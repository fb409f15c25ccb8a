#pragma once

#include <array>
#include <cstdint>
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

/// Why a trial's process was asked to end.
enum class StopCause {
  kNone,
  kPause,    // another trial wants its slot, and it has nothing to do
  kRunner,   // the runner ends: Ctrl-C, a time limit
  kFailure,  // it broke the rules; `failure` says how
  kHang,     // no step for too long
  kCancel,   // a user wants it killed
};

/// A trial's process, from the moment it waits for its slot.
struct ProcessState {
  bool running = false;         // it has its slot
  bool operation_sent = false;  // it works on the trial's first operation
  bool close_sent = false;
  StopCause stop = StopCause::kNone;
  std::string failure;
  std::optional<Finished> last_word;
  Duration started{0};
  Duration last_step{0};
  Progress progress;
  std::int64_t unacknowledged = 0;  // highest seq to acknowledge; 0: none
  std::string restored;             // the checkpoint it began from, or empty
  std::int64_t from = 0;            // the batches of that
  // Values that earlier runs measured beyond `from` stand in the record up to
  // these batches; 0: none. They count until this run measures them again or,
  // by kind of metric, has passed them: up to `passed`.
  std::int64_t earlier = 0;
  std::array<std::int64_t, 2> passed{};     // by MetricKind, not inclusive
  std::optional<BestValidation> validated;  // its last validation
  // Since when it waits for disk space, because of `failure`; none: it does
  // not.
  std::optional<Duration> disk_wait;
  int told_of_disk = 0;         // 1: of a failed checkpoint, 2: that it waits
  double recorded_seconds = 0;  // of its running time

  // What it reported last.
  MetricValues training;
  MetricValues validation;
};

/// What a runner knows of a trial that has not ended. A plain record, changed
/// by Experiment and its TrialTable. A search may have a hundred thousand
/// trials that are paused: what only a process needs is in `process`.
struct TrialState {
  // As recorded, and ahead of it by what is in the outbox. Its `batches` are
  // as far as values are recorded; after a restart the trial is not there yet.
  TrialRow row;
  std::int64_t position = 0;  // batches trained by its last process

  // What the searcher wants of it.
  std::vector<std::int64_t> operations;  // absolute lengths, first is current
  std::int64_t turn = 0;                 // place in the queue for slots
  std::vector<std::int64_t> completed;   // lengths of operations, ascending
  double reached = 0;                    // longest length trained to so far
  bool close_requested = false;
  bool ended_early = false;  // by itself, with success
  std::string why_early;     // as it said itself, or empty
  bool exit_told = false;    // the searcher knows of an early exit
  // NaN or infinite, if an operation ended with such a metric.
  std::optional<double> bad_metric;

  std::unique_ptr<ProcessState> process;  // none: it has no process
  bool ended = false;                     // its state is final
  // What the trial said when it failed, if it has not trained since.
  std::string last_failure;
  std::vector<std::string> last_lines;  // of the log of its last process

  /// The longest operation completed.
  std::int64_t trained() const {
    return completed.empty() ? 0 : completed.back();
  }
  TrialIndex index() const { return row.id.number - 1; }
  bool has_work() const { return !operations.empty(); }
  /// It has a process that nothing was asked of: the process can go on with
  /// the next operation, or give its slot away.
  bool idle() const {
    return process && process->running && !has_work() && !process->close_sent &&
           process->stop == StopCause::kNone;
  }
};

/// The trials that want a process: those that wait for a slot, in the order of
/// their turns, and those that failed and wait a while before that, with or
/// without the slot that they had. Trials are known by number. Every call takes
/// O(log n).
class StartQueue {
 public:
  /// The trial waits for a slot from now on. Does nothing if it does already
  /// or was put off.
  void Add(std::int64_t turn, std::int64_t trial);
  /// The trial waits for a slot from `when` on. If it `keeps_slot`, `held`
  /// counts it until then. REQUIRES: it does not wait.
  void PutOff(Duration when, std::int64_t turn, std::int64_t trial,
              bool keeps_slot = false);
  /// Lets those wait for a slot that were put off until `now` at most.
  void Wake(Duration now);
  /// When `Wake` has something to do.
  std::optional<Duration> next_wake() const;

  /// Takes out the trial whose turn it is. REQUIRES: size() > 0.
  std::int64_t Pop();
  void Clear();

  /// How many wait for a slot; without those put off.
  std::size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty() && later_.empty(); }
  /// Number of slots that are kept free for trials that were put off.
  std::size_t held() const { return held_.size(); }

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;  // turn, trial

  std::set<Place> waiting_;
  std::multimap<Duration, Place> later_;
  std::set<std::int64_t> put_off_;  // the trials in `later_`
  std::set<std::int64_t> held_;     // those of them that keep their slot
};

/// The trials of a search that have not ended, what the searcher wants of
/// them, and which have a process. Pure: it is brought to the same state by
/// the events and operations as they happen and as they were recorded.
class TrialTable {
 public:
  using Trials = std::map<std::int64_t, std::unique_ptr<TrialState>>;
  using Live = std::map<std::int64_t, TrialState*>;

  /// Adds a trial; one whose state is final is only counted, and the result is
  /// nullptr.
  TrialState* Add(TrialRow row);
  /// The trial of a number, or nullptr if it has ended.
  TrialState* Find(std::int64_t number);

  /// Notes what an event says of its trial, before the searcher hears of it.
  void Take(const Event& event);
  /// Notes what the searcher wants in answer to `cause`. Gives the trial
  /// concerned; nullptr where it has ended, and for Create and Shutdown.
  TrialState* Give(const Event& cause, const Operation& operation);

  /// Notes that the trial has trained to `length`, in the searcher's unit.
  void Reach(TrialState& trial, double length);

  /// The trial gets a process, which waits for its slot, or loses it.
  void StartProcess(TrialState& trial);
  std::unique_ptr<ProcessState> EndProcess(TrialState& trial);
  /// The trial has ended: it is not found any more. The object lives until
  /// `Sweep`, since its caller may still be at it. REQUIRES: no process.
  void End(TrialState& trial);
  void Sweep() { swept_.clear(); }

  /// Those that have not ended, by number.
  const Trials& trials() const { return trials_; }
  /// Those that have a process, by number: no more than there are slots.
  const Live& live() const { return live_; }
  std::int64_t created() const { return created_; }
  std::int64_t ended() const { return ended_; }
  /// Ended trials that finished their work or were stopped by the searcher.
  std::int64_t finished() const { return finished_; }
  /// Ended trials that a user killed.
  std::int64_t killed() const { return killed_; }
  /// Length trained by all trials together, in the searcher's unit.
  double trained_length() const { return trained_length_; }
  /// The part of it that ended trials have trained.
  double ended_length() const { return ended_length_; }

 private:
  void CountEnd(State state);

  Trials trials_;
  Live live_;
  std::vector<std::unique_ptr<TrialState>> swept_;
  std::int64_t created_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t killed_ = 0;
  double trained_length_ = 0;
  double ended_length_ = 0;
  // Lengths of replayed operations of trials that had ended before, by number.
  std::map<std::int64_t, double> replayed_;
  std::int64_t turns_ = 0;  // given so far
};

}  // namespace dtrain
