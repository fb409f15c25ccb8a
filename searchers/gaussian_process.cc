// A Gaussian process over the results of trials at rungs.
//
// The covariance of two results is a sum of three terms, each decaying with the
// distance of their rungs: one that all results share, one that depends on the
// distance of the hyperparameters (Matérn kernel of order 5/2 with a length for
// each coordinate; categories are equal or not), and one between results of the
// same trial; on the diagonal there is noise, too. Kind::kPlain has the second
// term alone, without rungs.
//
// Its hyperparameters are logarithms (theta) with normal priors. Train
// minimizes the negative logarithm of their posterior density by the signs of
// its gradient (iRprop-: C. Igel and M. Huesken, 2000), which needs no line
// search and no scale; the best theta that was seen is kept.
//
// Condition factorizes the covariance with pivots, so that the first rows
// explain most of the variance: Variances can stop after a part of them and
// then gives an upper bound. Points are processed in blocks of kBlock, for the
// sake of vector instructions.
//
// Sums are taken in a fixed order, and every element of a vector by itself, so
// that vector instructions of any width give the same result.

#include "searchers/gaussian_process.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "searchers/portable_math.h"

namespace dtrain {
namespace {

// --- Cholesky factors ---

// Cholesky factors with columns as the unit of work: after a column is divided
// by its pivot, its multiples are subtracted from all later ones
// ("right-looking"). A column is contiguous in memory and each of its elements
// is changed by itself, so the compiler may use vector instructions of any
// width without changing a sum. Only SolveTransposed sums along a column, one
// element after the other.
//
// The matrices have at most 180 rows (the observations and trials in training
// that SearchModel uses), so they fit the cache and are not divided into
// blocks.

constexpr double kMinVariance = 1e-10;
constexpr double kDone = -1e300;  // less than any variance

// A square matrix by columns, of which only the lower triangle is used: a
// symmetric matrix, or its Cholesky factor L. The same on every machine, since
// each element is computed by itself in a fixed order of operations.
class LowerMatrix {
 public:
  explicit LowerMatrix(std::size_t size) : size_(size), values_(size * size) {}

  // REQUIRES: row >= column.
  double& At(std::size_t row, std::size_t column) {
    return values_[column * size_ + row];
  }
  double At(std::size_t row, std::size_t column) const {
    return values_[column * size_ + row];
  }
  std::size_t size() const { return size_; }
  std::vector<double>& values() { return values_; }

  // Replaces a symmetric matrix by its Cholesky factor. False if it has none.
  [[nodiscard]] bool Factorize();

  // Solve L x = b and Lᵀ x = b in place. The first `first` elements of b are
  // 0.
  void Solve(std::vector<double>& b, std::size_t first = 0) const;
  void SolveTransposed(std::vector<double>& b) const;

  // Returns the lower triangle of (L Lᵀ)⁻¹, by columns.
  std::vector<double> Invert() const;

 private:
  void Subtract(const double* from, double factor, std::size_t first,
                double* to) const;

