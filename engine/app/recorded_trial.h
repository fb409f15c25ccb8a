#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/store/rows.h"

namespace dtrain {

class Store;
class StoreLayout;
struct ExperimentConfig;
struct GlobalOptions;

/// Receives the findings about a configuration.
using NoteDiagnostics = std::function<void(const Diagnostics&)>;

/// A trial and its experiment.
struct RecordedTrial {
  ExperimentDetail experiment;
  TrialRow row;
};

/// Throws Error(kNotFound) with what to do.
RecordedTrial FindRecordedTrial(const Store& store, TrialId id);

/// Returns the configuration of the trial as that of an experiment with one
/// trial: its hyperparameters become constants, its searcher `single`.
nlohmann::json SingleTrialConfig(const RecordedTrial& trial);

/// Returns SingleTrialConfig with the `overrides` of `--set` and more labels.
/// Passes all findings to `note`, unread hyperparameters included; environment
/// variables are taken from this process. Throws Error(kUsage) if there is an
/// error, or where a hyperparameter is given another type than the trial had.
ExperimentConfig ReadSingleTrialConfig(const RecordedTrial& trial,
                                       const nlohmann::json& effective,
                                       std::vector<std::string> overrides,
                                       const std::vector<std::string>& labels,
                                       const StoreLayout& layout,
                                       const NoteDiagnostics& note,
                                       const GlobalOptions& globals);

/// Returns the provenance of the new experiment; the commit is that of the
/// trial's experiment.
nlohmann::json SingleTrialProvenance(const RecordedTrial& trial,
                                     const ExperimentConfig& config,
                                     const GlobalOptions& globals);

}  // namespace dtrain
