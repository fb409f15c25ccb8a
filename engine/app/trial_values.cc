// A length is comparable between trials only in the unit of the search: 1,000
// records are 31 batches of 32 records and 15 of 64. So each validation gets a
// position in that unit. Epochs are rounded to a millionth, since they are
// quotients; a length in records is found by the batches that it is for the
// trial (rounded down, as in training), not by its number.
//
// Without a given length, the longest one counts at which enough trials were
// validated: a quarter of them and at least 20, or in a small search as many as
// at the shorter lengths. In a search with promotion, few trials reach the last
// rung.

#include "engine/app/trial_values.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/length.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/report/format.h"
#include "engine/store/store.h"
#include "searchers/hparam_conditions.h"
#include "searchers/repeats.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMinTrials = 20;

// Unit of the lengths of the search.
Unit LengthUnit(const nlohmann::json& config) {
  const nlohmann::json::json_pointer place("/searcher/max_length");
  if (!config.contains(place) || !config.at(place).is_object()) {
    return Unit::kBatches;
  }
  for (const Unit unit : {Unit::kRecords, Unit::kEpochs}) {
    if (config.at(place).contains(UnitName(unit))) return unit;
  }
  return Unit::kBatches;
}

struct Validation {
  std::int64_t batches = 0;
  double epoch = 0;
  double value = 0;
};

// The validations of a trial in one metric, by batches.
struct TrialValidations {
  std::vector<Validation> all;
  std::int64_t batch_size = 1;  // records in a batch
  std::optional<std::int64_t> best_batches;
};

class ValidationTable {
 public:
  // `bests`: read the best validations, which ValuesAt needs for kBest.
  ValidationTable(const Store& store, const ExperimentDetail& experiment,
                  const std::string& metric, bool bests,
                  const std::vector<std::int64_t>* selected)
      : unit_(LengthUnit(experiment.config)) {
    store.ForEachMetric(
        {.experiment = experiment.row.id,
         .kind = MetricKind::kValidation,
         .name = metric},
        [&](const MetricRow& row) {
          const std::int64_t number = row.trial.number;
          if (selected && !std::ranges::binary_search(*selected, number))
            return;
          trials_[number].all.push_back({row.batches, row.epoch, row.value});
        });
    if (unit_ == Unit::kRecords) ReadBatchSizes(store, experiment.row.id);
    if (bests) ReadBests(store, experiment.row.id);
  }

  Unit unit() const { return unit_; }
  bool empty() const { return trials_.empty(); }

  // Number of trials validated at each length.
  std::map<double, std::int64_t> Lengths() const {
    std::map<double, std::int64_t> lengths;
    for (const auto& [number, trial] : trials_) {
      for (const Validation& one : trial.all) ++lengths[ToPosition(trial, one)];
    }
    // Lengths in records are rounded down to batches: counted by what they
    // find.
    if (unit_ == Unit::kRecords) {
      for (auto& [length, count] : lengths) {
        count = static_cast<std::int64_t>(
            ValuesAt({.kind = ValuePlace::Kind::kLength, .length = length})
                .size());
      }
    }
    return lengths;
  }

  std::map<std::int64_t, double> ValuesAt(const ValuePlace& place) const {
    std::map<std::int64_t, double> values;
    for (const auto& [number, trial] : trials_) {
      const Validation* found = Find(trial, place);
      if (found != nullptr) values[number] = found->value;
    }
    return values;
  }

 private:
  void ReadBatchSizes(const Store& store, std::int64_t experiment) {
    const auto read = [&](std::int64_t trial, const auto& hparams) {
      const nlohmann::json& size = hparams.front();
      const auto found = trials_.find(trial);
      if (found == trials_.end() || !size.is_number_integer()) return;
      found->second.batch_size =
          std::max<std::int64_t>(size.template get<std::int64_t>(), 1);
    };
    store.ForEachHparams(experiment, {"global_batch_size"}, read);
  }

  void ReadBests(const Store& store, std::int64_t experiment) {
    for (const TrialRow& trial :
         store.Trials(experiment, {.hparams = false, .checkpoints = false})) {
      const auto found = trials_.find(trial.id.number);
      if (found == trials_.end() || !trial.best) continue;
      found->second.best_batches = trial.best->batches;
    }
  }

