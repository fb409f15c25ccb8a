// A new experiment that repeats or continues a recorded trial, or repeats a
// whole recorded experiment.
//
// A trial of a search has concrete hyperparameters. They become constants, and
// the searcher becomes `single`; everything else stays as it was recorded.
// Overrides of --set are applied to that.

#include "engine/app/recorded_trial.h"

#include <utility>

#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/app/notices.h"
#include "engine/app/notifications.h"
#include "engine/app/provenance.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/context/stored_context.h"
#include "engine/run/reported_units.h"
#include "engine/run/runner.h"
#include "searchers/hparam_conditions.h"
#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Returns a search space with these hyperparameters as constants.
json Constants(const json& hparams) {
  json space = json::object();
  for (const auto& [name, value] : hparams.items()) {
    if (!value.is_object()) {
      space[name] = value;
    } else if (value.contains("type")) {
      // A bare object with "type" would be read as a range.
      space[name] = {{"type", "const"}, {"val", value}};
    } else {
      space[name] = Constants(value);
    }
  }
  return space;
}

// Adds the hyperparameters that are absent from the trial, with the condition
// by which they are: placeholders of the command name them.
void AddAbsent(const json& recorded_space, const json& hparams, json& space) {
  const HparamConditions conditions(recorded_space);
  for (const auto& one : conditions.conditional()) {
    if (Holds(one.when, hparams) || one.otherwise) continue;
    json* map = &space;
    for (const std::string& name : one.path) map = &(*map)[name];
    *map = {{"type", "const"}, {"val", nullptr}, {"when", one.when}};
  }
}

bool IsOfAnotherType(const json& value, const json& before) {
  if (value.is_number()) return !before.is_number();
  return value.type() != before.type();
}

std::string TypeText(const json& value) {
  return value.is_boolean() ? "true or false" : value.type_name();
}

// Reports a changed type now rather than when the trial reads the value.
void CheckTypes(const json& hparams, const json& before,
                const std::string& path, const std::string& where) {
  for (const auto& [name, old] : before.items()) {
    const auto found = hparams.find(name);
    if (found == hparams.end() || old.is_null()) continue;
    // Ranges are checked by the values they give.
    if (HasType(*found)) continue;
    const std::string key = path + "." + name;
    if (IsOfAnotherType(*found, old)) {
      throw Error(ErrorKind::kUsage,
                  "--set: " + key + " was " + old.dump() + " in " + where +
                      ", and " + found->dump() + " is not of its type (" +
                      TypeText(old) + "); nothing was created");
    }
    if (old.is_object()) CheckTypes(*found, old, key, where);
  }
}

json LabelsJson(const json& effective, const std::vector<std::string>& more) {
  json labels = effective.at("labels");
  for (const std::string& label : more) labels.push_back(label);
  return labels;
}

// Returns `effective` with the changes.
ExperimentConfig ReadSingleTrialConfig(const RecordedTrial& trial,
                                       const json& effective,
                                       const ConfigChanges& changes,
                                       const StoreLayout& layout,
                                       const NoteDiagnostics& note,
                                       const GlobalOptions& globals) {
  const std::string where = trial.Name();
  json base = effective;
  base["labels"] = LabelsJson(effective, changes.labels);
  ConfigResult result = ReadConfig(
      ToYaml(base), RecordedOptions(where, changes.overrides,
                                    layout.Context(trial.row.id.experiment)));
  note(result.diagnostics);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                where + ": " + refusal + "; nothing was created");
  }
  ExperimentConfig config = *std::move(result.config);
  RequireNotifyVariables(where, config);
  CheckTypes(config.hyperparameters, trial.row.hparams, "hyperparameters",
             "trial " + ToString(trial.row.id));
  FillRecordedEnvironment(config, globals);
  return config;
}

}  // namespace

std::string RecordedTrial::Name() const {
  return is_example ? "experiment " + std::to_string(experiment.row.id)
                    : "trial " + ToString(row.id);
}

RecordedTrial FindRecordedTrial(const Store& store, TrialId id) {
  FindTarget(store, {.experiment = id.experiment, .trial = id.number});
  return {FindExperimentDetail(store, id.experiment), *store.Trial(id)};
}

