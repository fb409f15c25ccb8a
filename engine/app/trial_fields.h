#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/query/field.h"
#include "engine/store/store.h"
#include "searchers/hparam_space.h"

namespace dtrain {

/// Begins the names of hyperparameters, hp.lr.
inline constexpr std::string_view kHparamPrefix = "hp.";

/// Begins the names of metrics where a column has the same name, metric.best.
inline constexpr std::string_view kMetricPrefix = "metric.";

/// True if trials have a column of this name.
bool IsTrialColumn(std::string_view name);

/// The columns of trials, and their other names, for the filter of the page:
/// [[name, kind, column, true if a hyperparameter or metric of this name comes
/// first], …].
nlohmann::json TrialColumnsJson();

/// The fields of an experiment's trials in the language of --filter, --sort and
/// --columns: columns (`state`), hyperparameters (`hp.lr`), metrics
/// (`val_loss`, the value at the trial's best validation), and functions of
/// metrics (`min(val_loss)`). Values of metrics are read when a field is first
/// resolved or looked up. One thread.
class TrialFields {
 public:
  /// `only`: values of metrics are read for this trial alone. `utf8`: spark()
  /// draws with block characters. `store` and `experiment` must outlive this.
  TrialFields(const Store& store, const ExperimentDetail& experiment,
              Timestamp now, bool utf8,
              std::optional<std::int64_t> only = std::nullopt);

  /// The surroundings of an expression that `option` has. Refers to this.
  QueryContext Context(const std::string& option);
  /// Returns the meaning of a field. Throws Error(kNotFound) with all names for
  /// an unknown one, Error(kUsage) for one that may be a hyperparameter or a
  /// metric.
  ResolvedField Resolve(const FieldName& field);
  /// Returns the fields that `hp.*` stands for: the searched hyperparameters,
  /// or all if nothing was searched.
  std::vector<FieldName> Expand(const std::string& pattern);
  /// The value of a field that was resolved.
  FieldValue GetValue(const TrialRow& row, const FieldName& field);

  /// The parts of trials that the resolved fields need.
  const TrialParts& parts() const { return parts_; }
  /// True if the field is a metric, or a function of one.
  bool IsMetric(const FieldName& field);
  /// Names that were read as columns, though hyperparameters or metrics have
  /// them, too.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  enum class Meaning { kColumn, kExperiment, kHparam, kMetric };
  struct Place {
    Meaning meaning = Meaning::kColumn;
    std::string name;  // without prefix
  };
  using Values = std::map<std::int64_t, double>;  // by number of the trial

  Place ResolvePlace(const FieldName& field);
  bool HasMetric(const std::string& name);
  const nlohmann::json& Space() const;
  const HparamName* FindHparam(const std::string& name);
  bool HasHparam(const std::string& name);
  void AddColumnNote(const std::string& name, bool is_metric, bool is_hparam);
  [[noreturn]] void FailUnknown(const std::string& name);
  FieldValue GetHparam(const TrialRow& row, const std::string& name);
  void ReadHparams();
  const Values& GetValues(const FieldName& field, const std::string& metric);
  Values ReadAt(const FieldName& field, const std::string& metric) const;
  std::string Spark(std::int64_t trial, const std::string& metric) const;

  const Store& store_;
  const ExperimentDetail& experiment_;
  const Timestamp now_;
  const bool utf8_;
  const std::optional<std::int64_t> only_;
  TrialParts parts_{.hparams = false, .checkpoints = false};
  std::optional<std::vector<std::string>> metrics_;
  std::optional<std::vector<HparamName>> hparams_;
  std::map<FieldName, Place> places_;
  std::map<FieldName, Values> values_;
  // Hyperparameters that fields name, and their values in each trial, for rows
  // that were read without them.
  std::vector<std::string> named_hparams_;
  std::size_t read_hparams_ = 0;  // the first of these that are read
  std::map<std::int64_t, std::vector<FieldValue>> hparam_values_;
  std::vector<std::string> notes_;
};

/// The fields of the trials of several experiments. A field is looked up in the
/// experiment of each trial; a name that only some of them know has no value in
/// the others. One thread.
class JointFields {
 public:
  /// `store` and `experiments` must outlive this.
  JointFields(const Store& store,
              const std::vector<ExperimentDetail>& experiments, Timestamp now,
              bool utf8);
  JointFields(const JointFields&) = delete;
  JointFields& operator=(const JointFields&) = delete;
  ~JointFields();

  /// As those of TrialFields; a name is unknown if no experiment knows it.
  QueryContext Context(const std::string& option);
  ResolvedField Resolve(const FieldName& field);
  std::vector<FieldName> Expand(const std::string& pattern);
  FieldValue GetValue(const TrialRow& row, const FieldName& field);
  TrialParts parts() const;
  bool IsMetric(const FieldName& field);
  /// Those of all experiments, each once.
  std::vector<std::string> notes() const;

 private:
  struct Member;

  const Timestamp now_;
  std::vector<std::unique_ptr<Member>> members_;
};

/// Returns the value of a hyperparameter as a field: numbers, texts, and other
/// JSON as its text; none for null and a discarded value.
FieldValue HparamValue(const nlohmann::json& value);
/// Returns that of the hyperparameter `name`; none if there is none.
FieldValue HparamValue(const nlohmann::json& hparams, const std::string& name);

/// Reads the rows of the same trials again, with all parts.
std::vector<TrialRow> WithAllParts(const Store& store,
                                   const ExperimentRow& experiment,
                                   const std::vector<TrialRow>& rows);

}  // namespace dtrain
