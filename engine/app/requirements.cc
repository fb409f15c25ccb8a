// --require: conditions on metrics, after an experiment has ended.
//
// The values are those of the best trial at its best validation, or the last
// ones before it, as in --filter; not the last ones of all. A trial that failed
// after its validation has no usable result, so the best of the others counts.
// The names are checked when the experiment has ended, since only then it is
// known which metrics it reports.

#include "engine/app/requirements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/app/notices.h"
#include "engine/app/stores.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"
#include "engine/run/points.h"
#include "engine/store/store.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

constexpr char kState[] = "state";

// Returns the number of trials that the name stands for; empty if it is none.
std::optional<std::int64_t> FindCount(const std::string& name,
                                      const std::vector<TrialRow>& trials) {
  constexpr std::pair<std::string_view, State> kCounts[] = {
      {"failed", State::kError},
      {"completed", State::kCompleted},
      {"stopped", State::kStopped}};
  if (name == "trials") return static_cast<std::int64_t>(trials.size());
  for (const auto& [count, state] : kCounts) {
    if (name == count)
      return std::ranges::count(trials, state, &TrialRow::state);
  }
  return std::nullopt;
}

// Returns why a trial was refused for its configuration, by dtrain, a model or
// parse_args of the Python module; empty if it was not.
std::string FindRefusal(const TrialRow& trial) {
  const std::string& why = trial.reason;
  if (why.starts_with(kConfigurationReason)) return why;
  if (why.find(": error: hyperparameter '") == why.npos) return "";
  return std::string(kConfigurationReason) + why;
}

bool HasFailed(const TrialRow& trial) {
  return trial.state == State::kError || trial.state == State::kInvalid;
}

// The name of a metric may look like a function: `f(x)`. It is one only if no
// function has its name.
bool LooksLikeFunction(const std::string& name) {
  for (const FieldFunction function :
       {FieldFunction::kMin, FieldFunction::kMax, FieldFunction::kLast,
        FieldFunction::kAt, FieldFunction::kSpark}) {
    const std::string begin = std::string(FunctionName(function)) + "(";
    if (name.starts_with(begin)) return true;
  }
  return false;
}

ResolvedField Resolve(const FieldName& field) {
  if (field.function != FieldFunction::kNone) return {FieldKind::kNumber};
  if (field.name == kState) {
    return {.kind = FieldKind::kText, .words = StateNames()};
  }
  if (LooksLikeFunction(field.name)) {
    throw Error(ErrorKind::kUsage, "quote a name with parentheses");
  }
  if (field.name.starts_with(kHparamPrefix)) return {FieldKind::kAny};
  return {.kind = FieldKind::kNumber,
          .hint = "'" + field.name +
                  "' is read as a metric, whose values are numbers; a "
                  "hyperparameter is " +
                  std::string(kHparamPrefix) + "NAME"};
}

// The values that requirements may name.
class BestTrialValues {
 public:
  BestTrialValues(const Store& store, const ExperimentRow& experiment,
                  bool counts_failed)
      : store_(store),
        experiment_(experiment),
        trials_(ListTrials(store, experiment)) {
    FindBest(counts_failed);
    if (!trial_) return;
    // Without validation data the training metrics were searched.
    for (const MetricKind kind :
         {MetricKind::kTraining, MetricKind::kValidation}) {
      std::map<std::string, Course> courses;
      store.ForEachMetric({.experiment = experiment.id,
                           .trial = trial_->id.number,
                           .kind = kind},
                          [&](const MetricRow& row) {
                            courses[row.name].Add(row.value);
                            // As in --filter: there, or the last before.
                            if (row.batches > trial_->best->batches) return;
                            until_best_[row.name] = row.value;
                          });
      for (auto& [name, course] : courses) courses_[name] = course;
    }
    until_best_[experiment.metric] = trial_->best->value;
  }

  // Returns nothing if the best trial did not report it.
  std::optional<FieldValue> Find(const FieldName& field) const {
    if (field.name == kState && field.function == FieldFunction::kNone) {
      return std::string(StateName(experiment_.state));
    }
    const auto literal = until_best_.find(field.Text());
    if (literal != until_best_.end()) return literal->second;
    if (field.function == FieldFunction::kNone) {
      const auto value = NoMetric(field.name);
      return value ? value : Trained(field.name);
    }
    const auto course = courses_.find(field.name);
    if (course == courses_.end()) return std::nullopt;
    switch (field.function) {
      case FieldFunction::kMin:
        return course->second.least;
      case FieldFunction::kMax:
        return course->second.greatest;
      case FieldFunction::kLast:
        return course->second.last;
      case FieldFunction::kAt:
        return ValueAt(field);
      case FieldFunction::kNone:
      case FieldFunction::kSpark:
        break;
    }
    return std::nullopt;
  }

