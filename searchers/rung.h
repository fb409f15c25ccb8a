#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"

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

}  // namespace dtrain
