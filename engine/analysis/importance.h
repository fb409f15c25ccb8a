#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/analysis/search_axes.h"

namespace dtrain {

/// A trial as the analysis sees it.
struct TrialOutcome {
  std::vector<double> places;  // on the axes (PlaceOn), in their order
  double value = 0;            // of the metric
};

/// Importance of a hyperparameter for being among the best trials.
struct HparamImportance {
  std::string name;
  // Divergence of the distribution of its values in the best trials from that
  // in all trials, 0 if they are equal; comparable within one search only.
  double divergence = 0;
  // Its part of the sum of the divergences of all hyperparameters, 0 to 1; 0 if
  // the sum is 0. Parts of a category, which is in the sum, are not added
  // again.
  double share = 0;
  // Ends of a 90 % interval of `share`: of its values in samples of as many
  // trials, drawn with replacement (bootstrap; Efron, 1979).
  double low = 0;
  double high = 0;
  // Spearman's rank correlation of its values with the metric's. Empty for
  // categories that are not numbers, and where either is constant.
  std::optional<double> correlation;
  // Number of trials with a finite value of the metric that have it.
  std::size_t trials = 0;
};

/// Number of trials that HparamImportances counts as the best: `quantile` of
/// those with a finite value, rounded up, and all that equal the last of them.
std::size_t CountBest(const std::vector<TrialOutcome>& trials,
                      bool smaller_is_better, double quantile);

/// Fewer trials among the best make the result a matter of chance.
inline constexpr std::size_t kFewBest = 5;

/// Fewer trials say too little about any hyperparameter.
inline constexpr std::size_t kMinImportanceTrials = 10;

/// Returns the importance of each axis, the highest first, by PED-ANOVA
/// (Watanabe, Bansal, Hutter: "PED-ANOVA: Efficiently Quantifying
/// Hyperparameter Importance in Arbitrary Subspaces", IJCAI 2023), with the
/// settings of Optuna 5's PedAnovaImportanceEvaluator: the best `quantile` of
/// the trials against all. Trials whose value is not a finite number are left
/// out; a hyperparameter is judged by the trials that have it. `low` and `high`
/// are computed if `intervals`. REQUIRES: 0 < quantile < 1.
std::vector<HparamImportance> HparamImportances(
    const std::vector<SearchAxis>& axes,
    const std::vector<TrialOutcome>& trials, bool smaller_is_better,
    double quantile, bool intervals = true);

}  // namespace dtrain
