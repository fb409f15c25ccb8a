#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/query/field.h"

namespace dtrain {

class Store;
class TrialFields;
struct ExperimentDetail;
struct ExperimentRow;
struct TrialRow;

/// The fields of experiments in the language of --filter, --sort and --columns:
/// columns (`state`, `label`), and hyperparameters, metrics and functions of
/// metrics of each experiment's best trial, as TrialFields has them. What is
/// not in an ExperimentRow is read when a field needs it. One thread.
class ExperimentFields {
 public:
  /// `rows`: the experiments whose names are known. `utf8`: spark() draws with
  /// block characters. `store` and `rows` must outlive this.
  ExperimentFields(const Store& store, const std::vector<ExperimentRow>& rows,
                   Timestamp now, bool utf8);
  ~ExperimentFields();

  /// The surroundings of an expression that `option` has. Refers to this.
  QueryContext Context(const std::string& option);
  /// Returns the meaning of a field. Throws Error(kUsage) for one that neither
  /// is a column nor known to the best trial of any experiment.
  ResolvedField Resolve(const FieldName& field);
  /// Returns the fields that `hp.*` stands for: the searched hyperparameters of
  /// all experiments.
  std::vector<FieldName> Expand(const std::string& pattern);
  /// The value of a field that was resolved.
  FieldValue GetValue(const ExperimentRow& row, const FieldName& field);

 private:
  // The best trial of an experiment; `fields` is null if there is none.
  struct BestTrial;

  BestTrial& GetBestTrial(const ExperimentRow& row);
  const ExperimentDetail& GetDetail(const ExperimentRow& row);

  const Store& store_;
  const std::vector<ExperimentRow>& rows_;
  const Timestamp now_;
  const bool utf8_;
  std::map<std::int64_t, std::unique_ptr<ExperimentDetail>> details_;
  std::map<std::int64_t, std::unique_ptr<BestTrial>> best_;
};

/// Bytes on disk of an experiment's directory, with checkpoints that are kept
/// elsewhere.
std::int64_t BytesOnDisk(const Store& store, std::int64_t experiment);

}  // namespace dtrain
