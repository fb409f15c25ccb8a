// --require: comparisons of metrics with limits, after an experiment has ended.
//
// The values are those of the best trial at its best validation, not the last
// ones.

#include "engine/app/requirements.h"

#include <map>

#include "engine/app/notices.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr char kState[] = "state";

void CheckMeaning(const Comparison& comparison) {
  const auto* text = std::get_if<std::string>(&comparison.value);
  if (comparison.name == kState) {
    if (text == nullptr) {
      throw Error(
          ErrorKind::kUsage,
          "--require: '" + comparison.text +
              "': state must be compared with a name such as COMPLETED");
    }
    std::string upper = *text;
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    (void)StateFromName(upper);
  } else if (text != nullptr) {
    throw Error(ErrorKind::kUsage,
                "--require: '" + comparison.text +
                    "': a metric must be compared with a number, not '" +
                    *text + "'");
  }
}

using Values = std::map<std::string, double>;

// Returns the metrics of the best trial at its best validation. Without
// validation data the training metrics were searched.
Values BestValues(const Store& store, const ExperimentRow& experiment) {
  Values values;
  if (!experiment.best) return values;
  for (const MetricKind kind :
       {MetricKind::kTraining, MetricKind::kValidation}) {
    store.ForEachMetric({.experiment = experiment.id,
                         .trial = experiment.best_trial,
                         .kind = kind},
                        [&](const MetricRow& row) {
                          if (row.batches != experiment.best->batches) return;
                          values[row.name] = row.value;
                        });
  }
  values[experiment.metric] = experiment.best->value;
  return values;
}

std::string Names(const Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names.empty() ? "nothing was validated"
                       : "reported: " + Join(names, ", ");
}

}  // namespace

std::vector<Comparison> ParseRequirements(
    const std::vector<std::string>& expressions) {
  std::vector<Comparison> requirements;
  for (const std::string& expression : expressions) {
    for (Comparison& comparison : ParseExpression(expression, "--require")) {
      CheckMeaning(comparison);
      requirements.push_back(std::move(comparison));
    }
  }
  return requirements;
}

std::vector<Check> CheckRequirements(
    const std::vector<Comparison>& requirements, const Store& store,
    const ExperimentRow& experiment) {
  std::vector<Check> checks;
  if (requirements.empty()) return checks;
  const Values values = BestValues(store, experiment);
  const FieldLookup lookup =
      [&](const std::string& name) -> std::optional<FieldValue> {
    if (name == kState) return std::string(StateName(experiment.state));
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  for (const Comparison& requirement : requirements) {
    Check check = Evaluate(requirement, lookup);
    if (!lookup(requirement.name)) {
      check.actual = "not reported by the best trial; " + Names(values);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

bool ReportUnmet(const std::vector<Check>& checks, std::int64_t experiment,
                 const GlobalOptions& globals) {
  bool all = true;
  for (const Check& check : checks) {
    if (check.met) continue;
    all = false;
    SayError(globals, "experiment " + std::to_string(experiment) +
                          ": requirement not met: " + check.text +
                          " (actual: " + check.actual + ")");
  }
  return all;
}

}  // namespace dtrain
