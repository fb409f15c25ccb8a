#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/config/experiment_config.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Returns the UUIDs of an experiment's checkpoints that are kept: the best
/// ones of the experiment and of each trial by the searcher's metric (never
/// those without a finite one; the earlier of equals is better), and the latest
/// ones of each trial. `checkpoints` are the COMPLETED ones in the order in
/// which they were saved. `unfinished` trials keep their latest under any
/// policy, since they resume from it.
std::set<std::string> CheckpointsToKeep(
    const CheckpointConfig& policy, bool smaller_is_better,
    const std::vector<CheckpointRow>& checkpoints,
    const std::set<TrialId>& unfinished);

/// Applies an experiment's checkpoint policy incrementally: returns after each
/// change the checkpoints to delete, which are those that `CheckpointsToKeep`
/// would drop from all of them. Considers only the trial concerned and the best
/// of the experiment, and removes ended trials. Pure: it deletes nothing
/// itself.
class CheckpointKeeper {
 public:
  using Rows = std::vector<CheckpointRow>;

  CheckpointKeeper(CheckpointConfig policy, bool smaller_is_better);

  /// Adds a complete checkpoint. No effect if it is known already.
  [[nodiscard]] Rows Add(CheckpointRow row);
  /// Sets the searcher's metric of the trial's checkpoint at `batches`, if any.
  [[nodiscard]] Rows SetMetric(TrialId trial, std::int64_t batches,
                               double metric);
  /// Removes a checkpoint that cannot be used.
  void Forget(TrialId trial, const std::string& uuid);
  /// Removes a trial that has ended and needs no checkpoint to resume.
  [[nodiscard]] Rows End(TrialId trial);

  /// Checkpoint that an unfinished trial resumes from, or nullptr.
  const CheckpointRow* Latest(TrialId trial) const;
  /// Its position; 0 batches if there is none.
  ReportedAt Saved(TrialId trial) const;
  /// Checkpoint of an unfinished trial at `batches`, or nullptr.
  const CheckpointRow* At(TrialId trial, std::int64_t batches) const;

 private:
  // Rank among the best of the experiment: the lower the better.
  struct Rank {
    double value;
    TrialId trial;
    std::int64_t batches;
    std::string uuid;

    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct BestRow {
    CheckpointRow row;
    bool kept = false;  // kept for its trial too, which has ended
  };

  Rank MakeRank(const CheckpointRow& row) const;
  bool IsBest(const CheckpointRow& row) const;
  void Offer(const CheckpointRow& row, Rows& dropped);
  std::set<std::string> KeptCheckpoints(TrialId trial, bool unfinished) const;
  void Prune(TrialId trial, Rows& dropped);

  CheckpointConfig policy_;  // for one trial
  std::size_t best_limit_;   // of the experiment
  bool smaller_is_better_;
  std::map<TrialId, Rows> unfinished_;  // by batches
  std::map<Rank, BestRow> best_;        // of the experiment
};

}  // namespace dtrain