  // Why a field has no value.
  std::string MissingReason(const FieldName& field) const {
    if (!trial_) {
      return experiment_.best ? "every trial with a result has failed"
                              : "no trial is the best one";
    }
    return courses_.contains(field.Text())
               ? "reported only after the best validation"
               : "not reported by the best trial";
  }

  // "reported: accuracy, loss", the metrics that can be named, or why there are
  // none.
  std::string Names() const {
    if (!trial_) return WithoutBest();
    std::vector<std::string> names;
    for (const auto& [name, value] : until_best_) names.push_back(name);
    return "reported: " + Join(names, ", ");
  }

 private:
  // The values of a metric over the course of the trial.
  struct Course {
    double least = std::nan("");
    double greatest = std::nan("");
    double last = std::nan("");

    void Add(double value) {
      last = value;
      if (std::isnan(value)) return;
      if (!(least <= value)) least = value;
      if (!(greatest >= value)) greatest = value;
    }
  };

  void FindBest(bool counts_failed) {
    const bool smaller = experiment_.smaller_is_better;
    const auto detail = store_.Experiment(experiment_.id);
    if (detail && ReadRepeats(detail->config).count > 1) {
      const auto points = ListPoints(trials_, *detail);
      const PointRow* best = FindBestPoint(points, *detail);
      if (best == nullptr) return;
      trial_ = *std::ranges::find(
          trials_, best->best_trial,
          [](const TrialRow& trial) { return trial.id.number; });
      trial_->best->value = *best->value;
      return;
    }
    for (const TrialRow& trial : trials_) {
      if (!trial.best || (HasFailed(trial) && !counts_failed)) continue;
      if (trial_ &&
          !IsBetter(trial.best->value, trial_->best->value, smaller)) {
        continue;
      }
      trial_ = trial;
    }
    // The first of equal ones in time, which only the experiment knows.
    if (!experiment_.best || !trial_ ||
        experiment_.best->value != trial_->best->value) {
      return;
    }
    const auto first = std::ranges::find(
        trials_, experiment_.best_trial,
        [](const TrialRow& trial) { return trial.id.number; });
    if (first == trials_.end() || (HasFailed(*first) && !counts_failed)) return;
    trial_ = *first;
    trial_->best = experiment_.best;
  }

  std::string WithoutBest() const {
    if (experiment_.best) {
      return "the best of them was trial " +
             ToString(TrialId{experiment_.id, experiment_.best_trial}) +
             ", which --require-any counts";
    }
    std::int64_t validations = 0;
    store_.ForEachMetric({.experiment = experiment_.id,
                          .kind = MetricKind::kValidation,
                          .name = experiment_.metric},
                         [&](const MetricRow&) { ++validations; });
    if (validations == 0) return "nothing was validated";
    return "'" + experiment_.metric + "' was NaN at " +
           (validations == 1
                ? "the only validation"
                : "all " + std::to_string(validations) + " validations");
  }

  // Returns the value of a name that the best trial did not report.
  std::optional<FieldValue> NoMetric(const std::string& name) const {
    if (const auto count = FindCount(name, trials_)) {
      const auto names = store_.MetricNames(experiment_.id);
      if (std::ranges::find(names, name) != names.end()) return std::nullopt;
      return static_cast<double>(*count);
    }
    if (!trial_ || !name.starts_with(kHparamPrefix)) return std::nullopt;
    FieldValue value =
        HparamValue(trial_->hparams, name.substr(kHparamPrefix.size()));
    if (IsNull(value)) return std::nullopt;
    return value;
  }

  // The length that the trial trained, by the unit that the tables show.
  std::optional<FieldValue> Trained(const std::string& name) const {
    if (!trial_ || name != UnitName(CountedUnit(store_, experiment_.id))) {
      return std::nullopt;
    }
    return trial_->batches;
  }

  std::optional<FieldValue> ValueAt(const FieldName& field) const {
    const auto detail = store_.Experiment(experiment_.id);
    try {
      const TrialValues values =
          ReadTrialValues(store_, *detail, field.name,
                          ValuePlace{.kind = ValuePlace::Kind::kLength,
                                     .length = field.length});
      const auto found = values.values.find(trial_->id.number);
      if (found != values.values.end()) return found->second;
    } catch (const Error&) {
      // Not validated there: other trials may have been.
    }
    return std::nullopt;
  }

  const Store& store_;
  const ExperimentRow& experiment_;
  std::vector<TrialRow> trials_;
  std::optional<TrialRow> trial_;  // the best one that counts
  // Values at the best validation, or the last ones before it.
  std::map<std::string, double> until_best_;
  std::map<std::string, Course> courses_;
};

