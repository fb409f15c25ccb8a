#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/app/checkpoints.h"
#include "engine/app/record_experiment.h"
#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/store/rows.h"

namespace dtrain {

class Store;
struct GlobalOptions;

/// Receives the findings about a configuration.
using NoteDiagnostics = std::function<void(const Diagnostics&)>;

/// A trial and its experiment.
struct RecordedTrial {
  ExperimentDetail experiment;
  TrialRow row;
  bool is_example = false;  // messages name the experiment

  /// "trial 3.7", or "experiment 3".
  std::string Name() const;
};

/// Throws Error(kNotFound) with what to do.
RecordedTrial FindRecordedTrial(const Store& store, TrialId id);

/// Returns the configuration of the trial as that of an experiment with one
/// trial: its hyperparameters become constants, its searcher `single`.
nlohmann::json SingleTrialConfig(const RecordedTrial& trial);

/// Returns the configuration that trains the trial's hyperparameters from the
/// beginning of its experiment: SingleTrialConfig with the trial's seed and the
/// checkpoint that the experiment started from.
nlohmann::json RerunConfig(const RecordedTrial& trial);

/// Changes that a command makes to a recorded configuration.
struct ConfigChanges {
  std::vector<std::string> overrides;  // of --set, as KEY=VALUE
  std::vector<std::string> labels;     // added to those of the configuration
};

/// A new experiment that is made of a recorded one, with its stored context.
struct DerivedExperiment {
  ExperimentConfig config;
  ExperimentParts parts;
  nlohmann::json provenance;  // the commit is that of the recorded one
};

/// Returns the experiment of one trial that `effective`, a variant of
/// SingleTrialConfig, describes. It starts from the checkpoint `start`, or
/// without one from that which the configuration names. Passes all findings to
/// `note`, unread hyperparameters included; environment variables are taken
/// from this process. Throws Error(kUsage) if there is an error, a
/// hyperparameter is given another type than the trial had, or it cannot run on
/// this machine; Error(kStore) or Error(kDamaged) if the stored context is not
/// as it was recorded.
DerivedExperiment DeriveExperiment(const Store& store,
                                   const RecordedTrial& trial,
                                   const nlohmann::json& effective,
                                   const ConfigChanges& changes,
                                   const std::optional<SourceCheckpoint>& start,
                                   const NoteDiagnostics& note,
                                   const GlobalOptions& globals);

/// Fills in the environment variables of a recorded configuration from this
/// process, unless it has values. Warns about those that are missing.
void FillRecordedEnvironment(ExperimentConfig& config,
                             const GlobalOptions& globals);

/// Returns the checkpoint that the new configuration names: the copy that the
/// recorded experiment keeps, if it is that one.
std::optional<SourceCheckpoint> FindSourceLike(
    const Store& store, const ExperimentDetail& experiment,
    ExperimentConfig& config, const GlobalOptions& globals);

/// Throws Error(kUsage) if the experiment runs a program of which no files were
/// stored, or was imported.
void RequireStoredFiles(const ExperimentDetail& experiment);

}  // namespace dtrain