  std::size_t size_;
  std::vector<double> values_;
};

// A Cholesky factor row by row, and the order of its rows.
struct PivotedFactor {
  std::vector<std::size_t> order;
  std::vector<double> rows;
};

bool LowerMatrix::Factorize() {
  for (std::size_t j = 0; j < size_; ++j) {
    const double pivot = At(j, j);
    if (!(pivot > 0)) return false;
    const double root = std::sqrt(pivot);
    At(j, j) = root;
    double* column = &values_[j * size_];
    for (std::size_t i = j + 1; i < size_; ++i) column[i] /= root;
    for (std::size_t k = j + 1; k < size_; ++k) {
      Subtract(column, column[k], k, &values_[k * size_]);
    }
  }
  return true;
}

void LowerMatrix::Solve(std::vector<double>& b, std::size_t first) const {
  for (std::size_t j = first; j < size_; ++j) {
    b[j] /= At(j, j);
    Subtract(&values_[j * size_], b[j], j + 1, b.data());
  }
}

void LowerMatrix::SolveTransposed(std::vector<double>& b) const {
  for (std::size_t j = size_; j-- > 0;) {
    double sum = b[j];
    for (std::size_t i = j + 1; i < size_; ++i) sum -= At(i, j) * b[i];
    b[j] = sum / At(j, j);
  }
}

std::vector<double> LowerMatrix::Invert() const {
  const std::size_t n = size_;
  // Row i of `rows` is column i of L⁻¹, from i on.
  std::vector<std::vector<double>> rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i].assign(n, 0.0);
    rows[i][i] = 1;
    Solve(rows[i], i);
  }
  std::vector<double> transposed(n * n);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = 0; i <= k; ++i) transposed[k * n + i] = rows[i][k];
  }
  std::vector<double> inverse(n * n);
  for (std::size_t k = 0; k < n; ++k) {
    const double* row = &transposed[k * n];
    for (std::size_t j = 0; j <= k; ++j) {
      double* column = &inverse[j * n];
      for (std::size_t i = j; i <= k; ++i) column[i] += row[j] * row[i];
    }
  }
  return inverse;
}

void LowerMatrix::Subtract(const double* from, double factor, std::size_t first,
                           double* to) const {
  for (std::size_t i = first; i < size_; ++i) to[i] -= factor * from[i];
}

// Factorizes a covariance in the order in which each variable is the one that
// the earlier ones say least about: the first few say most about any other.
// The pivot is the variable with the largest variance given the earlier ones.
// `rest` has these variances and loses the square of each new column.
PivotedFactor FactorizeByPivots(const LowerMatrix& covariance) {
  const std::size_t n = covariance.size();
  std::vector<double> columns(n * n);
  std::vector<double> rest(n);  // variance given the earlier ones
  for (std::size_t i = 0; i < n; ++i) rest[i] = covariance.At(i, i);
  PivotedFactor factor{.order = {}, .rows = std::vector<double>(n * n)};
  for (std::size_t j = 0; j < n; ++j) {
    const auto pivot =
        static_cast<std::size_t>(std::ranges::max_element(rest) - rest.begin());
    double* column = &columns[j * n];
    for (std::size_t i = 0; i < n; ++i) {
      column[i] = covariance.At(std::max(i, pivot), std::min(i, pivot));
    }
    for (std::size_t k = 0; k < j; ++k) {
      const double* earlier = &columns[k * n];
      const double scale = earlier[pivot];
      for (std::size_t i = 0; i < n; ++i) column[i] -= scale * earlier[i];
      factor.rows[j * n + k] = scale;
    }
    // Noise bounds it from below, but for rounding.
    const double root = std::sqrt(std::max(rest[pivot], kMinVariance));
    for (std::size_t i = 0; i < n; ++i) {
      column[i] /= root;
      rest[i] -= column[i] * column[i];
    }
    factor.rows[j * n + j] = root;
    factor.order.push_back(pivot);
    rest[pivot] = kDone;
  }
  return factor;
}

// --- Covariances ---

// Added to the diagonal, so that equal points do not make it singular.
constexpr double kJitter = 1e-6;
constexpr double kPlainTrainingJitter = 1e-8;

constexpr double kTermMean[3] = {-0.7, 0, -2};  // of ln s0, s1, s2
constexpr double kDecayMean = -1;
constexpr double kNoiseMean = -4;
constexpr double kRange = 4;  // from the prior mean

// The Matérn kernel of order 5/2 for a squared distance.
inline double Matern(double squared) {
  const double r = std::sqrt(5 * squared);
  return (1 + r + squared * (5.0 / 3.0)) * PortableExp(-r);
}

// The squared distance of two points in one coordinate.
inline double SquaredDifference(bool categorical, double a, double b) {
  const double difference = a - b;
  return categorical ? (difference != 0 ? 1.0 : 0.0) : difference * difference;
}