  double ToPosition(const TrialValidations& trial,
                    const Validation& one) const {
    switch (unit_) {
      case Unit::kEpochs:
        return std::round(one.epoch * 1e6) / 1e6;
      case Unit::kRecords:
        return static_cast<double>(one.batches * trial.batch_size);
      case Unit::kBatches:
        break;
    }
    return static_cast<double>(one.batches);
  }

  bool IsAt(const TrialValidations& trial, const Validation& one,
            double length) const {
    if (unit_ != Unit::kRecords) return ToPosition(trial, one) == length;
    const double batches =
        std::floor(length / static_cast<double>(trial.batch_size));
    return static_cast<double>(one.batches) == std::max(batches, 1.0);
  }

  const Validation* Find(const TrialValidations& trial,
                         const ValuePlace& place) const {
    if (place.kind == ValuePlace::Kind::kLast) {
      return trial.all.empty() ? nullptr : &trial.all.back();
    }
    for (const Validation& one : trial.all) {
      const bool found = place.kind == ValuePlace::Kind::kLength
                             ? IsAt(trial, one, place.length)
                             : one.batches == trial.best_batches;
      if (found) return &one;
    }
    return nullptr;
  }

  const Unit unit_;
  std::map<std::int64_t, TrialValidations> trials_;  // by number
};

double DefaultLength(const std::map<double, std::int64_t>& lengths,
                     std::int64_t trials) {
  const auto enough = std::max(kMinTrials, (trials + 3) / 4);
  const std::pair<const double, std::int64_t>* most = &*lengths.begin();
  for (const auto& length : lengths) {
    if (length.second >= std::min(enough, most->second)) most = &length;
  }
  return most->first;
}

// Throws unless the experiment has the validation metric.
void RequireMetric(const Store& store, const ExperimentDetail& experiment,
                   const std::string& metric) {
  std::set<std::string> names;
  store.ForEachMetric(
      {.experiment = experiment.row.id, .kind = MetricKind::kValidation},
      [&](const MetricRow& row) { names.insert(row.name); });
  if (names.contains(metric)) return;
  const std::vector<std::string> all(names.begin(), names.end());
  throw Error(ErrorKind::kNotFound,
              "experiment " + std::to_string(experiment.row.id) +
                  " has no validation metric '" + metric + "'; it has " +
                  (all.empty() ? "none yet" : Join(all, ", ")));
}

[[noreturn]] void FailLength(const ExperimentDetail& experiment,
                             const TrialValues& asked, bool filtered,
                             const std::map<double, std::int64_t>& lengths) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> listed;
  for (const auto& [length, count] : lengths) {
    if (listed.size() == kShown) {
      listed.push_back("...");
      break;
    }
    listed.push_back(FormatNumber(length) + " (" + CountText(count, "trial") +
                     ")");
  }
  const std::string id = "experiment " + std::to_string(experiment.row.id);
  if (asked.place.kind == ValuePlace::Kind::kLength) {
    throw Error(ErrorKind::kNotFound,
                id + " has no validation " + asked.PlaceText() +
                    (filtered ? "; the selected trials were validated at "
                              : "; its trials were validated at ") +
                    Join(listed, ", "));
  }
  // Without a finite value of the searcher's metric there is no best
  // validation.
  const bool searched = asked.metric == experiment.row.metric;
  throw Error(
      ErrorKind::kNotFound,
      id + (filtered ? ": no selected trial" : ": no trial") +
          (searched ? " has a finite value of '" : " has a value of '") +
          asked.metric + "'" + (searched ? "" : " at its best validation") +
          "; it was reported at these " + std::string(UnitName(asked.unit)) +
          ": " + Join(listed, ", "));
}

}  // namespace

ValuePlace ParseValuePlace(std::string_view option, const std::string& text) {
  if (text == "best") return {.kind = ValuePlace::Kind::kBest};
  if (text == "last") return {.kind = ValuePlace::Kind::kLast};
  const auto length = ParseFinite(text);
  if (length && *length > 0) {
    return {.kind = ValuePlace::Kind::kLength, .length = *length};
  }
  throw Error(
      ErrorKind::kUsage,
      std::string(option) +
          ": expected best, last or a length above 0 such as 300, got '" +
          text + "'");
}

