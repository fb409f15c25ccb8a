#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// A searched hyperparameter as an axis of numbers.
struct SearchAxis {
  std::string name;  // "optimizer.lr" if nested
  // Values are spread evenly over their logarithms.
  bool log = false;
  // Range of the values, nearly all of a normal distribution without bounds;
  // for a categorical 0 to choices.size() - 1.
  double low = 0;
  double high = 0;
  // Distance of possible values: 1 for integers without steps; empty: any
  // value, or integers on a logarithmic scale.
  std::optional<double> step;
  // Values of a categorical hyperparameter; empty for others.
  std::vector<nlohmann::json> choices;
  // A part of a category (HparamParts), which has an axis, too.
  bool is_part = false;
  // The condition of the hyperparameter (searchers/hparam_conditions.h); null:
  // every trial has it.
  nlohmann::json when = nullptr;

  /// True if there is only one possible value.
  bool constant() const { return !(low < high); }
};

/// The searched hyperparameters of a space (the map `hyperparameters` of a
/// configuration), in byte order of their names, depth first, each followed by
/// its parts. `grid`: the search is a grid, so that `count` limits the values.
std::vector<SearchAxis> SearchAxes(const nlohmann::json& space, bool grid);

/// A trial's place on the axis: its value of the hyperparameter, or the index
/// of its choice. NaN if the trial has none, has the value of `else` instead,
/// or one that is not on the axis.
double PlaceOn(const SearchAxis& axis, const nlohmann::json& hparams);

/// The place of a value of the axis' hyperparameter, as PlaceOn returns it.
double FindPlace(const nlohmann::json& value, const SearchAxis& axis);

}  // namespace dtrain
