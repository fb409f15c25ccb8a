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

#include "searchers/cholesky.h"

#include <algorithm>
#include <cmath>

namespace dtrain {
namespace {

constexpr double kMinVariance = 1e-10;
constexpr double kDone = -1e300;  // less than any variance

}  // namespace

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

}  // namespace dtrain