// Returns an array of the points' values for each coordinate.
std::vector<std::vector<double>> ByCoordinate(std::span<const double> points,
                                              std::size_t dimensions,
                                              std::size_t count) {
  std::vector<std::vector<double>> columns(dimensions,
                                           std::vector<double>(count));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < dimensions; ++k) {
      columns[k][i] = points[i * dimensions + k];
    }
  }
  return columns;
}

double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

}  // namespace

// e^(-g gap) for each term of the covariance and every distance of two rungs.
class GaussianProcess::RungDecays {
 public:
  RungDecays(const double (&g)[3], const std::vector<int>& rungs,
             int rung = 0) {
    int most = rung;
    for (const int other : rungs) most = std::max(most, other);
    for (int term = 0; term < 3; ++term) {
      for (int gap = 0; gap <= most; ++gap) {
        decays_[term].push_back(PortableExp(-g[term] * gap));
      }
    }
  }

  double At(int term, int gap) const { return decays_[term][gap]; }

 private:
  std::vector<double> decays_[3];
};

void Observations::Add(std::span<const double> point, int rung,
                       TrialIndex trial, double value) {
  points.insert(points.end(), point.begin(), point.end());
  rungs.push_back(rung);
  trials.push_back(trial);
  values.push_back(value);
}

GaussianProcess::GaussianProcess(const std::vector<bool>& categorical,
                                 Kind kind)
    : categorical_(categorical.begin(), categorical.end()), kind_(kind) {
  const auto add = [this](double mean, double deviation, double lower,
                          double upper) {
    prior_mean_.push_back(mean);
    prior_deviation_.push_back(deviation);
    lower_.push_back(lower);
    upper_.push_back(upper);
  };
  const bool plain = kind_ == Kind::kPlain;
  const double by_dimensions =
      0.5 *
      PortableLog(static_cast<double>(std::max<std::size_t>(dimensions(), 1)) /
                  4);
  for (const bool is_categorical : categorical) {
    const double mean = (is_categorical ? 0 : PortableLog(0.5)) + by_dimensions;
    const double middle = plain ? 0 : mean;
    add(mean, 0.7, middle - kRange, middle + kRange);
  }
  if (plain) {
    add(0, 1, -1e300, 1e300);
    add(kNoiseMean, std::sqrt(2.0), -9, 1);
  } else {
    for (const double mean : kTermMean) {
      add(mean, 1, mean - kRange, mean + kRange);
    }
    for (int i = 0; i < 3; ++i) {
      add(kDecayMean, 1, kDecayMean - kRange, kDecayMean + kRange);
    }
    add(kNoiseMean, 1.4, kNoiseMean - kRange, kNoiseMean + kRange);
  }
  SetHyperparameters(prior_mean_);
}

void GaussianProcess::SetHyperparameters(std::vector<double> theta) {
  assert(theta.size() == prior_mean_.size());
  theta_ = std::move(theta);
  kernel_ = MakeKernel(theta_);
}

std::size_t GaussianProcess::ScaleAt(int term) const {
  return dimensions() + (kind_ == Kind::kPlain ? 0 : term);
}

GaussianProcess::Kernel GaussianProcess::MakeKernel(
    const std::vector<double>& theta) const {
  Kernel kernel;
  for (std::size_t i = 0; i < dimensions(); ++i) {
    kernel.weights.push_back(PortableExp(-2 * theta[i]));
  }
  if (kind_ == Kind::kPlain) {
    kernel.s[1] = PortableExp(theta[dimensions()]);
  } else {
    for (int j = 0; j < 3; ++j) {
      kernel.s[j] = PortableExp(theta[ScaleAt(j)]);
      kernel.g[j] = PortableExp(theta[DecayAt(j)]);
    }
  }
  kernel.noise = PortableExp(theta.back());
  return kernel;
}

