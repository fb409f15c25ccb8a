#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/query/filter.h"

namespace dtrain {

class Store;
struct ExperimentRow;
struct GlobalOptions;

/// Requirements of a command on an experiment that has ended.
struct Demands {
  std::vector<Filter> requirements;
  // The best trial counts for them even if it failed after its validation.
  bool counts_failed = false;
  std::optional<std::int64_t> max_failed;  // trials; empty: all but one
};

/// Parses the conditions of every `--require`, those joined by `and` each for
/// itself. Throws Error(kUsage) for one that can never be true: an unknown
/// state, a metric compared with a string.
std::vector<Filter> ParseRequirements(
    const std::vector<std::string>& expressions);

/// Returns a warning for each metric that the requirements name and that is not
/// in `metrics`, those reported up to the first validation.
std::vector<std::string> FindUnreported(
    const std::vector<Filter>& requirements,
    const std::vector<std::string>& metrics);

/// Evaluates the requirements for the experiment: `state`, numbers of trials
/// (`failed`, `completed`, `stopped`, `trials`) unless a metric has the name,
/// and of the best trial `hp.NAME`, a metric at its best validation (or the
/// last value before it), or a function of a metric. A requirement that depends
/// on a metric that was not reported is not met.
std::vector<Check> CheckRequirements(const Demands& demands, const Store& store,
                                     const ExperimentRow& experiment);

/// Says on stderr how many trials of an experiment that has ended have failed.
/// Returns false if they are more than may fail, or if one failed for its
/// configuration.
[[nodiscard]] bool ReportFailedTrials(const Demands& demands,
                                      const Store& store,
                                      const ExperimentRow& experiment,
                                      const GlobalOptions& globals);

/// Prints the unmet requirements on stderr; returns true if all are met.
[[nodiscard]] bool ReportUnmet(const std::vector<Check>& checks,
                               std::int64_t experiment,
                               const GlobalOptions& globals);

}  // namespace dtrain