// True if the requirement holds whatever the values that were not reported.
bool IsMet(const Filter& requirement, const BestTrialValues& values) {
  const auto met_if = [&](bool missing) {
    return requirement.MatchesIf([&](const Comparison& comparison) {
      const std::vector<FieldName> fields = comparison.Fields();
      const bool has_all =
          std::ranges::all_of(fields, [&](const FieldName& field) {
            return values.Find(field).has_value();
          });
      if (!has_all) return comparison.op == CompareOp::kIsNull || missing;
      return comparison.HoldsIn(
          [&](const FieldName& field) { return *values.Find(field); });
    });
  };
  return met_if(false) && met_if(true);
}

Check CheckOne(const Filter& requirement, const BestTrialValues& values) {
  Check check{.text = requirement.text(), .met = IsMet(requirement, values)};
  std::vector<std::string> actual;
  bool missing = false;
  const std::vector<FieldName> fields = requirement.Fields();
  for (const FieldName& field : fields) {
    const auto value = values.Find(field);
    missing = missing || !value;
    const std::string name = fields.size() == 1 ? "" : field.Text() + " ";
    actual.push_back(name +
                     (value ? FieldText(*value) : values.MissingReason(field)));
    if (requirement.comparison() != nullptr && fields.size() == 1) {
      check.value = value;
    }
  }
  check.actual = Join(actual, ", ") + (missing ? "; " + values.Names() : "");
  return check;
}

}  // namespace

std::vector<Filter> ParseRequirements(
    const std::vector<std::string>& expressions) {
  const QueryContext context{.option = "--require", .resolve = Resolve};
  std::vector<Filter> requirements;
  for (const std::string& expression : expressions) {
    for (Filter& part :
         Filter::ParseWithPlainNames(expression, context).Conjuncts()) {
      requirements.push_back(std::move(part));
    }
  }
  return requirements;
}

std::vector<std::string> FindUnreported(
    const std::vector<Filter>& requirements,
    const std::vector<std::string>& metrics) {
  std::vector<std::string> warnings;
  const std::vector<TrialRow> none;
  for (const Filter& requirement : requirements) {
    for (const FieldName& field : requirement.Fields()) {
      const std::string& name = field.name;
      const bool is_length = std::ranges::any_of(
          std::array{Unit::kBatches, Unit::kRecords, Unit::kEpochs},
          [&](Unit unit) { return name == UnitName(unit); });
      if (name == kState || name.starts_with(kHparamPrefix) || is_length ||
          FindCount(name, none) ||
          std::ranges::find(metrics, name) != metrics.end() ||
          std::ranges::find(metrics, field.Text()) != metrics.end()) {
        continue;
      }
      warnings.push_back("--require '" + requirement.text() +
                         "': the first validation has no '" + name +
                         "', only " + Join(metrics, ", ") +
                         DidYouMean(name, metrics));
    }
  }
  return warnings;
}

std::vector<Check> CheckRequirements(const Demands& demands, const Store& store,
                                     const ExperimentRow& experiment) {
  std::vector<Check> checks;
  if (demands.requirements.empty()) return checks;
  const BestTrialValues values(store, experiment, demands.counts_failed);
  for (const Filter& requirement : demands.requirements) {
    checks.push_back(CheckOne(requirement, values));
  }
  return checks;
}

bool ReportUnmet(const std::vector<Check>& checks, std::int64_t experiment,
                 const GlobalOptions& globals) {
  bool all = true;
  for (const Check& check : checks) {
    if (check.met) continue;
    all = false;
    PrintError(globals, "experiment " + std::to_string(experiment) +
                            ": requirement not met: " + check.text +
                            " (actual: " + check.actual + ")");
  }
  return all;
}

bool ReportFailedTrials(const Demands& demands, const Store& store,
                        const ExperimentRow& experiment,
                        const GlobalOptions& globals) {
  std::int64_t failed = 0;
  std::int64_t valid = 0;
  std::string refused;  // a trial that failed for its configuration
  const std::vector<TrialRow> trials = ListTrials(store, experiment);
  for (const TrialRow& trial : trials) {
    valid += trial.state == State::kInvalid ? 0 : 1;
    if (trial.state != State::kError) continue;
    ++failed;
    const std::string why = FindRefusal(trial);
    if (refused.empty() && !why.empty()) {
      refused = "trial " + ToString(trial.id) + " for its " + why;
    }
  }
  if (failed == 0) return true;
  const std::int64_t limit =
      demands.max_failed.value_or(std::max<std::int64_t>(valid - 1, 0));
  const bool met = failed <= limit && refused.empty();
  // The error of the experiment has said so.
  if (trials.size() == 1 && experiment.state == State::kError) return met;
  const std::string text = "experiment " + std::to_string(experiment.id) +
                           ": " + std::to_string(failed) + " of " +
                           std::to_string(trials.size()) + " trials failed" +
                           (refused.empty() ? "" : ", " + refused);
  if (met) {
    PrintNotice(globals, text);
  } else {
    PrintError(globals,
               text + (failed > limit && demands.max_failed
                           ? "; --max-failed allows " + std::to_string(limit)
                           : ""));
  }
  return met;
}

}  // namespace dtrain
