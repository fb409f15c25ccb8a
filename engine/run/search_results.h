#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/run/reporter.h"
#include "engine/run/trial_table.h"
#include "engine/store/rows.h"
#include "searchers/search_plan.h"
#include "searchers/searcher_config.h"

namespace dtrain {

/// "batch 3750", "epoch 3" or "record 600": a count of what `unit` says.
std::string PositionText(std::int64_t count, Unit unit);

/// The lengths at which a search compares its trials, for people: how many
/// trials were validated at each, and why one was not trained on. Pure.
class Rungs {
 public:
  Rungs(const SearcherConfig& config, Unit unit);

  /// A trial was validated at this length.
  void Count(std::int64_t length);

  /// By length over all brackets; empty for fewer than two lengths.
  std::vector<RungStatus> Status(const TrialTable::Live& live) const;
  /// Why a trial that completed `rung` operations, the last one of length
  /// `trained`, ended: "not promoted from rung 1 of 3 (100 batches)".
  std::string WhyStopped(std::int64_t rung, std::int64_t trained) const;

 private:
  std::vector<Bracket> brackets_;
  Unit unit_;
  bool stop_once_;
  std::map<std::int64_t, std::int64_t> done_;  // trials by length
};

/// Progress of a search: length trained over length planned. An ended trial
/// was planned for the length it trained, a future one for all of it. Pure.
class SearchProgress {
 public:
  /// `space` are the hyperparameters of the configuration.
  SearchProgress(const SearcherConfig& config, const nlohmann::json& space);

  /// Sets the progress that is recorded.
  void Set(double recorded) { recorded_ = recorded; }
  double recorded() const { return recorded_; }
  /// Progress of a search that is not over: below 1, and never below the
  /// recorded one. `searched` is what the searcher reports.
  double Estimate(const TrialTable& trials, double searched) const;

 private:
  double Planned(const TrialTable& trials, double searched) const;

  SearchPlan plan_;
  double length_;  // of a trial; 0: estimated by the searcher alone
  double recorded_ = 0;
};

/// The best validation of an experiment by the searcher's metric, with its
/// trial and checkpoint. NaN and infinities are never best; of equals the
/// first trial's is, whichever was faster, so that runs of one seed agree.
class BestTrial {
 public:
  explicit BestTrial(bool smaller_is_better)
      : smaller_is_better_(smaller_is_better) {}

  /// Applies a validation of `trial`: updates its best, and the best of all.
  /// True if it is now the best of all.
  bool Offer(TrialRow& trial, double value, std::int64_t batches);
  /// Goes on from what is recorded; `trial` is the one that holds it.
  void Set(const BestValidation& best, const TrialRow& trial);
  /// There is none, as far as is known.
  void Clear();

  /// A checkpoint was saved, or deleted.
  void SetCheckpoint(TrialId trial, std::int64_t batches,
                     const std::string& uuid);
  void ClearCheckpoint(const std::string& uuid);

  const std::optional<BestValidation>& validation() const { return best_; }
  std::int64_t trial() const { return trial_; }  // its number; 0: none
  const nlohmann::json& hparams() const { return hparams_; }

 private:
  bool smaller_is_better_;
  std::optional<BestValidation> best_;
  std::int64_t trial_ = 0;
  nlohmann::json hparams_;
};

/// Collects which hyperparameters the trials of one experiment have not read.
/// Names are paths: dots reach into nested maps.
class UnreadHparams {
 public:
  /// `space` are the hyperparameters of the configuration.
  explicit UnreadHparams(nlohmann::json space) : space_(std::move(space)) {}

  /// Records what one trial has not read by now.
  void Record(const std::vector<std::string>& unread);
  /// Those that no trial has read, sorted; nullopt before the first record.
  std::optional<std::vector<std::string>> names() const;

  /// The searched ones of which a trial with these hyperparameters has read
  /// nothing. Sorted.
  std::vector<std::string> Searched(
      const nlohmann::json& hparams,
      const std::vector<std::string>& unread) const;

 private:
  nlohmann::json space_;
  std::optional<std::set<std::string>> names_;
};

}  // namespace dtrain
