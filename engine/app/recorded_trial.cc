// The configuration of a new experiment that repeats or continues a recorded
// trial.
//
// A trial of a search has concrete hyperparameters. They become constants, and
// the searcher becomes `single`; everything else stays as it was recorded.
// Overrides of --set are applied to that.

#include "engine/app/recorded_trial.h"

#include <utility>

#include "engine/app/config_file.h"
#include "engine/app/notices.h"
#include "engine/app/provenance.h"
#include "engine/app/script_check.h"
#include "engine/app/secrets.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/run/runner.h"
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

}  // namespace

RecordedTrial FindRecordedTrial(const Store& store, TrialId id) {
  FindTarget(store, {.experiment = id.experiment, .trial = id.number});
  return {FindExperimentDetail(store, id.experiment), *store.Trial(id)};
}

json SingleTrialConfig(const RecordedTrial& trial) {
  json effective = trial.experiment.config;
  const ExperimentConfig config = ConfigFromJson(effective);
  effective["rules"] = config.rules;
  effective["hyperparameters"] = Constants(trial.row.hparams);
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

ExperimentConfig ReadSingleTrialConfig(const RecordedTrial& trial,
                                       const json& effective,
                                       std::vector<std::string> overrides,
                                       const std::vector<std::string>& labels,
                                       const StoreLayout& layout,
                                       const NoteDiagnostics& note,
                                       const GlobalOptions& globals) {
  const std::string where = "trial " + ToString(trial.row.id);
  json base = effective;
  base["labels"] = LabelsJson(effective, labels);
  ConfigResult result = ReadConfig(
      ToYaml(base), RecordedOptions(where, std::move(overrides),
                                    layout.Context(trial.row.id.experiment)));
  note(result.diagnostics);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                where + ": " + refusal + "; nothing was created");
  }
  ExperimentConfig config = *std::move(result.config);
  CheckTypes(config.hyperparameters, trial.row.hparams, "hyperparameters",
             where);
  if (!config.environment.All().empty()) return config;
  for (const std::string& name : FillEnvironment(config)) {
    PrintNotice(globals, "warning: the value of environment variable " + name +
                             " was not recorded; set it if the trial needs it");
  }
  return config;
}

json SingleTrialProvenance(const RecordedTrial& trial,
                           const ExperimentConfig& config,
                           const GlobalOptions& globals) {
  PythonQuery python(
      config, FindContextDirectory(FindStore(globals), trial.experiment));
  json provenance = Provenance(RecordedArgv(globals.argv), ".",
                               PlanExperimentSlots(config).gpus);
  python.Record(provenance);
  provenance["git"] = trial.experiment.provenance.value("git", json());
  return provenance;
}

}  // namespace dtrain
