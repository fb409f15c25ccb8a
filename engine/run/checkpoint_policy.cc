#include "engine/run/checkpoint_policy.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtrain {
namespace {

using Pointers = std::vector<const CheckpointRow*>;

// The `count` best of `candidates`, best first.
Pointers Best(Pointers candidates, std::int64_t count, bool smaller_is_better) {
  std::erase_if(candidates, [](const CheckpointRow* row) {
    return !row->metric || !std::isfinite(*row->metric);
  });
  using Row = const CheckpointRow*;
  std::ranges::stable_sort(candidates, [&](Row a, Row b) {
    return smaller_is_better ? *a->metric < *b->metric
                             : *a->metric > *b->metric;
  });
  const auto limit = static_cast<std::size_t>(count);
  if (candidates.size() > limit) candidates.resize(limit);
  return candidates;
}

}  // namespace

std::set<std::string> CheckpointsToKeep(
    const CheckpointConfig& policy, bool smaller_is_better,
    const std::vector<CheckpointRow>& checkpoints,
    const std::set<TrialId>& unfinished) {
  std::set<std::string> keep;
  const auto keep_all = [&](const Pointers& rows) {
    for (const CheckpointRow* row : rows) keep.insert(row->uuid);
  };
  Pointers all;
  std::map<TrialId, Pointers> by_trial;
  for (const CheckpointRow& row : checkpoints) {
    all.push_back(&row);
    by_trial[row.trial].push_back(&row);
  }
  if (policy.policy == "all") {
    keep_all(all);
    return keep;
  }
  const bool none = policy.policy == "none";
  if (!none) {
    keep_all(Best(all, policy.save_experiment_best, smaller_is_better));
  }
  for (const auto& [trial, rows] : by_trial) {
    if (!none) {
      keep_all(Best(rows, policy.save_trial_best, smaller_is_better));
    }
    std::int64_t latest = none ? 0 : policy.save_trial_latest;
    if (unfinished.contains(trial)) latest = std::max<std::int64_t>(latest, 1);
    const auto count = std::min(rows.size(), static_cast<std::size_t>(latest));
    keep_all({rows.end() - static_cast<std::ptrdiff_t>(count), rows.end()});
  }
  return keep;
}

}  // namespace dtrain