MetricGoal ParseMetricGoal(std::string_view option, const std::string& text,
                           const ExperimentRow& experiment) {
  if (text == experiment.metric) return {text, experiment.smaller_is_better};
  if (text.size() > 4 && text.ends_with(":min")) {
    return {text.substr(0, text.size() - 4), true};
  }
  if (text.size() > 4 && text.ends_with(":max")) {
    return {text.substr(0, text.size() - 4), false};
  }
  throw Error(ErrorKind::kUsage,
              std::string(option) + ": '" + text +
                  "' is not the metric of the search, so its better direction "
                  "is unknown; write " +
                  text + ":min or " + text + ":max");
}

std::string TrialValues::PlaceText() const {
  switch (place.kind) {
    case ValuePlace::Kind::kBest:
      return "at the best validation";
    case ValuePlace::Kind::kLast:
      return "at the last validation";
    case ValuePlace::Kind::kLength:
      break;
  }
  return "at " + LengthText(place.length, unit);
}

nlohmann::json TrialValues::PlaceJson() const {
  switch (place.kind) {
    case ValuePlace::Kind::kBest:
      return "best";
    case ValuePlace::Kind::kLast:
      return "last";
    case ValuePlace::Kind::kLength:
      break;
  }
  const std::string name(UnitName(unit));
  if (place.length != std::floor(place.length)) return {{name, place.length}};
  return {{name, static_cast<std::int64_t>(place.length)}};
}

TrialValues ReadTrialValues(const Store& store,
                            const ExperimentDetail& experiment,
                            const std::string& metric,
                            const std::optional<ValuePlace>& place,
                            const std::vector<std::int64_t>* selected) {
  const std::int64_t trials = selected != nullptr
                                  ? static_cast<std::int64_t>(selected->size())
                                  : experiment.row.trials;
  const bool bests = place && place->kind == ValuePlace::Kind::kBest;
  const ValidationTable table(store, experiment, metric, bests, selected);
  TrialValues found{.metric = metric, .unit = table.unit()};
  if (table.empty()) {
    RequireMetric(store, experiment, metric);
    found.place = place.value_or(ValuePlace());
    return found;
  }
  if (place) {
    found.place = *place;
  } else {
    found.place = ValuePlace{.kind = ValuePlace::Kind::kLength,
                             .length = DefaultLength(table.Lengths(), trials)};
  }
  found.values = table.ValuesAt(found.place);
  if (found.values.empty()) {
    FailLength(experiment, found, selected != nullptr, table.Lengths());
  }
  return found;
}

std::string ParseGroup(const std::string& text,
                       std::span<const Target> targets) {
  constexpr std::string_view kPrefix = "hp.";
  if (text == "points") {
    const bool is_one = std::ranges::all_of(targets, [&](const Target& target) {
      return target.experiment == targets.front().experiment;
    });
    if (is_one) return std::string(kPointGroup);
    throw Error(ErrorKind::kUsage,
                "--group points takes one experiment: points of several have "
                "nothing in common but their number");
  }
  const bool is_name =
      text.starts_with(kPrefix) && text.size() > kPrefix.size();
  if (is_name) return text.substr(kPrefix.size());
  throw Error(ErrorKind::kUsage,
              "--group: expected hp.NAME, such as hp.optimizer, or points, "
              "got '" +
                  text + "'");
}

std::optional<nlohmann::json> GroupValue(const TrialRow& trial,
                                         const std::string& group) {
  if (group == kPointGroup) {
    if (trial.point == 0) return std::nullopt;
    return trial.point;
  }
  const nlohmann::json* value = FindMember(trial.hparams, group);
  if (value == nullptr) return std::nullopt;
  return *value;
}

std::string NoGroupText(const std::string& group) {
  return group == kPointGroup
             ? std::string(
                   "--group: the search trains each point once; a new one with "
                   "searcher.repeats trains it several times")
             : "--group: no trial has a hyperparameter '" + group + "'";
}

