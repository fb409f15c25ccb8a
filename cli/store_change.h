#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/store_access.h"
#include "engine/run/runner_lock.h"

namespace dtrain {

/// The ids in `words`, each once. Throws Error(kUsage) for what is none.
std::vector<std::int64_t> ParseExperimentIds(
    const std::vector<std::string>& words);

/// The store of this invocation, opened for writing. Throws Error(kNotFound)
/// unless each of `experiments` is in it: a store that is not there is not
/// made.
Store OpenStoreToChange(const GlobalOptions& globals,
                        const std::vector<std::int64_t>& experiments);

/// Throws Error(kStore) that names the experiment's runner if it has one;
/// `remedy` is what to do then.
void RequireNoRunner(const Store& store, std::int64_t experiment,
                     const std::string& remedy);

/// Holds the experiment's runner lock, so that nobody starts to run it
/// meanwhile; none where it has no directory of its own, in which there could
/// be a lock. Throws Error(kStore) that names its runner.
std::optional<RunnerLock> LockExperiment(const Store& store,
                                         std::int64_t experiment);

/// "process 12 on box".
std::string RunnerText(const RunnerIdentity& runner);

}  // namespace dtrain