double GaussianProcess::Distance(const Kernel& kernel, const double* a,
                                 const double* b) const {
  double sum = 0;
  for (std::size_t k = 0; k < dimensions(); ++k) {
    sum +=
        kernel.weights[k] * SquaredDifference(categorical_[k] != 0, a[k], b[k]);
  }
  return sum;
}

// Adds the squared distances between a point and others, which are given by
// coordinate.
void GaussianProcess::AddDistances(const Kernel& kernel, const double* point,
                                   std::span<const std::vector<double>> columns,
                                   std::size_t first, std::size_t count,
                                   double* out) const {
  for (std::size_t k = 0; k < dimensions(); ++k) {
    const bool categorical = categorical_[k] != 0;
    const double weight = kernel.weights[k];
    const double own = point[k];
    const double* others = columns[k].data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] += weight * SquaredDifference(categorical, own, others[i]);
    }
  }
}

// Returns the squared distances between observations, by columns, of which the
// lower triangle is set.
std::vector<double> GaussianProcess::Distances(const Observations& data,
                                               const Kernel& kernel) const {
  const std::size_t n = data.size();
  const auto columns = ByCoordinate(data.points, dimensions(), n);
  std::vector<double> distances(n * n);
  for (std::size_t j = 0; j < n; ++j) {
    AddDistances(kernel, &data.points[j * dimensions()], columns, j, n - j,
                 &distances[j * n + j]);
  }
  return distances;
}

void GaussianProcess::FillCovariance(const Observations& data,
                                     const Kernel& kernel,
                                     std::span<const double> distances,
                                     double diagonal,
                                     std::vector<double>& lower) const {
  const std::size_t n = data.size();
  const RungDecays decays(kernel.g, data.rungs);
  for (std::size_t j = 0; j < n; ++j) {
    double* column = &lower[j * n];
    for (std::size_t i = j; i < n; ++i) {
      column[i] = Matern(distances[j * n + i]);
    }
    for (std::size_t i = j; i < n; ++i) {
      const int gap = std::abs(data.rungs[i] - data.rungs[j]);
      double value = kernel.s[0] * decays.At(0, gap) +
                     kernel.s[1] * decays.At(1, gap) * column[i];
      if (data.trials[i] == data.trials[j]) {
        value += kernel.s[2] * decays.At(2, gap);
      }
      column[i] = value + (i == j ? diagonal : 0.0);
    }
  }
}

void GaussianProcess::Correlate(std::span<const double> point,
                                std::span<const std::vector<double>> columns,
                                std::size_t first, std::size_t count,
                                double* out) const {
  std::fill(out, out + count, 0.0);
  AddDistances(kernel_, point.data(), columns, first, count, out);
  for (std::size_t i = 0; i < count; ++i) out[i] = Matern(out[i]);
}

std::optional<double> GaussianProcess::Loss(
    const Observations& data, const std::vector<double>& theta) const {
  return LossAndGradient(data, theta, nullptr);
}

std::optional<double> GaussianProcess::LossAndGradient(
    const Observations& data, const std::vector<double>& theta,
    std::vector<double>* gradient) const {
  const Kernel kernel = MakeKernel(theta);
  const double jitter = kind_ == Kind::kPlain ? kPlainTrainingJitter : kJitter;
  const std::vector<double> distances = Distances(data, kernel);
  LowerMatrix covariance(data.size());
  FillCovariance(data, kernel, distances, kernel.noise + jitter,
                 covariance.values());
  if (!covariance.Factorize()) return std::nullopt;
  // With K = L Lᵀ and z = L⁻¹ y, the loss is zᵀ z / 2 + Σ ln L_ii, and the
  // weights of the observations are Lᵀ⁻¹ z.
  std::vector<double> half = data.values;
  covariance.Solve(half);
  std::vector<double> weights = half;
  covariance.SolveTransposed(weights);
  double loss = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    loss += 0.5 * half[i] * half[i] + PortableLog(covariance.At(i, i));
  }
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double z = (theta[i] - prior_mean_[i]) / prior_deviation_[i];
    loss += 0.5 * z * z;
    if (gradient != nullptr) (*gradient)[i] = z / prior_deviation_[i];
  }
  if (gradient != nullptr) {
    AddGradient(data, kernel, distances, covariance.Invert(), weights,
                *gradient);
  }
  return loss;
}

