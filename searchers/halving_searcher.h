#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/search_plan.h"
#include "searchers/searcher.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// The results of one rung of successive halving, smallest first. Keeps the
/// best 1/divisor separate from the rest, so that every change costs O(log n).
class Rung {
 public:
  /// Result of a trial that exited, and of NaN: worse than any other.
  static constexpr double kWorst = std::numeric_limits<double>::max();

  /// Order of equal results, and number of best ones among n.
  enum class Rule {
    kPromotion,  // a new result after its equals; ⌊n / divisor⌋
    kStopping,   // a new result before its equals; at least 1
  };

  struct Insertion {
    /// The new result is among the best.
    bool among_best = false;
    /// Otherwise, the trial that has become one of the best because their
    /// number grew.
    std::optional<TrialIndex> risen;
  };

  Rung(double divisor, Rule rule) : divisor_(divisor), rule_(rule) {}

  /// Adds a trial's result. `waits`: the trial may be promoted from here later;
  /// DrainWaiting returns it until then. REQUIRES: the trial has no result yet.
  Insertion Insert(TrialIndex trial, double metric, bool waits);
  /// Removes the trial's result, if it has one.
  void Remove(TrialIndex trial);
  /// Marks the trial as promoted to the next rung.
  void Promote(TrialIndex trial);
  /// Removes the trial from those that wait; its result stays.
  void StopWaiting(TrialIndex trial);
  /// Adds the trial to those that wait, if its result may be promoted. Returns
  /// whether it waits. REQUIRES: it has a result.
  bool Wait(TrialIndex trial);
  /// Returns the waiting trials, best first, and clears their list.
  std::vector<TrialIndex> DrainWaiting();

  /// Returns the trials with a result, best first.
  std::vector<TrialIndex> Trials() const;
  bool promoted(TrialIndex trial) const { return results_.at(trial).promoted; }
  std::int64_t size() const {
    return static_cast<std::int64_t>(results_.size());
  }

  nlohmann::json Save() const;
  /// Throws nlohmann::json::exception.
  void Load(const nlohmann::json& state);

 private:
  struct Key {
    double metric = 0;
    std::int64_t order = 0;  // among equals
    TrialIndex trial = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Result {
    Key key;
    bool promoted = false;
  };

  std::size_t BestCount(std::size_t results) const;
  void Place(const Key& key);
  void FitBest();

  double divisor_;
  Rule rule_;
  std::int64_t inserted_ = 0;
  std::set<Key> best_;  // the first BestCount(size()) of all
  std::set<Key> rest_;
  std::set<Key> waiting_;
  std::unordered_map<TrialIndex, Result> results_;
};

/// Asynchronous successive halving (ASHA: Li et al., "A System for Massively
/// Parallel Hyperparameter Tuning", MLSys 2020) over a list of rungs. With
/// promotion, as in the paper, every trial waits at its rung until it is among
/// the best 1/divisor there. With stopping, a trial continues immediately if it
/// is among the best so far and is closed otherwise.
class AshaBracket {
 public:
  enum class Method { kPromotion, kStopping };

  /// `rules`: see kCurrentRules.
  AshaBracket(const Bracket& bracket, double divisor, Method method,
              std::int64_t rules);

  /// Adds the first trials, which are deferred as all others of the bracket.
  void Start(TrialRoster& roster);
  /// Creates the next deferred trial of the roster, which is the bracket's.
  void Create(TrialRoster& roster, std::vector<Operation>& operations);
  /// Handles the result of a trial at its rung; smaller is better. NaN and
  /// infinity count as the worst result and end the trial.
  void Complete(TrialIndex trial, double metric, TrialRoster& roster,
                std::vector<Operation>& operations);
  /// Handles the end of a closed trial.
  void End(TrialIndex trial);
  /// Continues with another number of trials, which `plan` has.
  void Extend(const Bracket& plan, TrialRoster& roster,
              std::vector<Operation>& operations);
  /// Takes back the error of an exited trial that was trained to `length`.
  void Retry(TrialIndex trial, std::int64_t length, TrialRoster& roster,
             std::vector<Operation>& operations);
  /// Lets the trials that ended without having been promoted wait again, except
  /// those in `lost`.
  void ReopenWaiting(const std::set<TrialIndex>& lost, TrialRoster& roster,
                     std::vector<Operation>& operations);
  /// When all trials have a result at the lowest rung, closes the trials that
  /// wait in rungs that cannot get further results.
  void CloseFinishedRungs(std::vector<Operation>& operations);
  /// Handles an early exit. An error counts as the worst result; an invalid
  /// trial is removed from all rungs and replaced.
  void Exit(TrialIndex trial, ExitReason reason, TrialRoster& roster,
            std::vector<Operation>& operations);

  /// Number of trials, as configured or extended.
  std::int64_t planned() const { return planned_; }
  /// Number of trials without a result at the lowest rung, with deferred ones.
  std::int64_t open() const { return outstanding_.front(); }
  /// Completed fraction of the bracket, in [0, 1]; may decrease.
  double Progress() const;

  nlohmann::json Save() const;
  /// Throws nlohmann::json::exception.
  void Load(const nlohmann::json& state);

 private:
  struct TrialPlace {
    std::size_t rung = 0;  // rung that it trains to or waits at
    bool training = true;  // has no result at its rung yet
    bool exited = false;   // exited early
    bool closed = false;   // has a Close operation, or has ended
    bool ended = false;
  };

  void Add(std::int64_t trials, TrialRoster& roster);
  std::optional<TrialIndex> Advance(TrialIndex trial, double metric,
                                    std::vector<Operation>& operations);
  void Settle(TrialIndex trial, double metric, TrialRoster& roster,
              std::vector<Operation>& operations);
  void Remove(TrialIndex trial, TrialRoster& roster,
              std::vector<Operation>& operations);
  void CloseTrial(TrialIndex trial, std::vector<Operation>& operations);

  bool MayPass(const TrialPlace& place, double metric) const;

  Method method_;
  std::int64_t rules_;
  double divisor_;
  std::int64_t planned_;     // trials, as configured or extended
  std::int64_t max_trials_;  // without invalid ones that nothing replaces
  std::int64_t at_start_;
  std::vector<std::int64_t> lengths_;  // of the rungs
  std::vector<Rung> rungs_;
  std::vector<std::int64_t> outstanding_;  // number of training trials, by rung
  std::unordered_map<TrialIndex, TrialPlace> trials_;
  std::int64_t created_ = 0;  // without invalid trials
  std::int64_t ended_ = 0;    // without invalid trials
};

/// The methods with successive halving: one bracket (async_halving), or several
/// with one random stream (adaptive_asha; the brackets are those of Hyperband,
/// Li et al. 2016).
class HalvingSearcher final : public Searcher {
 public:
  HalvingSearcher(const SearcherConfig& config,
                  const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  std::int64_t CreatesAhead() const override { return roster_.ahead(); }
  double Progress() const override { return progress_; }
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  AshaBracket& GetBracket(TrialIndex trial);
  void AssignNewTrials(std::size_t bracket);
  void CreateDue(std::vector<Operation>& operations);
  void Dispatch(const Event& event, std::vector<Operation>& operations);
  void Extend(const Extended& event, std::vector<Operation>& operations);
  void Retry(const Retried& event, std::vector<Operation>& operations);
  void UpdateProgress(bool over);

  SearcherConfig config_;  // as created
  TrialRoster roster_;
  std::vector<AshaBracket> brackets_;
  std::vector<std::uint32_t> bracket_of_;  // by trial
  double progress_ = 0;                    // reset by Extended and Retried
};

}  // namespace dtrain
