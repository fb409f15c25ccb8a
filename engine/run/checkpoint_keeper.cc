// CheckpointsToKeep states the policy over a whole list. CheckpointKeeper gives
// the same answer after each change without going through the checkpoints of
// ended trials, of which a long search has thousands. It holds two things: all
// complete checkpoints of each unfinished trial, and the `save_experiment_best`
// best of the experiment in an ordered map.
//
// For one trial it calls CheckpointsToKeep with `save_experiment_best` 0; a
// checkpoint is dropped if neither this nor the map wants it. When a better one
// pushes a checkpoint out of the map, its trial must therefore be considered
// again (Offer). For an ended trial only the answer of that time remains, in
// BestRow::wanted.

#include "engine/run/checkpoint_keeper.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/metric_order.h"

namespace dtrain {
namespace {

using Pointers = std::vector<const CheckpointRow*>;

// Returns the `count` best of `candidates`, best first.
Pointers Best(Pointers candidates, std::int64_t count, bool smaller_is_better) {
  std::erase_if(candidates, [](const CheckpointRow* row) {
    return !row->metric || !std::isfinite(*row->metric);
  });
  std::ranges::stable_sort(candidates, {}, [&](const CheckpointRow* row) {
    return RankKey(*row->metric, smaller_is_better);
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

CheckpointKeeper::CheckpointKeeper(CheckpointConfig policy,
                                   bool smaller_is_better)
    : policy_(std::move(policy)),
      best_limit_(policy_.policy == "best"
                      ? static_cast<std::size_t>(policy_.save_experiment_best)
                      : 0),
      smaller_is_better_(smaller_is_better) {
  policy_.save_experiment_best = 0;
}

CheckpointKeeper::Rows CheckpointKeeper::Add(CheckpointRow row) {
  // The list of files is not needed here and may be long.
  row.files = nullptr;
  Rows& rows = unfinished_[row.trial];
  if (std::ranges::any_of(
          rows, [&](const auto& known) { return known.uuid == row.uuid; })) {
    return {};
  }
  const auto later =
      std::ranges::upper_bound(rows, row.batches, {}, &CheckpointRow::batches);
  rows.insert(later, row);
  Rows dropped;
  Offer(row, dropped);
  Prune(row.trial, dropped);
  return dropped;
}

CheckpointKeeper::Rows CheckpointKeeper::SetMetric(TrialId trial,
                                                   std::int64_t batches,
                                                   double metric) {
  Rows dropped;
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return dropped;
  bool changed = false;
  for (CheckpointRow& row : found->second) {
    if (row.batches != batches || row.metric == metric) continue;
    // The metric is part of the rank, so the row must leave the map before it
    // changes.
    changed = true;
    if (IsBest(row)) best_.erase(MakeRank(row));
    row.metric = metric;
    Offer(row, dropped);
  }
  if (changed) Prune(trial, dropped);
  return dropped;
}

void CheckpointKeeper::Forget(TrialId trial, const std::string& uuid) {
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return;
  std::erase_if(found->second, [&](const CheckpointRow& row) {
    if (row.uuid != uuid) return false;
    if (IsBest(row)) best_.erase(MakeRank(row));
    return true;
  });
}

CheckpointKeeper::Rows CheckpointKeeper::End(TrialId trial) {
  Rows dropped;
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return dropped;
  const std::set<std::string> kept =
      KeptCheckpoints(trial, /*unfinished=*/false);
  for (CheckpointRow& row : found->second) {
    const bool is_kept = kept.contains(row.uuid);
    if (IsBest(row)) {
      // Remains until a better one pushes it out of the map.
      best_.at(MakeRank(row)).kept = is_kept;
    } else if (!is_kept) {
      dropped.push_back(std::move(row));
    }
  }
  unfinished_.erase(found);
  return dropped;
}

const CheckpointRow* CheckpointKeeper::Latest(TrialId trial) const {
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end() || found->second.empty()) return nullptr;
  return &found->second.back();
}

ReportedAt CheckpointKeeper::Saved(TrialId trial) const {
  const CheckpointRow* latest = Latest(trial);
  return latest == nullptr ? ReportedAt() : latest->at();
}

const CheckpointRow* CheckpointKeeper::At(TrialId trial,
                                          std::int64_t batches) const {
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return nullptr;
  for (const CheckpointRow& row : found->second) {
    if (row.batches == batches) return &row;
  }
  return nullptr;
}

CheckpointKeeper::Rank CheckpointKeeper::MakeRank(
    const CheckpointRow& row) const {
  return {RankKey(*row.metric, smaller_is_better_), row.trial, row.batches,
          row.uuid};
}

bool CheckpointKeeper::IsBest(const CheckpointRow& row) const {
  return row.metric && std::isfinite(*row.metric) &&
         best_.contains(MakeRank(row));
}

void CheckpointKeeper::Offer(const CheckpointRow& row, Rows& dropped) {
  if (best_limit_ == 0 || !row.metric || !std::isfinite(*row.metric)) return;
  best_.emplace(MakeRank(row), BestRow{.row = row});
  if (best_.size() <= best_limit_) return;
  // The map is ordered by rank, the best first.
  const auto worst = std::prev(best_.end());
  const BestRow out = std::move(worst->second);
  best_.erase(worst);
  const TrialId trial = out.row.trial;
  if (unfinished_.contains(trial)) {
    if (trial != row.trial) Prune(trial, dropped);
  } else if (!out.kept) {
    dropped.push_back(out.row);
  }
}

std::set<std::string> CheckpointKeeper::KeptCheckpoints(TrialId trial,
                                                        bool unfinished) const {
  return CheckpointsToKeep(
      policy_, smaller_is_better_, unfinished_.at(trial),
      unfinished ? std::set<TrialId>{trial} : std::set<TrialId>{});
}

void CheckpointKeeper::Prune(TrialId trial, Rows& dropped) {
  const std::set<std::string> kept =
      KeptCheckpoints(trial, /*unfinished=*/true);
  std::erase_if(unfinished_.at(trial), [&](const CheckpointRow& row) {
    if (kept.contains(row.uuid) || IsBest(row)) return false;
    dropped.push_back(row);
    return true;
  });
}

}  // namespace dtrain
