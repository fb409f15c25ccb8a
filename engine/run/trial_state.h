#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/rows.h"
#include "engine/wire/message.h"
#include "searchers/searcher.h"

namespace dtrain {

enum class ProcessState { kNone, kQueued, kRunning };

/// Why a trial's process was asked to end.
enum class StopCause {
  kNone,
  kPause,    // another trial wants its slot, and it has nothing to do
  kRunner,   // the runner ends: Ctrl-C, a time limit
  kFailure,  // it broke the rules; `failure` says how
  kHang,     // no step for too long
};

/// What a runner knows of one trial. A plain record: Experiment changes it.
struct TrialState {
  TrialRow row;  // as recorded, and ahead of it by what is in the outbox

  // What the searcher wants of it.
  std::deque<std::int64_t> operations;  // absolute lengths, first is current
  bool close_requested = false;
  bool ended = false;        // state is final
  bool ended_early = false;  // by itself, with success
  bool exit_told = false;    // the searcher knows of an early exit
  std::int64_t trained = 0;  // longest operation completed

  // Its process.
  ProcessState process = ProcessState::kNone;
  bool operation_sent = false;  // the process works on operations.front()
  bool close_sent = false;
  StopCause stop = StopCause::kNone;
  std::string failure;
  std::optional<Finished> last_word;
  // What the trial said when it failed, if it has not trained since.
  std::string last_failure;
  std::optional<Duration> restart_at;  // waits until then to start again
  Duration started{0};
  Duration last_step{0};
  Progress progress;
  std::int64_t unacknowledged = 0;  // highest seq to acknowledge; 0: none

  // What it reported last.
  MetricValues training;
  MetricValues validation;
  std::int64_t validated_batches = -1;
  std::vector<CheckpointRow> checkpoints;  // COMPLETE, in order

  TrialIndex index() const { return row.id.number - 1; }
  /// The batch that its next process goes on from.
  std::int64_t restart_batches() const {
    return checkpoints.empty() ? 0 : checkpoints.back().batches;
  }
};

}  // namespace dtrain
