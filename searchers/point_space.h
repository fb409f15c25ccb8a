#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"

namespace dtrain {

/// A point: one coordinate for each searched hyperparameter, in byte order of
/// the names, depth first. Numbers are in [0, 1]; a categorical hyperparameter
/// is the index of its value. Constants have none.
using Point = std::vector<double>;

/// Converts hyperparameters to points and back, and draws points. The same on
/// every machine (searchers/portable_math.h).
class PointSpace {
 public:
  /// `space`: the map of the YAML. REQUIRES: it was checked.
  explicit PointSpace(nlohmann::json space);

  std::size_t dimensions() const { return axes_.size(); }
  /// For each coordinate, true if it is the index of a value.
  std::vector<bool> Categorical() const;

  /// Returns the point of the hyperparameters of a trial.
  Point Encode(const nlohmann::json& hparams) const;
  /// Returns the hyperparameters of a point, with the constants.
  nlohmann::json Decode(const Point& point) const;

  /// Draws a point at random, with the draws of SampleHparams.
  Point Draw(Rng& rng) const;
  /// Draws a point near another one. Each coordinate changes with a probability
  /// that is drawn too, at least one does: a number by a normal step of this
  /// deviation, reflected at 0 and 1, a categorical one to any value with
  /// probability 1/2. REQUIRES: dimensions() > 0.
  Point DrawNear(const Point& point, double deviation, Rng& rng) const;

 private:
  enum class Kind { kNumber, kInt, kCategorical };

  struct Axis {
    std::vector<std::string> path;
    Kind kind = Kind::kNumber;
    // Bounds: the value is `low` to `high`, or e to the power of a number from
    // `log_low` to `log_high`.
    bool log = false;
    double low = 0;
    double high = 1;
    double log_low = 0;
    double log_high = 0;
    std::int64_t first = 0;  // kInt
    std::uint64_t last = 0;  // kInt: number of values, less one
    nlohmann::json values;   // kCategorical
  };

  void Collect(const nlohmann::json& space, std::vector<std::string>& path);
  static Axis MakeAxis(const nlohmann::json& range);
  static double EncodeValue(const Axis& axis, const nlohmann::json& value);
  static nlohmann::json DecodeValue(const Axis& axis, double coordinate);
  static std::uint64_t FindCell(const Axis& axis, double coordinate);
  static double CellCentre(const Axis& axis, std::uint64_t cell);
  static double Step(const Axis& axis, double from, double deviation, Rng& rng);
  nlohmann::json Fill(const nlohmann::json& space, const Point& point,
                      std::size_t& next) const;

  nlohmann::json space_;
  std::vector<Axis> axes_;
};

}  // namespace dtrain
