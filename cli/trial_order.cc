#include "cli/trial_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "engine/base/error.h"
#include "engine/base/metric_order.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using TrialValues = std::map<TrialId, double>;

TrialValues SearcherValues(const std::vector<TrialRow>& trials) {
  TrialValues values;
  for (const TrialRow& trial : trials) {
    if (trial.best) values[trial.id] = trial.best->value;
  }
  return values;
}

TrialValues OtherValues(const Store& store, const ExperimentRow& experiment,
                        const std::string& metric,
                        const std::vector<TrialRow>& trials) {
  std::map<TrialId, std::int64_t> best_batches;
  for (const TrialRow& trial : trials) {
    if (trial.best) best_batches[trial.id] = trial.best->batches;
  }
  TrialValues values;
  store.ForEachMetric({.experiment = experiment.id,
                       .kind = MetricKind::kValidation,
                       .name = metric},
                      [&](const MetricRow& row) {
                        // Rows come by batches: what comes after the best one
                        // is not wanted.
                        const auto best = best_batches.find(row.trial);
                        const bool later = best != best_batches.end() &&
                                           row.batches > best->second;
                        if (!later) values[row.trial] = row.value;
                      });
  if (!values.empty()) return values;
  const std::vector<std::string> names = store.MetricNames(experiment.id);
  throw Error(ErrorKind::kNotFound,
              "--sort: experiment " + std::to_string(experiment.id) +
                  " has no validation metric '" + metric + "'; reported: " +
                  (names.empty() ? "none yet" : Join(names, ", ")) +
                  "; or sort by best or rung");
}

}  // namespace

void SortByMetric(const Store& store, const ExperimentRow& experiment,
                  const std::string& metric, std::vector<TrialRow>& trials) {
  const bool searched = metric == experiment.metric;
  const TrialValues values =
      searched ? SearcherValues(trials)
               : OtherValues(store, experiment, metric, trials);
  const bool ascending = !searched || experiment.smaller_is_better;
  const auto value_of = [&](const TrialRow& trial) {
    const auto found = values.find(trial.id);
    return found == values.end() ? kNone : found->second;
  };
  std::ranges::stable_sort(trials, [&](const TrialRow& a, const TrialRow& b) {
    const double left = value_of(a);
    const double right = value_of(b);
    if (std::isnan(left) || std::isnan(right)) {
      return !std::isnan(left) && std::isnan(right);
    }
    return IsBetter(left, right, ascending);
  });
}

void SortTrials(const Store& store, const ExperimentRow& experiment,
                const std::string& key, std::vector<TrialRow>& trials) {
  const bool by_rung = key == "rung";
  const bool by_best = by_rung || key == "best";
  SortByMetric(store, experiment, by_best ? experiment.metric : key, trials);
  if (!by_rung) return;
  std::ranges::stable_sort(trials, std::greater<>(), &TrialRow::rung);
}

}  // namespace dtrain
