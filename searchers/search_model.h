#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"
#include "searchers/gaussian_process.h"
#include "searchers/point_space.h"
#include "searchers/searcher.h"

namespace dtrain {

/// A trial and a rung.
struct TrialAtRung {
  TrialIndex trial = 0;
  int rung = 0;
};

/// A value as the model sees it is (value - offset) / factor. The factor is 0
/// if all values are alike to it.
struct ValueScale {
  double offset = 0;
  double factor = 1;
};

/// Returns the values as the model sees them, with mean 0 and deviation 1, and
/// their scale if it is asked for. The worse half is cut at median + 2 (median
/// - minimum) of the finite values; what is not finite counts as that.
std::vector<double> StandardizeValues(std::span<const double> values,
                                      ValueScale* scale = nullptr);

/// Returns the indices of the observations that the model uses, ascending: all
/// of up to `most`; otherwise the best third, the newest third, and an even
/// sample of the rest.
std::vector<std::size_t> KeptObservations(std::span<const double> values,
                                          std::size_t most);

/// Returns the logarithm of the expected improvement over `least` of a value
/// with this prediction.
double LogExpectedImprovement(const GaussianProcess::Prediction& prediction,
                              double least);

/// Correlations of observations with all trials, kept while the observations
/// change one by one. Trials are in blocks, as GaussianProcess predicts them.
class CorrelationTable {
 public:
  /// Forgets everything; the process has other hyperparameters.
  void Clear();
  /// Computes what is missing for the trials of `observations`, and drops
  /// others. `columns`: coordinates of all trials.
  void Update(const GaussianProcess& process, const Observations& observations,
              std::span<const std::vector<double>> columns, std::size_t trials);
  /// For each observation, the correlations with the trials of a block.
  std::span<const double* const> Block(std::size_t block);
  /// Likewise with up to kBlock trials.
  std::span<const double* const> Gather(std::span<const TrialIndex> trials);

 private:
  void AssignSlots(const std::vector<TrialIndex>& wanted);

  std::size_t slots_ = 0;  // per block
  std::map<TrialIndex, std::size_t> slot_of_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> known_;  // number of trials, by slot
  std::vector<std::vector<double>>
      blocks_;                      // slot by slot, kBlock numbers each
  std::vector<std::size_t> order_;  // slots of the observations
  std::vector<double> buffer_;
  std::vector<const double*> rows_;
};

/// Model of a search that decides which trial to train next: Gaussian processes
/// of the results, of the cost, and of whether a point is valid. It knows the
/// points and results of all trials, but not which of them run. Its state is
/// small: everything that can be computed from points and results is computed
/// when it is needed.
class SearchModel {
 public:
  /// Best use of a free place: a trial that waits, or a new point.
  struct Proposal {
    std::optional<TrialIndex> waiting;
    Point point;  // of a new trial, unless `waiting`
  };

  /// `lengths`: of the rungs. `counts_cost`: whether cheap trials are
  /// preferred. `aims_at_predictions`: whether a trial must improve on the best
  /// prediction for the top rung, even if the best trial there is worse.
  SearchModel(const PointSpace& space, std::vector<std::int64_t> lengths,
              bool counts_cost, bool aims_at_predictions);

  /// Adds the next trial.
  void AddTrial(Point point);
  /// Adds a result; smaller is better. A failure is not finite.
  void Observe(const TrialAtRung& at, double value);
  /// Adds the seconds that a trial took for a length.
  void AddCost(TrialIndex trial, double seconds, std::int64_t length);
  /// Marks the hyperparameters of a trial as invalid. New points near such
  /// trials are less likely to be proposed.
  void MarkInvalid(TrialIndex trial);
  /// Removes the results of a trial, or those from a rung on. Its point is not
  /// proposed again.
  void Remove(TrialIndex trial, int from_rung = 0);

  /// Number of results.
  std::size_t results() const { return results_.size(); }
  /// True if a trial has this point.
  bool HasPoint(const Point& point) const { return known_.contains(point); }

  /// Returns the best use of a free place, or nothing if there is none.
  /// `waiting`: ascending, below the top rung. REQUIRES: at least three
  /// results.
  std::optional<Proposal> Propose(const std::vector<TrialAtRung>& training,
                                  const std::vector<TrialAtRung>& waiting,
                                  bool may_create, Rng& rng);

  /// Returns what it expects of the trials with results at the top rung, their
  /// own effects included; smaller is better. Trains if that is due. REQUIRES:
  /// at least three results.
  std::vector<Searcher::Expectation> PredictTop();

  nlohmann::json Save() const;
  /// Throws nlohmann::json::exception or std::invalid_argument.
  void Load(const nlohmann::json& state);

 private:
  struct Result {
    TrialAtRung at;
    double value = 0;
  };
  struct Cost {
    double seconds = 0;
    std::int64_t length = 0;
    double log = 0;  // of the seconds per unit of length

    void Add(double more_seconds, std::int64_t more_length);
    bool known() const { return length > 0; }
  };
  struct PointHash {
    std::size_t operator()(const Point& point) const;
  };
  struct Candidates {
    std::vector<Point> points;
    std::vector<double> scores;

    std::size_t best() const;
  };
  // Value that a decision compares with.
  struct Aim {
    double least = 0;         // value to improve on
    std::vector<Point> near;  // the best points
  };

  void Fit(const std::vector<TrialAtRung>& training);
  void FitCost();
  void FitValidity();
  Aim FindAim() const;
  Candidates FindCandidates(const Aim& aim, Rng& rng) const;
  void AddCandidates(std::vector<Point> points, const Aim& aim,
                     Candidates& candidates) const;
  std::vector<Point> DrawAround(const std::vector<Point>& centres,
                                std::size_t count,
                                std::span<const double> deviations,
                                Rng& rng) const;
  std::optional<TrialIndex> BestWaiting(const std::vector<TrialAtRung>& waiting,
                                        const Aim& aim, double threshold);
  double ComputeBonus(const TrialAtRung& waiting) const;
  std::vector<double> BoundScores(const std::vector<TrialAtRung>& waiting,
                                  const Aim& aim,
                                  std::span<const double> bonus);
  double PredictLogCost(const Point& point) const;
  // What a score loses, since the point may be invalid.
  double ComputeLogValidity(const GaussianProcess::Prediction& label) const;
  int top() const { return static_cast<int>(lengths_.size()) - 1; }

  PointSpace space_;
  std::vector<std::int64_t> lengths_;
  bool counts_cost_;
  bool aims_at_predictions_;

  // The state.
  std::vector<Point> points_;  // by trial
  std::vector<Cost> costs_;    // by trial
  std::vector<bool> invalid_;  // by trial
  std::vector<Result> results_;
  GaussianProcess process_;
  GaussianProcess cost_process_;
  GaussianProcess validity_process_;
  std::size_t trained_at_ = 0;           // number of results; 0: not trained
  std::size_t cost_trained_at_ = 0;      // trained_at_ when it was trained
  std::size_t validity_trained_at_ = 0;  // number of labels

  // Computed from the state.
  std::unordered_set<Point, PointHash> known_;
  std::vector<std::vector<double>> columns_;  // of points_, by coordinate
  Observations used_;     // results, without training trials
  Observations assumed_;  // with them
  bool has_cost_ = false;
  double cost_mean_ = 0;
  double cost_deviation_ = 1;
  bool has_validity_ = false;
  double label_mean_ = 0;
  double label_deviation_ = 1;
  CorrelationTable correlations_;  // of assumed_ with all trials
};

}  // namespace dtrain