std::map<std::int64_t, double> CombineByPoint(
    const std::map<std::int64_t, double>& trials, const Repeats& repeats) {
  if (repeats.count == 1) return trials;
  std::map<std::int64_t, std::vector<double>> values;
  for (const auto& [number, value] : trials) {
    const std::int64_t point = FindRepeatPlace(number, repeats.count).first;
    auto& own = values[point];
    if (std::isfinite(value)) own.push_back(value);
  }
  std::map<std::int64_t, double> points;
  for (auto& [point, own] : values) {
    points[point] = CombineRepeats(repeats.metric, std::move(own))
                        .value_or(std::numeric_limits<double>::quiet_NaN());
  }
  return points;
}

void SortByPoint(const ExperimentDetail& experiment,
                 const std::map<std::int64_t, double>& values,
                 std::vector<TrialRow>& trials) {
  const Repeats repeats = ReadRepeats(experiment.config);
  std::map<std::int64_t, double> counted = values;
  std::map<std::int64_t, double> points;
  if (repeats.count == 1) {
    points = values;
  } else {
    for (const TrialRow& trial : trials) {
      if (!CountsForPoint(trial.state)) counted.erase(trial.id.number);
    }
    points = CombineByPoint(counted, repeats);
    const bool over = IsFinal(experiment.row.state);
    for (const PointRow& point : ListPoints(trials, experiment)) {
      if (!point.IsKnown(repeats.count, over)) points.erase(point.point);
    }
  }
  const auto find = [](const std::map<std::int64_t, double>& all,
                       std::int64_t number) {
    const auto found = all.find(number);
    return found == all.end() ? std::nan("") : found->second;
  };
  const auto rank = [&](const TrialRow& trial) {
    const std::int64_t number = trial.id.number;
    const auto point = FindRepeatPlace(number, repeats.count).first;
    const double sign = experiment.row.smaller_is_better ? 1 : -1;
    const auto order = [&](double value) {
      return std::pair(std::isnan(value), std::isnan(value) ? 0 : sign * value);
    };
    return std::pair(order(find(points, point)), order(find(counted, number)));
  };
  std::ranges::stable_sort(trials, {}, rank);
}

std::vector<TrialOutcome> ReadOutcomes(const Store& store,
                                       const ExperimentDetail& experiment,
                                       const std::vector<SearchAxis>& axes,
                                       const TrialValues& of_trials) {
  const Repeats repeats = ReadRepeats(experiment.config);
  auto values = of_trials.values;
  if (repeats.count > 1) {
    values =
        CombineByPoint(std::move(values),
                       store.Trials(experiment.row.id,
                                    {.hparams = false, .checkpoints = false}),
                       repeats);
  }
  std::vector<std::string> names;
  for (const SearchAxis& axis : axes) names.push_back(axis.name);
  // Where a condition does not hold, a trial may have the value of `else`.
  for (const SearchAxis& axis : axes) {
    if (axis.when.is_null()) continue;
    for (std::string& name : NamesInCondition(axis.when)) {
      const bool is_new = std::ranges::find(names, name) == names.end();
      if (is_new) names.push_back(std::move(name));
    }
  }
  const bool is_conditional = std::ranges::any_of(
      axes, [](const SearchAxis& axis) { return !axis.when.is_null(); });
  std::vector<TrialOutcome> outcomes;
  outcomes.reserve(values.size());
  const auto add = [&](std::int64_t trial, const auto& hparams) {
    const auto value =
        values.extract(FindRepeatPlace(trial, repeats.count).first);
    if (!value) return;  // none, or that of an earlier repeat
    TrialOutcome outcome{.value = value.mapped()};
    outcome.places.reserve(axes.size());
    if (!is_conditional) {
      for (std::size_t i = 0; i < axes.size(); ++i) {
        outcome.places.push_back(FindPlace(hparams[i], axes[i]));
      }
    } else {
      nlohmann::json named = nlohmann::json::object();
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!hparams[i].is_discarded()) named[names[i]] = hparams[i];
      }
      for (const SearchAxis& axis : axes) {
        outcome.places.push_back(PlaceOn(axis, named));
      }
    }
    outcomes.push_back(std::move(outcome));
  };
  store.ForEachHparams(experiment.row.id, names, add);
  return outcomes;
}

std::size_t CountFinite(const std::vector<TrialOutcome>& outcomes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(outcomes, [](const TrialOutcome& outcome) {
        return std::isfinite(outcome.value);
      }));
}

}  // namespace dtrain
