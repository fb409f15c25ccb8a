#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/convert/imported_trials.h"

namespace dtrain {

class Store;
struct ExperimentConfig;

struct ResultImport {
  // A file or directory, or optuna:sqlite:///FILE.
  std::string source;
  std::string values;  // table of the values of these trials, or empty
  std::string name;    // empty: of the source
  std::string metric;
  bool maximize = false;
  std::vector<std::string> hparams;  // columns
  std::string study;                 // of Optuna
};

/// An experiment that is to be recorded.
struct ImportedExperiment {
  ImportedResults results;
  nlohmann::json config;  // as MakeImportedConfig returns it
  nlohmann::json origin;  // kImported of its provenance
};

/// Reads the results of another program: a CSV or JSON lines, the directory of
/// `dtrain export`, a database of Optuna, a directory `wandb`, or one of event
/// files of TensorBoard with a run a subdirectory. Throws Error(kUsage) with
/// file, line, cause and remedy for one that cannot be imported as a whole.
ImportedExperiment ReadImport(const ResultImport& options);

/// Checks the configuration; adds what is to be said of it to `findings`.
/// Throws Error(kUsage) if it has an error.
ExperimentConfig CheckImportedConfig(const ImportedExperiment& imported,
                                     Diagnostics& findings);

/// Returns the first experiment that the same source was recorded as.
std::optional<std::int64_t> FindSameImport(const Store& store,
                                           const nlohmann::json& origin);

/// Records the experiment, COMPLETED, in one transaction. Returns its id.
std::int64_t RecordImport(Store& store, const ImportedExperiment& imported,
                          const ExperimentConfig& config,
                          nlohmann::json provenance, Timestamp now);

}  // namespace dtrain