json SingleTrialConfig(const RecordedTrial& trial) {
  json effective = trial.experiment.config;
  const ExperimentConfig config = ConfigFromJson(effective);
  effective["rules"] = config.rules;
  effective.erase("notify");
  const json recorded = effective.value("hyperparameters", json::object());
  json constants = Constants(trial.row.hparams);
  AddAbsent(recorded, trial.row.hparams, constants);
  effective["hyperparameters"] = std::move(constants);
  json searcher = {{"name", "single"},
                   {"metric", config.searcher.metric},
                   {"smaller_is_better", config.searcher.smaller_is_better}};
  if (config.training.time_metric.empty()) {
    searcher["max_length"] = MaxLengthJson(config);
  } else {
    searcher["max_time"] = config.searcher.max_length;
    searcher["time_metric"] = config.training.time_metric;
  }
  effective["searcher"] = std::move(searcher);
  return effective;
}

json RerunConfig(const RecordedTrial& trial) {
  json effective = SingleTrialConfig(trial);
  const std::string source =
      ConfigFromJson(trial.experiment.config).source_checkpoint_uuid;
  if (!source.empty()) effective["searcher"]["source_checkpoint_uuid"] = source;
  effective["reproducibility"]["trial_seed"] = trial.row.seed;
  return effective;
}

void FillRecordedEnvironment(ExperimentConfig& config,
                             const GlobalOptions& globals) {
  if (!config.environment.All().empty()) return;
  for (const std::string& name : FillEnvironment(config)) {
    PrintNotice(globals, "warning: the value of environment variable " + name +
                             " was not recorded; set it if the trial needs it");
  }
}

std::optional<SourceCheckpoint> FindSourceLike(
    const Store& store, const ExperimentDetail& experiment,
    ExperimentConfig& config, const GlobalOptions& globals) {
  const std::string recorded =
      ConfigFromJson(experiment.config).source_checkpoint_uuid;
  const bool is_recorded = !recorded.empty() &&
                           config.source_checkpoint_uuid == recorded &&
                           config.source_trial_id.empty();
  return is_recorded ? FindRecordedSource(store, experiment)
                     : FindSource(config, globals);
}

void RequireStoredFiles(const ExperimentDetail& experiment) {
  RequireNotImported(experiment);
  if (!IsCommand(ConfigFromJson(experiment.config)) ||
      experiment.provenance.contains(kContextHash)) {
    return;
  }
  const std::string id = std::to_string(experiment.row.id);
  throw Error(ErrorKind::kUsage,
              "experiment " + id +
                  " has no stored context to run its program from; create it "
                  "from its YAML ('dtrain config " +
                  id + "') and the program's directory; nothing was created");
}

DerivedExperiment DeriveExperiment(
    const Store& store, const RecordedTrial& trial, const json& effective,
    const ConfigChanges& changes, const std::optional<SourceCheckpoint>& start,
    const NoteDiagnostics& note, const GlobalOptions& globals) {
  const StoreLayout& layout = store.layout();
  const ExperimentDetail& experiment = trial.experiment;
  const std::string name = trial.Name();
  RequireNotImported(experiment);
  RequireWholeContext(layout, experiment);
  DerivedExperiment derived{.config =
                                ReadSingleTrialConfig(trial, effective, changes,
                                                      layout, note, globals)};
  ExperimentConfig& config = derived.config;
  CheckEntrypoint(name, config, layout.Context(experiment.row.id));
  const std::string directory = FindContextDirectory(layout, experiment);
  CheckOnThisMachine(name, config, directory, globals);
  if (start) SetSource(*start, config);
  derived.parts = {
      .context = FindRecordedContext(layout, experiment, config, globals),
      .source =
          start ? start : FindSourceLike(store, experiment, config, globals)};
  PythonQuery python(config, directory);
  derived.provenance = Provenance(RecordedArgv(globals.argv), ".",
                                  PlanExperimentSlots(config).gpus);
  python.Record(derived.provenance);
  derived.provenance["git"] = experiment.provenance.value("git", json());
  return derived;
}

}  // namespace dtrain
