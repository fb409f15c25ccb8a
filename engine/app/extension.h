#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/store/store.h"

namespace dtrain {

/// A larger plan of a search. A value is the new total, or with a leading '+'
/// what is added to the present one; empty: as before.
struct PlanChange {
  std::string max_trials;  // "64", "+16"
  // Of bayesian_asha: a length in the unit of max_length, or a duration: "300",
  // "+100", "8h", "+2h".
  std::string budget;
};

/// Returns the configuration of a recorded experiment with a larger plan, and
/// the rungs that it was created with. Throws Error(kUsage) for a value that is
/// not valid or not larger and for a method without max_trials, Error(kFailed)
/// for an experiment that cannot go on.
nlohmann::json ExtendConfig(const ExperimentDetail& detail,
                            const PlanChange& change);

/// Records that the plan was extended: a COMPLETED experiment is PAUSED then.
/// The searcher gets the change from the runner. Throws Error(kStore) if
/// `detail` is not what is recorded.
void RecordExtension(Store& store, const ExperimentDetail& detail,
                     const nlohmann::json& config, Timestamp now);

}  // namespace dtrain
