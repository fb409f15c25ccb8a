#include "engine/run/points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/metric_order.h"
#include "engine/base/rounding.h"
#include "searchers/repeats.h"

namespace dtrain {

double PointRow::mean() const {
  return CombineRepeats("mean", values)
      .value_or(std::numeric_limits<double>::quiet_NaN());
}

double PointRow::sd() const {
  if (values.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double center = mean();
  double sum = 0;
  for (const double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::string PointRow::EqualityRemark() const {
  if (values.size() < 2 ||
      std::ranges::adjacent_find(values, std::ranges::not_equal_to()) !=
          values.end()) {
    return "";
  }
  return ", all equal: the program may not use its seed";
}

Repeats ReadRepeats(const nlohmann::json& config) {
  Repeats repeats;
  const auto searcher = config.find("searcher");
  if (searcher == config.end()) return repeats;
  repeats.count = searcher->value("repeats", repeats.count);
  repeats.metric = searcher->value("repeat_metric", repeats.metric);
  return repeats;
}

bool CountsForPoint(State state) {
  return state == State::kCompleted || state == State::kStopped;
}

std::vector<PointRow> ListPoints(std::span<const TrialRow> trials,
                                 const std::string& repeat_metric,
                                 bool smaller_is_better) {
  std::map<std::int64_t, PointRow> points;
  for (const TrialRow& trial : trials) {
    const auto number = trial.point == 0 ? trial.id.number : trial.point;
    PointRow& point =
        points.try_emplace(number, PointRow{.point = number}).first->second;
    ++point.trials;
    if (!IsFinal(trial.state)) ++point.unfinished;
    if (!CountsForPoint(trial.state) || !trial.best) continue;
    point.values.push_back(trial.best->value);
    if (point.best_trial == 0 ||
        IsBetter(trial.best->value, point.best.value, smaller_is_better)) {
      point.best_trial = trial.id.number;
      point.best = *trial.best;
    }
  }
  std::vector<PointRow> rows;
  for (auto& [number, point] : points) {
    point.value = CombineRepeats(repeat_metric, point.values);
    rows.push_back(std::move(point));
  }
  return rows;
}

std::vector<PointRow> ListPoints(std::span<const TrialRow> trials,
                                 const ExperimentDetail& experiment) {
  return ListPoints(trials, ReadRepeats(experiment.config).metric,
                    experiment.row.smaller_is_better);
}

const PointRow* FindBestPoint(const std::vector<PointRow>& points,
                              std::int64_t repeats, bool over,
                              bool smaller_is_better) {
  const PointRow* best = nullptr;
  for (const PointRow& point : points) {
    if (!point.IsKnown(repeats, over)) continue;
    if (best == nullptr ||
        IsBetter(*point.value, *best->value, smaller_is_better)) {
      best = &point;
    }
  }
  return best;
}

const PointRow* FindBestPoint(const std::vector<PointRow>& points,
                              const ExperimentDetail& experiment) {
  return FindBestPoint(points, ReadRepeats(experiment.config).count,
                       IsFinal(experiment.row.state),
                       experiment.row.smaller_is_better);
}

void SetBestPoint(const Store& store, StoreWriter& writer,
                  std::int64_t experiment, bool over) {
  const auto detail = store.Experiment(experiment);
  const bool smaller_is_better = detail->row.smaller_is_better;
  const auto points = ListPoints(
      store.Trials(experiment, {.hparams = false, .checkpoints = false}),
      *detail);
  const PointRow* best = FindBestPoint(
      points, ReadRepeats(detail->config).count, over, smaller_is_better);
  if (best == nullptr) {
    writer.SetExperimentBest(experiment, 0, std::nullopt);
    return;
  }
  BestValidation value = best->best;
  value.value = *best->value;
  writer.SetExperimentBest(experiment, best->best_trial, value);
}

double ConfirmedTrial::standard_error() const {
  return point.sd() / std::sqrt(static_cast<double>(point.values.size()));
}

std::string ConfirmedTrial::Text() const {
  std::string text = trial + " reported " + FormatRounded(reported, 6);
  if (point.values.empty()) return text + ", no result again";
  text += ", again " + FormatRounded(point.mean(), 6);
  const double error = standard_error();
  if (!std::isnan(error)) {
    text += " ± " + FormatRounded(error, 3) + " (standard error)";
  }
  return text + " of " + std::to_string(point.values.size()) +
         point.EqualityRemark();
}

nlohmann::json ConfirmedTrial::ToJson() const {
  return {{"trial", trial},
          {"reported", JsonNumber(reported)},
          {"point", point.point},
          {"n", point.values.size()},
          {"mean", JsonNumber(point.mean())},
          {"sd", JsonNumber(point.sd())},
          {"standard_error", JsonNumber(standard_error())}};
}

std::vector<ConfirmedTrial> ListConfirmed(std::span<const TrialRow> trials,
                                          const ExperimentDetail& experiment) {
  std::vector<ConfirmedTrial> rows;
  const auto confirms = experiment.provenance.find(kConfirms);
  if (confirms == experiment.provenance.end()) return rows;
  const auto points = ListPoints(trials, experiment);
  for (const nlohmann::json& source : confirms->at("trials")) {
    ConfirmedTrial row{.trial = source.at("trial"),
                       .reported = NumberFromJson(source.at("value"))};
    if (rows.size() < points.size()) row.point = points[rows.size()];
    rows.push_back(std::move(row));
  }
  const bool smaller_is_better = experiment.row.smaller_is_better;
  std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) {
    const double x = a.point.mean(), y = b.point.mean();
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x);
    return IsBetter(x, y, smaller_is_better);
  });
  return rows;
}

std::string PointText(const PointRow& point, const Repeats& repeats) {
  const auto n = static_cast<std::int64_t>(point.values.size());
  std::string text = "point " + std::to_string(point.point);
  if (point.value) {
    text += ", " + repeats.metric + " " + FormatRounded(*point.value, 6);
  }
  text += std::string(point.value ? " of " : ", ");
  if (n < repeats.count) text += std::to_string(n) + " of ";
  text += std::to_string(repeats.count) + " repeats";
  if (n > 1) text += ", sd " + FormatRounded(point.sd(), 3);
  return text + point.EqualityRemark();
}

}  // namespace dtrain