// Sums over all pairs of observations of W times the derivative of their
// covariance, where W is (K⁻¹ - K⁻¹ y (K⁻¹ y)ᵀ) / 2.
struct GaussianProcess::PairSums {
  std::vector<double> by_weight;  // 1 / length², of each coordinate
  double by_scale[3] = {};
  double by_decay[3] = {};
  double trace = 0;  // of W
};

// A pair of observations in these sums.
struct GaussianProcess::PairWeight {
  double w = 0;     // W, twice unless it is one observation
  double r = 0;     // sqrt(5) times the distance
  double tail = 0;  // e^-r
};

void GaussianProcess::AddPair(const Observations& data, const Kernel& kernel,
                              const RungDecays& decays, std::size_t i,
                              std::size_t j, const PairWeight& pair,
                              PairSums& sums) const {
  const auto [w, r, tail] = pair;
  const int gap = std::abs(data.rungs[i] - data.rungs[j]);
  const double scale = kernel.s[1] * decays.At(1, gap);
  const bool same = data.trials[i] == data.trials[j];
  const double terms[3] = {kernel.s[0] * decays.At(0, gap),
                           scale * (1 + r + r * r / 3) * tail,
                           same ? kernel.s[2] * decays.At(2, gap) : 0.0};
  for (int t = 0; t < 3; ++t) {
    sums.by_scale[t] += w * terms[t];
    sums.by_decay[t] += w * terms[t] * gap;
  }
  if (i == j) {
    sums.trace += w;
    return;
  }
  // The derivative of the Matérn kernel by the squared distance.
  const double slope = w * scale * (-5.0 / 6.0) * (1 + r) * tail;
  const double* a = &data.points[i * dimensions()];
  const double* b = &data.points[j * dimensions()];
  const double* categorical = categorical_.data();
  double* by_weight = sums.by_weight.data();
  const std::size_t d = dimensions();
  for (std::size_t k = 0; k < d; ++k) {
    by_weight[k] += slope * SquaredDifference(categorical[k] != 0, a[k], b[k]);
  }
}

// Adds the derivatives of the likelihood by theta.
void GaussianProcess::AddGradient(const Observations& data,
                                  const Kernel& kernel,
                                  std::span<const double> distances,
                                  const std::vector<double>& inverse,
                                  const std::vector<double>& weights,
                                  std::vector<double>& gradient) const {
  const std::size_t n = data.size();
  const RungDecays decays(kernel.g, data.rungs);
  PairSums sums{.by_weight = std::vector<double>(dimensions(), 0.0)};
  std::vector<double> r(n);
  std::vector<double> tail(n);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      r[i] = std::sqrt(5 * distances[j * n + i]);
      tail[i] = PortableExp(-r[i]);
    }
    for (std::size_t i = j; i < n; ++i) {
      // Only the lower triangle is visited, so a pair counts twice.
      const double twice = inverse[j * n + i] - weights[i] * weights[j];
      const double w = i == j ? 0.5 * twice : twice;
      AddPair(data, kernel, decays, i, j, {w, r[i], tail[i]}, sums);
    }
  }
  for (std::size_t k = 0; k < dimensions(); ++k) {
    gradient[k] -= 2 * kernel.weights[k] * sums.by_weight[k];
  }
  for (int t = 0; t < 3; ++t) {
    if (kind_ == Kind::kPlain && t != 1) continue;
    gradient[ScaleAt(t)] += sums.by_scale[t];
    if (kind_ == Kind::kRungs) {
      gradient[DecayAt(t)] -= kernel.g[t] * sums.by_decay[t];
    }
  }
  gradient.back() += sums.trace * kernel.noise;
}

