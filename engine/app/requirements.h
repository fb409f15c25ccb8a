#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/query/check.h"
#include "engine/query/filter.h"

namespace dtrain {

class Store;
struct ExperimentRow;
struct GlobalOptions;

/// Parses the conditions of every `--require`, those joined by `and` each for
/// itself. Throws Error(kUsage) for one that can never be true: an unknown
/// state, a metric compared with a string.
std::vector<Filter> ParseRequirements(
    const std::vector<std::string>& expressions);

/// Evaluates each for the experiment: `state`, and of the best trial `hp.NAME`,
/// a metric at its best validation (or the last value before it), or a function
/// of a metric. A requirement
/// that depends on a metric that was not reported is not met.
std::vector<Check> CheckRequirements(const std::vector<Filter>& requirements,
                                     const Store& store,
                                     const ExperimentRow& experiment);

/// Prints the unmet requirements on stderr; returns true if all are met.
[[nodiscard]] bool ReportUnmet(const std::vector<Check>& checks,
                               std::int64_t experiment,
                               const GlobalOptions& globals);

}  // namespace dtrain
