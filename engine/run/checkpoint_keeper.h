#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Which of an experiment's checkpoints are kept: the best ones of the
/// experiment and of each trial by the searcher's metric (those without a
/// finite one are never best, the earlier of equals is better), and the latest
/// ones of each trial. `checkpoints` are the COMPLETE ones in the order in
/// which they were saved. `unfinished` trials keep their latest whatever the
/// policy says: they go on from it.
std::set<std::string> CheckpointsToKeep(
    const CheckpointConfig& policy, bool smaller_is_better,
    const std::vector<CheckpointRow>& checkpoints,
    const std::set<TrialId>& unfinished);

/// Keeps to an experiment's checkpoint policy while checkpoints come: says
/// after each change which ones are to be deleted, the same that
/// `CheckpointsToKeep` would drop from all of them. Looks only at the trial
/// concerned and at the best of the experiment, and forgets the trials that
/// have ended. Of equal metrics the first trial's is better, then the earlier.
/// Pure: it deletes nothing itself.
class CheckpointKeeper {
 public:
  using Rows = std::vector<CheckpointRow>;

  CheckpointKeeper(CheckpointConfig policy, bool smaller_is_better);

  /// A checkpoint is complete. One that is known already is passed over.
  [[nodiscard]] Rows Add(CheckpointRow row);
  /// The searcher's metric was measured where the trial has a checkpoint.
  [[nodiscard]] Rows SetMetric(TrialId trial, std::int64_t batches,
                               double metric);
  /// The checkpoint is of no use any more, whatever the policy says.
  void Forget(TrialId trial, const std::string& uuid);
  /// The trial has ended: it goes on from no checkpoint any more.
  [[nodiscard]] Rows End(TrialId trial);

  /// The checkpoint that an unfinished trial goes on from, or nullptr.
  const CheckpointRow* Latest(TrialId trial) const;
  /// The checkpoint of an unfinished trial at a batch, or nullptr.
  const CheckpointRow* At(TrialId trial, std::int64_t batches) const;

 private:
  // Place among the best of the experiment: the lower the better.
  struct Rank {
    double value;
    TrialId trial;
    std::int64_t batches;
    std::string uuid;

    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct BestRow {
    CheckpointRow row;
    bool wanted = false;  // by its trial too, which has ended
  };

  Rank RankOf(const CheckpointRow& row) const;
  bool IsBest(const CheckpointRow& row) const;
  void Offer(const CheckpointRow& row, Rows& dropped);
  std::set<std::string> Wanted(TrialId trial, bool unfinished) const;
  void Prune(TrialId trial, Rows& dropped);

  CheckpointConfig policy_;  // for one trial
  std::size_t best_limit_;   // of the experiment
  bool smaller_is_better_;
  std::map<TrialId, Rows> unfinished_;  // by batches
  std::map<Rank, BestRow> best_;        // of the experiment
};

}  // namespace dtrain
