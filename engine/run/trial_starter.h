#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/run/experiment_state.h"

namespace dtrain {

/// Gives the slots to the trials that wait for one, in turn: starts their
/// processes, and pauses trials without an operation where a slot is wanted.
class TrialStarter {
 public:
  explicit TrialStarter(ExperimentState& state);

  /// Starts what can be started. REQUIRES: nothing urgent waits to be recorded.
  void Schedule();
  /// Asks every process to end; nothing is started any more. `why` becomes the
  /// reason of the trials that are left: "stopped by SIGTERM".
  void StopAll(const std::string& why);
  /// The same, and the user is told why: the machine lacks what is needed.
  void StopBecauseOf(const Error& problem);
  /// The same where the store or the directory of checkpoints was moved away
  /// from under the experiment (ExperimentState::WhyLost); false: it was not.
  bool StopIfLost(bool with_storage = true);
  /// The same, and the experiment ends in ERROR because of `why`.
  void FailBecauseOf(const std::string& why);

 private:
  std::size_t FreeSlots() const;
  void MakeRoom();
  void Start(TrialState& trial);
  TrialSpec SpecOf(const TrialState& trial) const;

  ExperimentState& state_;
  std::size_t most_at_once_;  // processes: what the searcher's limit allows
};

}  // namespace dtrain
