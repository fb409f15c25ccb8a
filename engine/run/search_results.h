#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"
#include "engine/config/experiment_config.h"
#include "engine/run/reporter.h"
#include "engine/run/trial_table.h"
#include "engine/store/rows.h"
#include "searchers/hparam_conditions.h"
#include "searchers/search_plan.h"
#include "searchers/searcher.h"

namespace dtrain {

/// Lengths at which a search compares its trials, for display: number of trials
/// validated at each, and the reason why one was not trained further. Pure.
class Rungs {
 public:
  Rungs(const SearcherConfig& config, Unit unit);

  /// A trial was validated at this length.
  void Count(std::int64_t length);

  /// By length over all brackets; empty for fewer than two lengths. `running`
  /// is the number of running trials by the length that they train towards.
  std::vector<RungStatus> Status(
      const std::map<std::int64_t, std::int64_t>& running) const;
  /// Returns the reason of a trial that ended after `rung` operations, the last
  /// one of length `trained`: "not promoted from rung 1 of 3 (100 batches)".
  std::string StopReason(std::int64_t rung, std::int64_t trained) const;

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
/// trial and checkpoint. NaN and infinities are never best; for equal values
/// see RankKey.
class BestTrial {
 public:
  /// `is_set`: the best of all is only what Set sets, with repeats.
  explicit BestTrial(bool smaller_is_better, bool is_set = false)
      : smaller_is_better_(smaller_is_better), is_set_(is_set) {}

  /// Applies a validation of `trial`: updates its best, and the best of all.
  /// True if it is now the best of all.
  bool Offer(TrialRow& trial, double value, const ReportedAt& at);
  /// Sets the best from the record; `trial` is the one that it belongs to.
  void Set(const BestValidation& best, const TrialRow& trial);
  /// Removes the best.
  void Clear();

  /// Sets the checkpoint of the best when it is saved, clears it when deleted.
  void SetCheckpoint(TrialId trial, std::int64_t batches,
                     const std::string& uuid);
  void ClearCheckpoint(const std::string& uuid);

  const std::optional<BestValidation>& validation() const { return best_; }
  std::int64_t trial() const { return trial_; }  // its number; 0: none
  const nlohmann::json& hparams() const { return hparams_; }

 private:
  bool smaller_is_better_;
  bool is_set_;
  std::optional<BestValidation> best_;
  std::int64_t trial_ = 0;
  nlohmann::json hparams_;
};

/// Metrics that an experiment needs in each validation, and what users are told
/// of one that lacks them. Pure.
class RequiredMetrics {
 public:
  /// `config` must outlive this.
  explicit RequiredMetrics(const ExperimentConfig& config) : config_(config) {}

  /// Returns the searcher's metric; none if it was not reported.
  std::optional<double> Find(const MetricValues& metrics) const;
  /// True if trials train on without it, since nothing is searched.
  bool may_lack() const { return !config_.training.requires_metric; }
  /// Returns a warning that it was not reported, once; otherwise an empty
  /// string.
  std::string Warn(const MetricValues& metrics);
  /// Returns the error of a trial that did not report it.
  std::string MissingText(const MetricValues& metrics) const;
  /// Returns the error of a trial that did not report the metric by which it is
  /// to stop early; otherwise an empty string.
  std::string CheckStopping(const MetricValues& metrics) const;

 private:
  const ExperimentConfig& config_;
  bool warned_ = false;
};

/// Collects which hyperparameters the trials of one experiment have not read.
/// Names are paths: dots reach into nested maps. A program may say what it has
/// not read, or not. A built-in model may read some only for certain values of
/// others, so of its hyperparameters only searched ones count. Pure.
class UnreadHparams {
 public:
  /// `config` must outlive this. `is_custom`: the model is the user's own.
  UnreadHparams(const ExperimentConfig& config, bool is_custom)
      : config_(config),
        is_custom_(is_custom),
        deciding_(HparamConditions(config.hyperparameters).Deciding()) {}

  /// Records the names that a trial has not read so far, by a report.
  void Record(const TrialRow& trial, const std::vector<std::string>& unread);
  /// Records those that it has not read at its end.
  void RecordAtEnd(const TrialRow& trial,
                   const std::vector<std::string>& unread);
  /// Returns those that no trial has read, sorted; nullopt before the first
  /// record, or if that cannot be known.
  std::optional<std::vector<std::string>> names() const;

  /// Returns a warning of a trial that has not read these names, once for each
  /// set of names, which is usually the same in all trials; otherwise an empty
  /// string.
  std::string Warn(const std::vector<std::string>& unread);
  /// A trial was validated that has not read these names. Returns why the
  /// search is in vain if it is the first one and they contain searched ones
  /// that it may not have read elsewhere (`may_read`); otherwise an empty
  /// string.
  std::string CheckFirst(
      const TrialRow& trial, const std::vector<std::string>& unread,
      const std::function<bool(const std::string&)>& may_read);
  /// An earlier run has validated a trial.
  void SetValidated() { validated_ = true; }

 private:
  // Returns the names without those that conditions decide by: they have an
  // effect on a trial that does not read them.
  std::vector<std::string> WithoutDeciding(
      std::vector<std::string> names) const;
  std::vector<std::string> Searched(
      const nlohmann::json& hparams,
      const std::vector<std::string>& unread) const;
  void Intersect(const std::vector<std::string>& unread);

  const ExperimentConfig& config_;
  bool is_custom_;
  std::set<std::string> deciding_;
  std::optional<std::set<std::string>> names_;
  bool may_have_read_all_ = false;  // a program, before one named some
  std::string warned_of_;
  bool validated_ = false;  // a trial was
};

}  // namespace dtrain
