#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/expression.h"

namespace dtrain {

class Store;
struct ExperimentRow;
struct GlobalOptions;

/// Parses the comparisons of every `--require`. Throws Error(kUsage) for one
/// that can never be true: an unknown state, a metric compared with a string.
std::vector<Comparison> ParseRequirements(
    const std::vector<std::string>& expressions);

/// Evaluates each for the experiment: `state`, or a metric of the best trial at
/// its best validation.
std::vector<Check> CheckRequirements(
    const std::vector<Comparison>& requirements, const Store& store,
    const ExperimentRow& experiment);

/// Prints the unmet requirements on stderr; returns true if all are met.
[[nodiscard]] bool ReportUnmet(const std::vector<Check>& checks,
                               std::int64_t experiment,
                               const GlobalOptions& globals);

}  // namespace dtrain
