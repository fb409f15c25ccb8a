// --require: conditions on metrics, after an experiment has ended.
//
// The values are those of the best trial at its best validation, or the last
// ones before it, as in --filter; not the last ones of all. The names are
// checked when the experiment has ended, since only then it is known which
// metrics it reports.

#include "engine/app/requirements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "engine/app/notices.h"
#include "engine/app/trial_fields.h"
#include "engine/app/trial_values.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

constexpr char kState[] = "state";

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
  BestTrialValues(const Store& store, const ExperimentRow& experiment)
      : store_(store), experiment_(experiment) {
    if (!experiment.best) return;
    trial_ = store.Trial({experiment.id, experiment.best_trial});
    // Without validation data the training metrics were searched.
    for (const MetricKind kind :
         {MetricKind::kTraining, MetricKind::kValidation}) {
      std::map<std::string, Course> courses;
      store.ForEachMetric({.experiment = experiment.id,
                           .trial = experiment.best_trial,
                           .kind = kind},
                          [&](const MetricRow& row) {
                            courses[row.name].Add(row.value);
                            // As in --filter: there, or the last before.
                            if (row.batches > experiment.best->batches) return;
                            until_best_[row.name] = row.value;
                          });
      for (auto& [name, course] : courses) courses_[name] = course;
    }
    until_best_[experiment.metric] = experiment.best->value;
  }

  // Returns nothing if the best trial did not report it.
  std::optional<FieldValue> Find(const FieldName& field) const {
    if (field.name == kState && field.function == FieldFunction::kNone) {
      return std::string(StateName(experiment_.state));
    }
    const auto literal = until_best_.find(field.Text());
    if (literal != until_best_.end()) return literal->second;
    if (field.function == FieldFunction::kNone) {
      const auto hparam = Hparam(field.name);
      return hparam ? hparam : Trained(field.name);
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
  std::string WhyMissing(const FieldName& field) const {
    if (!experiment_.best) return "no trial is the best one";
    return courses_.contains(field.Text())
               ? "reported only after the best validation"
               : "not reported by the best trial";
  }

  // "reported: accuracy, loss", the metrics that can be named, or why there are
  // none.
  std::string Names() const {
    if (!experiment_.best) return WithoutBest();
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

  std::string WithoutBest() const {
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

  std::optional<FieldValue> Hparam(const std::string& name) const {
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
  std::optional<TrialRow> trial_;  // the best one
  // Values at the best validation, or the last ones before it.
  std::map<std::string, double> until_best_;
  std::map<std::string, Course> courses_;
};

// True if the requirement holds whatever the values that were not reported.
bool IsMet(const Filter& requirement, const BestTrialValues& values) {
  const auto met_if = [&](bool missing) {
    return requirement.MatchesIf([&](const Comparison& comparison) {
      const auto value = values.Find(comparison.field);
      if (value) return comparison.Holds(*value);
      return comparison.op == CompareOp::kIsNull || missing;
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
                     (value ? FieldText(*value) : values.WhyMissing(field)));
    if (requirement.comparison() != nullptr) check.value = value;
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

std::vector<Check> CheckRequirements(const std::vector<Filter>& requirements,
                                     const Store& store,
                                     const ExperimentRow& experiment) {
  std::vector<Check> checks;
  if (requirements.empty()) return checks;
  const BestTrialValues values(store, experiment);
  for (const Filter& requirement : requirements) {
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
    SayError(globals, "experiment " + std::to_string(experiment) +
                          ": requirement not met: " + check.text +
                          " (actual: " + check.actual + ")");
  }
  return all;
}

}  // namespace dtrain
