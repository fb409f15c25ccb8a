#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/run/reporter.h"
#include "engine/run/trial_table.h"
#include "engine/store/rows.h"
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
/// trial and checkpoint. NaN and infinities are never best; for equal values
/// see RankKey.
class BestTrial {
 public:
  explicit BestTrial(bool smaller_is_better)
      : smaller_is_better_(smaller_is_better) {}

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

  /// Records the names that one trial has not read so far.
  void Record(const std::vector<std::string>& unread);
  /// Returns those that no trial has read, sorted; nullopt before the first
  /// record.
  std::optional<std::vector<std::string>> names() const;

  /// Returns the searched hyperparameters of which a trial with `hparams` has
  /// read nothing, sorted.
  std::vector<std::string> Searched(
      const nlohmann::json& hparams,
      const std::vector<std::string>& unread) const;

 private:
  nlohmann::json space_;
  std::optional<std::set<std::string>> names_;
};

/// Progress of a search when its run ends.
struct SearchOutcome {
  bool over = false;          // the searcher has asked for the end
  bool failed = false;        // … because every trial failed
  std::int64_t ended = 0;     // trials
  std::int64_t finished = 0;  // … completed, or stopped by the searcher
  std::int64_t killed = 0;    // … by a user
  std::string last_error;     // of a trial
  // Reason that a finished search has no result although trials finished, or
  // "".
  std::string no_result;
};

/// Reason that a run stops before its search is over, and the state that the
/// experiment is left in. Stops no trial itself. Pure.
class RunStop {
 public:
  /// All trials are being stopped. `why` becomes the reason of those that are
  /// left: "stopped by SIGTERM". A later call replaces it.
  void Stop(std::string why);
  /// A user ends the experiment, which cannot be resumed.
  void Cancel() { canceled_ = true; }
  /// The time limit has passed.
  void SetTimedOut() { timed_out_ = true; }
  /// The process was interrupted. False if that is a second signal.
  [[nodiscard]] bool SetSignal(int signal);
  /// The machine lacks what the run needs. False for all but the first call.
  [[nodiscard]] bool SetProblem(const Error& problem);
  /// The experiment ends in ERROR. False for all but the first call.
  [[nodiscard]] bool SetFailure(std::string why);

  bool stopping() const { return stopping_; }
  const std::string& why() const { return why_; }
  bool canceled() const { return canceled_; }
  bool failed() const { return !failure_.empty(); }

  /// The experiment's state once no trial has a process.
  State EndState(const SearchOutcome& search) const;
  /// State, error, signal and time limit of the result.
  RunResult Result(std::int64_t experiment, const SearchOutcome& search) const;

 private:
  bool stopping_ = false;
  std::string why_;
  bool canceled_ = false;
  bool timed_out_ = false;
  int signal_ = 0;
  std::optional<Error> problem_;
  std::string failure_;
};

}  // namespace dtrain
