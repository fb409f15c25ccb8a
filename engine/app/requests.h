#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/app/stores.h"
#include "engine/base/clock.h"
#include "engine/store/rows.h"

namespace dtrain {

/// A request for an experiment or trial, and what has become of it.
struct PendingRequest {
  Target target;
  State state = State::kPending;  // of the trial if one is named
  bool running = false;           // the experiment has a runner
  std::int64_t request = 0;       // 0: none was made
  bool failed = false;

  std::string Name() const {
    const std::string id = std::to_string(target.experiment);
    return target.trial ? "trial " + id + "." + std::to_string(*target.trial)
                        : "experiment " + id;
  }
};

/// Reads the state of the target and whether its experiment has a runner.
void UpdateRequest(const Store& store, PendingRequest& pending);

/// Cancels an experiment that has no runner: records the states of every
/// unfinished trial and of the experiment under the runner's lock.
void CancelWithoutRunner(Store& store, std::int64_t id);

/// Records the requests for all targets that have a runner in one transaction,
/// so that a target that does not exist leaves the others alone.
void RecordRequests(RequestKind kind, std::vector<PendingRequest>& all,
                    const GlobalOptions& globals);

/// Waits until all recorded requests are done. Returns false on timeout.
bool WaitForRequests(const Store& store, std::vector<PendingRequest>& all,
                     Duration timeout);

}  // namespace dtrain
