#include "engine/app/best_doubt.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "engine/base/json.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/run/points.h"
#include "engine/run/runner.h"
#include "engine/run/search_log.h"
#include "engine/store/store.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// True if `mean` is at most one deviation worse than that of the best.
bool IsNear(double mean, const BestDoubt& best, bool smaller_is_better) {
  return smaller_is_better ? mean <= best.mean + best.deviation
                           : mean >= best.mean - best.deviation;
}

std::optional<BestDoubt> FindRepeatDoubt(const Store& store,
                                         const ExperimentDetail& experiment,
                                         std::int64_t repeats) {
  const auto points = ListPoints(
      store.Trials(experiment.row.id, {.hparams = false, .checkpoints = false}),
      experiment);
  const PointRow* best = FindBestPoint(points, experiment);
  if (best == nullptr || std::isnan(best->sd())) return std::nullopt;
  const bool smaller = experiment.row.smaller_is_better;
  BestDoubt doubt{
      .source = BestDoubt::Source::kRepeats,
      .trial = ToString(TrialId{experiment.row.id, best->best_trial}),
      .mean = best->mean(),
      .deviation = best->sd(),
      .are_points = true};
  std::int64_t others = 0;
  for (const PointRow& point : points) {
    if (point.point == best->point ||
        !point.IsKnown(repeats, IsFinal(experiment.row.state))) {
      continue;
    }
    ++others;
    if (IsNear(point.mean(), doubt, smaller)) ++doubt.near;
  }
  if (others == 0) return std::nullopt;
  return doubt;
}

// Returns the searcher after the events that are recorded.
std::unique_ptr<Searcher> ReplaySearch(const Store& store,
                                       const ExperimentDetail& experiment) {
  const ExperimentConfig config = ConfigFromJson(experiment.config);
  auto searcher = MakeSearcher(CreatedSearcher(experiment, config.searcher),
                               config.hyperparameters, experiment.row.seed);
  const auto snapshot = store.LatestSnapshot(experiment.row.id);
  if (snapshot) searcher->Load(snapshot->state);
  for (const SearcherEventRow& row :
       store.SearcherEvents(experiment.row.id, snapshot ? snapshot->seq : 0)) {
    (void)HandleRecorded(*searcher, EventFromJson(row.event));
  }
  return searcher;
}

}  // namespace

std::string BestDoubt::Text() const {
  const std::string value =
      FormatRounded(mean, 6) + " ± " + FormatRounded(deviation, 3);
  const std::string others =
      CountText(near, are_points ? "other point is" : "other trial is",
                are_points ? "other points are" : "other trials are");
  if (source == Source::kRepeats) {
    return "the repeats of the best point have " + value + " (sd); " + others +
           " within that of it";
  }
  return "the model of the search expects " + value + " of " + trial +
         " at the greatest length; " + others + " expected within that of it";
}

nlohmann::json BestDoubt::ToJson() const {
  return {{"source", source == Source::kModel ? "model" : "repeats"},
          {"trial", trial},
          {"mean", JsonNumber(mean)},
          {"deviation", JsonNumber(deviation)},
          {"others", near}};
}

std::optional<BestDoubt> ReadBestDoubt(const Store& store,
                                       const ExperimentDetail& experiment) {
  const std::int64_t repeats = ReadRepeats(experiment.config).count;
  if (repeats > 1) return FindRepeatDoubt(store, experiment, repeats);
  const ExperimentRow& row = experiment.row;
  if (row.best_trial == 0) return std::nullopt;
  std::vector<Searcher::Expectation> expected;
  try {
    expected = ReplaySearch(store, experiment)->FindExpectations();
  } catch (const std::exception&) {
    return std::nullopt;  // `doctor` and `resume` say what is damaged
  }
  const auto best = std::ranges::find(expected, row.best_trial - 1,
                                      &Searcher::Expectation::trial);
  if (best == expected.end()) return std::nullopt;
  BestDoubt doubt{.trial = ToString(TrialId{row.id, row.best_trial}),
                  .mean = best->mean,
                  .deviation = best->deviation};
  const bool smaller = row.smaller_is_better;
  for (const auto& one : expected) {
    if (one.trial != best->trial && IsNear(one.mean, doubt, smaller))
      ++doubt.near;
  }
  return doubt;
}

}  // namespace dtrain