void GaussianProcess::Train(const Observations& data, int steps) {
  const std::size_t n = theta_.size();
  std::vector<double> theta = theta_;
  std::vector<double> best = theta_;
  std::optional<double> least;
  std::vector<double> step(n, 0.1);
  std::vector<double> before(n, 0.0);
  std::vector<double> gradient(n);
  for (int i = 0; i < steps; ++i) {
    const auto loss = LossAndGradient(data, theta, &gradient);
    if (!loss) break;
    if (!least || *loss < *least) {
      least = loss;
      best = theta;
    }
    for (std::size_t k = 0; k < n; ++k) {
      const double sign = gradient[k] * before[k];
      const double factor = sign > 0 ? 1.3 : sign < 0 ? 0.5 : 1.0;
      step[k] = std::clamp(step[k] * factor, 1e-3, 0.5);
      // It has jumped over the minimum: no step now, and no comparison of signs
      // in the next one.
      if (sign < 0) gradient[k] = 0;
      theta[k] = std::clamp(theta[k] - Sign(gradient[k]) * step[k], lower_[k],
                            upper_[k]);
    }
    before = gradient;
  }
  SetHyperparameters(std::move(best));
}

void GaussianProcess::Condition(const Observations& data) {
  const std::size_t n = data.size();
  LowerMatrix covariance(n);
  FillCovariance(data, kernel_, Distances(data, kernel_),
                 kernel_.noise + kJitter, covariance.values());
  const auto [order, rows] = FactorizeByPivots(covariance);
  data_ = {};
  factor_ = rows;
  for (const std::size_t i : order) {
    const double* point = &data.points[i * dimensions()];
    data_.Add({point, dimensions()}, data.rungs[i], data.trials[i],
              data.values[i]);
  }
  LowerMatrix factor(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) factor.At(i, j) = factor_[i * n + j];
    // The inverse of a pivot, since predictions divide by it for every point.
    factor_[i * n + i] = 1 / factor.At(i, i);
  }
  weights_ = data_.values;
  factor.Solve(weights_);
  factor.SolveTransposed(weights_);
}

GaussianProcess::Prediction GaussianProcess::Predict(
    std::span<const double> point, int rung, TrialIndex trial) const {
  std::vector<double> correlations(data_.size());
  std::vector<const double*> rows;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    correlations[i] = Matern(
        Distance(kernel_, point.data(), &data_.points[i * dimensions()]));
    rows.push_back(&correlations[i]);
  }
  Prediction prediction;
  PredictBlock(rows, {&trial, 1}, 1, rung, data_.size(), {&prediction, 1});
  return prediction;
}

double GaussianProcess::PredictMean(std::span<const double> point, int rung,
                                    TrialIndex trial) const {
  const RungDecays decays(kernel_.g, data_.rungs, rung);
  double mean = 0;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const int gap = std::abs(data_.rungs[i] - rung);
    const double squared =
        Distance(kernel_, point.data(), &data_.points[i * dimensions()]);
    double covariance = kernel_.s[0] * decays.At(0, gap) +
                        kernel_.s[1] * decays.At(1, gap) * Matern(squared);
    if (data_.trials[i] == trial) {
      covariance += kernel_.s[2] * decays.At(2, gap);
    }
    mean += weights_[i] * covariance;
  }
  return mean;
}

