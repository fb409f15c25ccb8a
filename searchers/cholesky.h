#pragma once

#include <cstddef>
#include <vector>

namespace dtrain {

/// A square matrix by columns, of which only the lower triangle is used: a
/// symmetric matrix, or its Cholesky factor L. The same on every machine, since
/// each element is computed by itself in a fixed order of operations.
class LowerMatrix {
 public:
  explicit LowerMatrix(std::size_t size) : size_(size), values_(size * size) {}

  /// REQUIRES: row >= column.
  double& At(std::size_t row, std::size_t column) {
    return values_[column * size_ + row];
  }
  double At(std::size_t row, std::size_t column) const {
    return values_[column * size_ + row];
  }
  std::size_t size() const { return size_; }
  std::vector<double>& values() { return values_; }

  /// Replaces a symmetric matrix by its Cholesky factor. False if it has none.
  [[nodiscard]] bool Factorize();

  /// Solve L x = b and Lᵀ x = b in place. The first `first` elements of b are
  /// 0.
  void Solve(std::vector<double>& b, std::size_t first = 0) const;
  void SolveTransposed(std::vector<double>& b) const;

  /// Returns the lower triangle of (L Lᵀ)⁻¹, by columns.
  std::vector<double> Invert() const;

 private:
  void Subtract(const double* from, double factor, std::size_t first,
                double* to) const;

  std::size_t size_;
  std::vector<double> values_;
};

/// A Cholesky factor row by row, and the order of its rows.
struct PivotedFactor {
  std::vector<std::size_t> order;
  std::vector<double> rows;
};

/// Factorizes a covariance in the order in which each variable is the one that
/// the earlier ones say least about: the first few say most about any other.
PivotedFactor FactorizeByPivots(const LowerMatrix& covariance);

}  // namespace dtrain
