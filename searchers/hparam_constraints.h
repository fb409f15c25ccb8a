#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/query/filter.h"

namespace dtrain {

/// The expressions of `searcher.constraints`, which every trial meets: the
/// language of Filter with the names of hyperparameters as fields, nested ones
/// joined by dots.
class HparamConstraints {
 public:
  /// Draws after which a search takes a point as it is. A search is refused if
  /// not one of 10,000 drawn points meets its constraints, so a tenfold number
  /// is only reached for a share of points that hardly any search has, or by
  /// what a point of `searcher.points` leaves open. The trial then runs against
  /// the constraints, since a search must not hang.
  static constexpr std::int64_t kMaxDraws = 100'000;

  HparamConstraints() = default;
  /// `space`: the map of the YAML, checked. Throws Error(kUsage), which begins
  /// with the constraint in quotes and names the place in it, for one that is
  /// wrong: an unknown name, a list or map, a text where a number is needed.
  HparamConstraints(const nlohmann::json& space,
                    const std::vector<std::string>& constraints);

  bool empty() const { return constraints_.empty(); }

  /// Returns the first constraint that the hyperparameters of a trial violate,
  /// or "". A comparison with one that is absent or null holds, and so does its
  /// opposite; `is null` tells whether it is. One with a division by zero does
  /// not hold.
  std::string FindViolated(const nlohmann::json& hparams) const;
  bool Hold(const nlohmann::json& hparams) const;
  /// True unless a constraint is violated whatever the values of the
  /// hyperparameters that `hparams` lacks.
  bool MayHold(const nlohmann::json& hparams) const;

 private:
  std::vector<Filter> constraints_;
};

}  // namespace dtrain
