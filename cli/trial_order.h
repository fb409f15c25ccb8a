#pragma once

#include <string>
#include <vector>

#include "engine/store/store.h"

namespace dtrain {

/// Sorts `trials` of `experiment` by a validation metric: the searcher's best
/// first, another one's least first; its value where the trial was at its best,
/// else its last. Trials without one, and NaN, come last. Throws
/// Error(kNotFound) if no trial reported it, naming what was reported.
void SortByMetric(const Store& store, const ExperimentRow& experiment,
                  const std::string& metric, std::vector<TrialRow>& trials);

/// Sorts them by `key`: "best" (by the searcher's metric), "rung" (the highest
/// first, then the best), or else a metric. Throws as SortByMetric.
void SortTrials(const Store& store, const ExperimentRow& experiment,
                const std::string& key, std::vector<TrialRow>& trials);

}  // namespace dtrain
