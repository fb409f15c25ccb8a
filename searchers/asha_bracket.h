#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/rung.h"
#include "searchers/search_plan.h"
#include "searchers/searcher.h"
#include "searchers/trial_roster.h"

namespace dtrain {

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

}  // namespace dtrain
