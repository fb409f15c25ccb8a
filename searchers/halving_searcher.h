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
#include "searchers/searcher_config.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// The results of one rung of successive halving, in order, smallest first. It
/// keeps apart the best 1/divisor of them, so that every change costs
/// O(log n).
class Rung {
 public:
  /// Counts as worse than any result: of a trial that exited, or no number.
  static constexpr double kWorst = std::numeric_limits<double>::max();

  /// How equal results are ordered, and how many of n are the best.
  enum class Rule {
    kPromotion,  // a new one after its equals; ⌊n / divisor⌋
    kStopping,   // a new one before its equals; at least 1
  };

  struct Insertion {
    /// The new result is among the best.
    bool among_best = false;
    /// Else, the trial that came to be among them because there is room for
    /// one more now.
    std::optional<TrialIndex> risen;
  };

  Rung(double divisor, Rule rule) : divisor_(divisor), rule_(rule) {}

  /// Adds a trial's result. `waits`: the trial may go on from here later, and
  /// is found by TakeWaiting until then. REQUIRES: the trial has none yet.
  Insertion Insert(TrialIndex trial, double metric, bool waits);
  /// Removes the trial's result, if it has one.
  void Remove(TrialIndex trial);
  /// The trial goes on to the next rung.
  void Promote(TrialIndex trial);
  /// The trial no longer waits; its result stays.
  void StopWaiting(TrialIndex trial);
  /// The trials that wait, best first; none waits after.
  std::vector<TrialIndex> TakeWaiting();

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

  std::size_t BestOf(std::size_t results) const;
  void Place(const Key& key);
  void FitBest();

  double divisor_;
  Rule rule_;
  std::int64_t inserted_ = 0;
  std::set<Key> best_;  // the first BestOf(size()) of all
  std::set<Key> rest_;
  std::set<Key> waiting_;
  std::unordered_map<TrialIndex, Result> results_;
};

/// Asynchronous successive halving (ASHA; Li et al., "A System for Massively
/// Parallel Hyperparameter Tuning", MLSys 2020) over some rungs. By promotion,
/// every trial waits at its rung until it is among the best 1/divisor there; by
/// stopping, a trial goes on at once if it is among them, else it is closed.
class AshaBracket {
 public:
  enum class Method { kPromotion, kStopping };

  AshaBracket(const Bracket& bracket, double divisor, Method method);

  /// The first trials.
  void Start(TrialRoster& roster, std::vector<Operation>& operations);
  /// A trial has its result at its rung; smaller is better.
  void Complete(TrialIndex trial, double metric, TrialRoster& roster,
                std::vector<Operation>& operations);
  /// A trial that was closed has ended.
  void End(TrialIndex trial);
  /// A trial ended by itself. An error counts as the worst result; an invalid
  /// trial leaves no trace and is replaced.
  void Exit(TrialIndex trial, ExitReason reason, TrialRoster& roster,
            std::vector<Operation>& operations);

  /// How much of the bracket is done, in [0, 1]; may go back.
  double Progress() const;

  nlohmann::json Save() const;
  /// Throws nlohmann::json::exception.
  void Load(const nlohmann::json& state);

 private:
  struct TrialPlace {
    std::size_t rung = 0;  // trains towards it, or waits at it
    bool training = true;  // has no result at its rung yet
    bool exited = false;   // ended by itself
    bool closed = false;   // has a Close, or has ended
  };

  void CreateTrial(TrialRoster& roster, std::vector<Operation>& operations);
  std::optional<TrialIndex> Advance(TrialIndex trial, double metric,
                                    std::vector<Operation>& operations);
  void Settle(TrialIndex trial, double metric, TrialRoster& roster,
              std::vector<Operation>& operations);
  void Remove(TrialIndex trial, TrialRoster& roster,
              std::vector<Operation>& operations);
  void CloseTrial(TrialIndex trial, std::vector<Operation>& operations);
  void CloseFinishedRungs(std::vector<Operation>& operations);

  Method method_;
  std::int64_t max_trials_;
  std::int64_t at_start_;
  std::vector<std::int64_t> lengths_;  // of the rungs
  std::vector<Rung> rungs_;
  std::vector<std::int64_t> outstanding_;  // trials that train, by rung
  std::unordered_map<TrialIndex, TrialPlace> trials_;
  std::int64_t created_ = 0;  // without those found invalid
  std::int64_t ended_ = 0;    // without those found invalid
};

/// The ASHA family: brackets of asynchronous successive halving, side by side
/// on one random stream. One bracket is async_halving, several are
/// adaptive_asha.
class HalvingSearcher final : public Searcher {
 public:
  HalvingSearcher(const SearcherConfig& config,
                  const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override { return progress_; }
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  AshaBracket& BracketOf(TrialIndex trial);
  void NoteCreated(std::size_t bracket);
  void Dispatch(const Event& event, std::vector<Operation>& operations);
  void NoteProgress(bool over);

  bool smaller_is_better_;
  TrialRoster roster_;
  std::vector<AshaBracket> brackets_;
  std::vector<std::uint32_t> bracket_of_;  // by trial
  double progress_ = 0;                    // never goes back
};

/// Makes a HalvingSearcher, for the registry.
std::unique_ptr<Searcher> MakeHalvingSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
