#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"

namespace dtrain {

/// A value that a trial of another program has reported.
struct ImportedValue {
  std::int64_t step = 0;
  double epoch = 0;  // 0: unknown
  std::string name;
  double value = 0;       // NaN and infinities as themselves
  bool training = false;  // otherwise a validation
  std::optional<Timestamp> time;
  std::int64_t line = 0;  // of its file; 0: it has none
};

/// A trial of another program.
struct ImportedTrial {
  std::string id;           // in its source
  std::int64_t number = 0;  // from 1
  std::string state = "COMPLETED";
  std::string reason;
  std::map<std::string, nlohmann::json> hparams;  // names joined by dots
  nlohmann::json nested;  // those, nested at the dots, by MakeImportedConfig
  std::vector<ImportedValue> values;
  std::optional<Timestamp> started;
  std::optional<Timestamp> ended;
  double seconds = 0;
  std::int64_t batches = 0;  // 0: those of its last value
  std::optional<std::int64_t> rung;
  std::uint32_t seed = 0;
  std::int64_t line = 0;

  bool HasFailed() const { return state == "ERROR" || state == "INVALID"; }
};

/// Results of another program.
struct ImportedResults {
  std::string file;  // for messages
  std::vector<ImportedTrial> trials;
  std::string metric;                     // empty: the source names none
  std::optional<bool> smaller_is_better;  // none: the source does not say
  // Ranges that the source has, by names of hyperparameters.
  std::map<std::string, nlohmann::json> ranges;
  std::vector<std::string> notes;  // about what was left out
  // Columns became metrics only because they have numbers.
  bool guesses_metrics = false;
};

/// A text with a table: CSV (RFC 4180, with commas, semicolons or tabs and a
/// header) or an object a line.
struct TableText {
  std::string file;  // for messages
  std::string_view text;
  bool json_lines = false;
};

/// Choices of columns.
struct ColumnOptions {
  std::string metric;                // empty: the only one
  std::vector<std::string> hparams;  // empty: by their prefixes
};

/// Reads trials: a row each, or a row for each of their steps, or for each
/// value with its name. Hyperparameters are the columns hp.NAME, hparams.NAME,
/// config.NAME, config/NAME, params_NAME and params.NAME; columns of numbers
/// that have no other meaning are metrics. Throws Error(kUsage) with file,
/// line, cause and remedy.
ImportedResults ReadTrialTable(const TableText& table,
                               const ColumnOptions& options);

/// Adds values to the trials: columns trial, batches or step, name, value and,
/// if present, kind, epoch and time. Throws as ReadTrialTable.
void ReadValueTable(const TableText& table, ImportedResults& results);

/// Returns the name in dtrain of a state of a trial: COMPLETED, STOPPED, ERROR,
/// CANCELED, INVALID, or RUNNING for one that has not ended; nothing for an
/// unknown word.
std::optional<std::string> ParseTrialState(std::string_view word);

/// Chooses the metric, leaves out trials that have not ended, numbers the
/// others, and sorts their values. Throws Error(kUsage) for an unknown metric
/// and for a value that is there twice.
void FinishResults(const std::string& metric, ImportedResults& results);

/// Returns a configuration of a random search over a space that has all values
/// of the results: their own ranges, or the smallest ones; a hyperparameter
/// that some trials lack is conditional if another one decides it. Sets
/// `nested` of the trials. `maximize`: none if neither the user nor the source
/// says. Throws Error(kUsage) for names of hyperparameters that exclude one
/// another, or too many texts.
nlohmann::json MakeImportedConfig(const std::string& name,
                                  std::optional<bool> maximize,
                                  ImportedResults& results);

}  // namespace dtrain
