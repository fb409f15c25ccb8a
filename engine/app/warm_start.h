#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"

namespace dtrain {

struct ExperimentConfig;
struct GlobalOptions;

/// Key of the trials whose hyperparameters became points, in the provenance of
/// an experiment.
inline constexpr char kWarmStart[] = "warm_start";

/// Returns the problem that keeps `searcher.warm_start` from adding a point: an
/// experiment that does not exist, a label that none has, or no trial that
/// fits. Nothing without one.
std::optional<Diagnostic> FindWarmStartProblem(const ExperimentConfig& config,
                                               const GlobalOptions& globals);

/// Returns a note that names the newest finished searches of this store, at
/// most 4, that `searcher.warm_start` could begin with: by the same metric and
/// direction, the best trial with all hyperparameters that are searched now.
/// Nothing if there are none, the search has warm_start or takes no points.
std::optional<std::string> SuggestWarmStart(const ExperimentConfig& config,
                                            const GlobalOptions& globals);

/// Replaces `searcher.warm_start` by points, once for a new experiment: appends
/// to `searcher.points` the hyperparameters of the best trials of each of its
/// experiments. Says which trials they are, and how many do not fit the
/// hyperparameters searched now. Returns the trials ("12.3") in the order of
/// their points; null without the key. Throws Error(kUsage) with
/// FindWarmStartProblem.
nlohmann::json ResolveWarmStart(ExperimentConfig& config,
                                const GlobalOptions& globals);

}  // namespace dtrain