std::vector<GaussianProcess::Prediction> GaussianProcess::PredictNew(
    std::span<const double> points, int rung, bool deviations) const {
  const std::size_t d = dimensions();
  const std::size_t count = d == 0 ? 0 : points.size() / d;
  const auto columns = ByCoordinate(points, d, count);
  std::vector<Prediction> predictions(count);
  std::vector<double> correlations(data_.size() * kBlock);
  std::vector<const double*> rows;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    rows.push_back(&correlations[i * kBlock]);
  }
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t width = std::min(kBlock, count - first);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      Correlate({&data_.points[i * d], d}, columns, first, width,
                &correlations[i * kBlock]);
    }
    PredictBlock(rows, {}, width, rung, deviations ? data_.size() : 0,
                 std::span(predictions).subspan(first, width));
  }
  return predictions;
}

// The covariance of an observation with the trials of a block: common + scale
// M, and `effect` more with its own trial.
struct GaussianProcess::BlockRow {
  double common = 0;
  double scale = 0;
  double effect = 0;
  std::size_t own = kBlock;  // place in the block; kBlock: none
};

std::vector<GaussianProcess::BlockRow> GaussianProcess::BlockRows(
    std::span<const TrialIndex> trials, int rung) const {
  const RungDecays decays(kernel_.g, data_.rungs, rung);
  std::vector<BlockRow> rows(data_.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int gap = std::abs(data_.rungs[i] - rung);
    rows[i].common = kernel_.s[0] * decays.At(0, gap);
    rows[i].scale = kernel_.s[1] * decays.At(1, gap);
    const auto own = std::ranges::lower_bound(trials, data_.trials[i]);
    if (own == trials.end() || *own != data_.trials[i]) continue;
    rows[i].effect = kernel_.s[2] * decays.At(2, gap);
    rows[i].own = static_cast<std::size_t>(own - trials.begin());
  }
  return rows;
}

void GaussianProcess::PredictBlock(std::span<const double* const> correlations,
                                   std::span<const TrialIndex> trials,
                                   std::size_t width, int rung,
                                   std::size_t conditioned,
                                   std::span<Prediction> predictions) const {
  const std::vector<BlockRow> rows = BlockRows(trials, rung);
  std::array<double, kBlock + 1> mean{};  // the last one is not used
  double constant = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double slope = weights_[i] * rows[i].scale;
    const double* correlation = correlations[i];
    constant += weights_[i] * rows[i].common;
    for (std::size_t c = 0; c < width; ++c) mean[c] += slope * correlation[c];
    mean[rows[i].own] += weights_[i] * rows[i].effect;
  }
  const auto variance = Variances(correlations, rows, width, conditioned);
  for (std::size_t c = 0; c < width; ++c) {
    predictions[c] = {constant + mean[c],
                      std::sqrt(std::max(kMinVariance, variance[c]))};
  }
}

// Returns the variances given the first `conditioned` observations.
std::array<double, GaussianProcess::kBlock> GaussianProcess::Variances(
    std::span<const double* const> correlations,
    const std::vector<BlockRow>& rows, std::size_t width,
    std::size_t conditioned) const {
  const std::size_t n = rows.size();
  std::array<double, kBlock> variance;
  variance.fill(kernel_.s[0] + kernel_.s[1] + kernel_.s[2]);
  std::vector<double> solved(conditioned * kBlock);
  std::array<double, kBlock + 1> row{};  // the last one is not used
  for (std::size_t i = 0; i < conditioned; ++i) {
    for (std::size_t c = 0; c < width; ++c) {
      row[c] = rows[i].common + rows[i].scale * correlations[i][c];
    }
    row[rows[i].own] += rows[i].effect;
    for (std::size_t k = 0; k < i; ++k) {
      const double factor = factor_[i * n + k];
      const double* earlier = &solved[k * kBlock];
      for (std::size_t c = 0; c < kBlock; ++c) row[c] -= factor * earlier[c];
    }
    const double pivot = factor_[i * n + i];
    double* here = &solved[i * kBlock];
    for (std::size_t c = 0; c < kBlock; ++c) {
      here[c] = row[c] * pivot;
      variance[c] -= here[c] * here[c];
    }
  }
  return variance;
}

}  // namespace dtrain
