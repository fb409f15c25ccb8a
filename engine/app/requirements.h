#pragma once

#include <string>
#include <vector>

#include "engine/app/notices.h"
#include "engine/report/expression.h"
#include "engine/store/store.h"

namespace dtrain {

/// The comparisons of every `--require`. Throws Error(kUsage) for what can
/// never be met: a state that there is not, a metric compared with a text.
std::vector<Comparison> ParseRequirements(
    const std::vector<std::string>& expressions);

/// Holds each against the experiment: `state`, else a metric of the best
/// trial where it was at its best.
std::vector<Check> CheckRequirements(
    const std::vector<Comparison>& requirements, const Store& store,
    const ExperimentRow& experiment);

/// Says on stderr which are not met and why; true if all are.
[[nodiscard]] bool ReportUnmet(const std::vector<Check>& checks,
                               std::int64_t experiment,
                               const GlobalOptions& globals);

}  // namespace dtrain
