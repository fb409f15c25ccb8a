#include "engine/run/checkpoint_keeper.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/run/checkpoint_policy.h"

namespace dtrain {

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
  // What is in its files matters to nobody here, and there may be many.
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
    changed = true;
    if (IsBest(row)) best_.erase(RankOf(row));
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
    if (IsBest(row)) best_.erase(RankOf(row));
    return true;
  });
}

CheckpointKeeper::Rows CheckpointKeeper::End(TrialId trial) {
  Rows dropped;
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return dropped;
  const std::set<std::string> wanted = Wanted(trial, /*unfinished=*/false);
  for (CheckpointRow& row : found->second) {
    const bool is_wanted = wanted.contains(row.uuid);
    if (IsBest(row)) {
      best_.at(RankOf(row)).wanted = is_wanted;
    } else if (!is_wanted) {
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

const CheckpointRow* CheckpointKeeper::At(TrialId trial,
                                          std::int64_t batches) const {
  const auto found = unfinished_.find(trial);
  if (found == unfinished_.end()) return nullptr;
  for (const CheckpointRow& row : found->second) {
    if (row.batches == batches) return &row;
  }
  return nullptr;
}

CheckpointKeeper::Rank CheckpointKeeper::RankOf(
    const CheckpointRow& row) const {
  return {smaller_is_better_ ? *row.metric : -*row.metric, row.trial,
          row.batches, row.uuid};
}

bool CheckpointKeeper::IsBest(const CheckpointRow& row) const {
  return row.metric && std::isfinite(*row.metric) &&
         best_.contains(RankOf(row));
}

void CheckpointKeeper::Offer(const CheckpointRow& row, Rows& dropped) {
  if (best_limit_ == 0 || !row.metric || !std::isfinite(*row.metric)) return;
  best_.emplace(RankOf(row), BestRow{.row = row});
  if (best_.size() <= best_limit_) return;
  const auto worst = std::prev(best_.end());
  const BestRow out = std::move(worst->second);
  best_.erase(worst);
  const TrialId trial = out.row.trial;
  if (unfinished_.contains(trial)) {
    if (trial != row.trial) Prune(trial, dropped);
  } else if (!out.wanted) {
    dropped.push_back(out.row);
  }
}

std::set<std::string> CheckpointKeeper::Wanted(TrialId trial,
                                               bool unfinished) const {
  return CheckpointsToKeep(
      policy_, smaller_is_better_, unfinished_.at(trial),
      unfinished ? std::set<TrialId>{trial} : std::set<TrialId>{});
}

void CheckpointKeeper::Prune(TrialId trial, Rows& dropped) {
  const std::set<std::string> wanted = Wanted(trial, /*unfinished=*/true);
  std::erase_if(unfinished_.at(trial), [&](const CheckpointRow& row) {
    if (wanted.contains(row.uuid) || IsBest(row)) return false;
    dropped.push_back(row);
    return true;
  });
}

}  // namespace dtrain
