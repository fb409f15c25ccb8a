#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"
#include "searchers/hparam_conditions.h"
#include "searchers/hparam_constraints.h"
#include "searchers/number_range.h"

namespace dtrain {

/// A point: one coordinate for each searched hyperparameter, in byte order of
/// the names, depth first. Numbers, and ranks in ordered lists, are in [0, 1];
/// another categorical hyperparameter is the index of its value. Constants have
/// none. The coordinate of an absent
/// hyperparameter has one fixed value.
using Point = std::vector<double>;

/// Converts hyperparameters to points and back, and draws points. The same on
/// every machine (searchers/portable_math.h).
class PointSpace {
 public:
  /// `space`: the map of the YAML. With `orders_lists` a categorical
  /// hyperparameter is ordered as IsOrdered says. REQUIRES: it was checked.
  explicit PointSpace(nlohmann::json space, bool orders_lists = true,
                      const std::vector<std::string>& constraints = {});

  std::size_t dimensions() const { return axes_.size(); }
  /// For each coordinate, true if it is the index of a value.
  std::vector<bool> Categorical() const;

  /// Returns the point of the hyperparameters of a trial.
  Point Encode(const nlohmann::json& hparams) const;
  /// Returns the hyperparameters of a point, with the constants.
  nlohmann::json Decode(const Point& point) const;

  /// True if the point meets the constraints.
  bool MeetsConstraints(const Point& point) const;

  /// Draws a point at random, with the draws of SampleHparams. One that
  /// violates the constraints is drawn again, at most `max_draws` times in all.
  Point Draw(Rng& rng,
             std::int64_t max_draws = HparamConstraints::kMaxDraws) const;
  /// Draws a point near another one. Each coordinate changes with a probability
  /// that is drawn too, at least one does: a number by a normal step of this
  /// deviation, reflected at 0 and 1, a categorical one to any value with
  /// probability 1/2. One that was absent is drawn at random. It may violate
  /// the constraints. REQUIRES: dimensions() > 0.
  Point DrawNear(const Point& point, double deviation, Rng& rng) const;

 private:
  enum class Kind {
    kNumber,
    kSteps,
    kLogInteger,
    kNormal,
    kOrdered,
    kCategorical
  };

  struct Axis {
    std::vector<std::string> path;
    nlohmann::json when;  // the condition; null: none
    Kind kind = Kind::kNumber;
    // Bounds: the value is `low` to `high`, or e to the power of a number from
    // `log_low` to `log_high`.
    bool log = false;
    double low = 0;
    double high = 1;
    double log_low = 0;
    double log_high = 0;
    std::optional<SteppedRange> steps;      // kSteps
    std::optional<LogInteger> log_integer;  // kLogInteger
    std::optional<NormalRange> normal;      // kNormal
    nlohmann::json values;                  // kOrdered, kCategorical
  };

  void Collect(const nlohmann::json& space, std::vector<std::string>& path);
  Axis MakeAxis(const nlohmann::json& range) const;
  static double EncodeValue(const Axis& axis, const nlohmann::json& value);
  static nlohmann::json DecodeValue(const Axis& axis, double coordinate);
  // Number of cells less 1. REQUIRES: the kind is kSteps or kOrdered.
  static std::uint64_t LastCell(const Axis& axis);
  static std::uint64_t FindCell(const Axis& axis, double coordinate);
  static double CellCentre(const Axis& axis, std::uint64_t cell);
  // Returns the coordinate of the value at this coordinate.
  static double Snap(const Axis& axis, double coordinate);
  static double Step(const Axis& axis, double from, double deviation, Rng& rng);
  nlohmann::json Fill(const nlohmann::json& space, const Point& point,
                      std::size_t& next) const;

  std::vector<bool> FindPresent(const Point& point) const;
  // Sets the coordinates of absent hyperparameters.
  void LeaveOutAbsent(Point& point) const;
  static double DrawCoordinate(const Axis& axis, Rng& rng);
  static double AbsentCoordinate(const Axis& axis);

  nlohmann::json space_;
  bool orders_lists_;
  HparamConditions conditions_;
  HparamConstraints constraints_;
  std::vector<Axis> axes_;
};

}  // namespace dtrain
