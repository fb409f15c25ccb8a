#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

}  // namespace dtrain
