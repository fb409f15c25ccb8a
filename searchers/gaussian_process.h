#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "searchers/searcher.h"

namespace dtrain {

/// Results of trials at rungs, as a process sees them.
struct Observations {
  std::vector<double> points;  // `dimensions` coordinates of each
  std::vector<int> rungs;
  std::vector<TrialIndex> trials;
  std::vector<double> values;

  std::size_t size() const { return values.size(); }
  /// `point`: the coordinates.
  void Add(std::span<const double> point, int rung, TrialIndex trial,
           double value);
};

/// A Gaussian process over points and rungs, the model of a search. With rungs
/// k and trials t, the covariance of two values is
///   s0 e^(-g0 |k-k'|) + s1 e^(-g1 |k-k'|) M(x, x') + s2 e^(-g2 |k-k'|) [t =
///   t']
/// plus noise on the diagonal. M is the Matérn kernel of order 5/2 with a
/// length for each coordinate; coordinates of categorical hyperparameters are
/// equal or not. Without rungs only s1 M and the noise remain. One thread.
class GaussianProcess {
 public:
  enum class Kind { kRungs, kPlain };

  /// The trial of a point that no trial has.
  static constexpr TrialIndex kNewTrial = -1;

  /// `categorical`: for each coordinate, whether it is the index of a value.
  GaussianProcess(const std::vector<bool>& categorical, Kind kind);

  /// Logarithms of the lengths, s0, s1, s2, g0, g1, g2 (kPlain: s1) and noise.
  const std::vector<double>& hyperparameters() const { return theta_; }
  /// REQUIRES: as many as hyperparameters().
  void SetHyperparameters(std::vector<double> theta);

  /// Moves the hyperparameters towards the mode of their posterior density, in
  /// `steps` steps of Rprop (Riedmiller and Braun, 1993).
  void Train(const Observations& data, int steps);
  /// Negative logarithm of that density up to a constant. Nothing if the
  /// covariance is numerically singular.
  std::optional<double> Loss(const Observations& data,
                             const std::vector<double>& theta) const;

  /// Conditions the process on observations, for the functions below.
  void Condition(const Observations& data);
  /// These observations, in an order in which the first few say most about
  /// other points.
  const Observations& observations() const { return data_; }

  struct Prediction {
    double mean = 0;
    double deviation = 0;
  };
  /// Predicts the value of a trial at a rung, with the trial's own effect and
  /// without noise.
  Prediction Predict(std::span<const double> point, int rung,
                     TrialIndex trial) const;
  /// Returns only the mean.
  double PredictMean(std::span<const double> point, int rung,
                     TrialIndex trial) const;
  /// Predicts many points of new trials at one rung. Without deviations it is
  /// faster.
  std::vector<Prediction> PredictNew(std::span<const double> points, int rung,
                                     bool deviations = true) const;

  /// Number of trials that PredictBlock takes at once.
  static constexpr std::size_t kBlock = 32;
  /// Predicts up to kBlock trials at one rung. `correlations`: for each
  /// observation, M between it and each of the trials. `trials`: ascending, or
  /// empty for new ones. Variances only take the first `conditioned`
  /// observations into account, so they are upper bounds; means are exact.
  void PredictBlock(std::span<const double* const> correlations,
                    std::span<const TrialIndex> trials, std::size_t width,
                    int rung, std::size_t conditioned,
                    std::span<Prediction> predictions) const;
  /// Computes M between a point and others. `columns`: the others, one array of
  /// `count` numbers for each coordinate.
  void Correlate(std::span<const double> point,
                 std::span<const std::vector<double>> columns,
                 std::size_t first, std::size_t count, double* out) const;

  std::size_t dimensions() const { return categorical_.size(); }

 private:
  // The hyperparameters themselves. Index j of s and g is a term of the
  // covariance.
  struct Kernel {
    std::vector<double> weights;  // 1 / length²
    double s[3] = {};
    double g[3] = {};
    double noise = 0;
  };
  class RungDecays;
  struct PairSums;
  struct PairWeight;
  struct BlockRow;

  // Position of a hyperparameter in theta_.
  std::size_t ScaleAt(int term) const;
  std::size_t DecayAt(int term) const { return dimensions() + 3 + term; }

  Kernel MakeKernel(const std::vector<double>& theta) const;
  double Distance(const Kernel& kernel, const double* a, const double* b) const;
  void AddDistances(const Kernel& kernel, const double* point,
                    std::span<const std::vector<double>> columns,
                    std::size_t first, std::size_t count, double* out) const;
  std::vector<double> Distances(const Observations& data,
                                const Kernel& kernel) const;
  // `lower`: a square matrix by columns, of which the lower triangle is set.
  // `distances`: likewise, of Distances.
  void FillCovariance(const Observations& data, const Kernel& kernel,
                      std::span<const double> distances, double diagonal,
                      std::vector<double>& lower) const;
  std::optional<double> LossAndGradient(const Observations& data,
                                        const std::vector<double>& theta,
                                        std::vector<double>* gradient) const;
  void AddPair(const Observations& data, const Kernel& kernel,
               const RungDecays& decays, std::size_t i, std::size_t j,
               const PairWeight& pair, PairSums& sums) const;
  void AddGradient(const Observations& data, const Kernel& kernel,
                   std::span<const double> distances,
                   const std::vector<double>& inverse,
                   const std::vector<double>& weights,
                   std::vector<double>& gradient) const;

  std::vector<BlockRow> BlockRows(std::span<const TrialIndex> trials,
                                  int rung) const;
  std::array<double, kBlock> Variances(
      std::span<const double* const> correlations,
      const std::vector<BlockRow>& rows, std::size_t width,
      std::size_t conditioned) const;

  std::vector<double> categorical_;  // 1 or 0
  Kind kind_;
  std::vector<double> prior_mean_;  // of theta_
  std::vector<double> prior_deviation_;
  std::vector<double> lower_;  // bounds of theta_
  std::vector<double> upper_;
  std::vector<double> theta_;

  // Conditioned on these; the factor is row by row, with inverted diagonal.
  Kernel kernel_;
  Observations data_;
  std::vector<double> factor_;
  std::vector<double> weights_;
};

}  // namespace dtrain
