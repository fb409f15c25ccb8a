#include "searchers/hparam_grid.h"

#include <algorithm>
#include <utility>

#include "searchers/hparam_space.h"

namespace dtrain {
namespace {

void CollectAxes(const nlohmann::json& space, std::vector<std::string>& path,
                 std::vector<HparamGrid::Axis>& axes) {
  if (!space.is_object()) return;
  // nlohmann keeps objects in byte order of their keys.
  for (const auto& [name, value] : space.items()) {
    path.push_back(name);
    if (HasType(value)) {
      axes.push_back({.path = path, .values = GridValues(value)});
    } else {
      CollectAxes(value, path, axes);
    }
    path.pop_back();
  }
}

// Returns the constants of a space without a type.
nlohmann::json PlainConstants(const nlohmann::json& space) {
  if (!space.is_object()) return space;
  nlohmann::json constants = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    if (!HasType(value)) constants[name] = PlainConstants(value);
  }
  return constants;
}

// Inserts the chosen value of each axis, in the order of the axes.
nlohmann::json Fill(const nlohmann::json& space,
                    const std::vector<const nlohmann::json*>& chosen,
                    std::size_t& next) {
  if (!space.is_object()) return space;
  nlohmann::json filled = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    filled[name] = HasType(value) ? *chosen[next++] : Fill(value, chosen, next);
  }
  return filled;
}

}  // namespace

HparamGrid::HparamGrid(nlohmann::json space, std::int64_t most,
                       const std::vector<std::string>& constraints)
    : space_(std::move(space)),
      conditions_(space_),
      constraints_(space_, constraints) {
  std::vector<std::string> path;
  CollectAxes(space_, path, axes_);
  if (!conditions_.empty() || !constraints_.empty()) {
    ListPoints(most);
    return;
  }
  for (const Axis& axis : axes_) {
    size_ *= static_cast<std::int64_t>(axis.values.size());
  }
}

// Lists the points that exist. An axis that is absent has its first value
// there, so each combination is listed once.
void HparamGrid::ListPoints(std::int64_t most) {
  // The order of decisions: an axis behind those that its condition names.
  struct Step {
    std::size_t axis = 0;
    const HparamConditions::Conditional* condition = nullptr;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const bool conditional = std::ranges::any_of(
        conditions_.conditional(),
        [&](const auto& one) { return one.path == axes_[i].path; });
    if (!conditional) steps.push_back({.axis = i});
  }
  for (const auto& one : conditions_.conditional()) {
    const auto axis = std::ranges::find(axes_, one.path, &Axis::path);
    steps.push_back({.axis = static_cast<std::size_t>(axis - axes_.begin()),
                     .condition = &one});
  }
  nlohmann::json hparams = PlainConstants(space_);
  std::vector<std::uint32_t> digits(axes_.size());
  std::int64_t tried = 0;
  const auto is_full = [&] {
    return static_cast<std::int64_t>(points_.size()) > most ||
           tried > kMaxTried;
  };
  const auto choose = [&](const auto& self, std::size_t at) -> void {
    if (is_full()) return;
    if (at == steps.size()) {
      if (constraints_.Hold(hparams)) points_.push_back(digits);
      return;
    }
    const Axis& axis = axes_[steps[at].axis];
    nlohmann::json* map = &hparams;
    for (std::size_t i = 0; i + 1 < axis.path.size(); ++i) {
      map = &(*map)[axis.path[i]];
    }
    const auto set = [&](const nlohmann::json& value) {
      (*map)[axis.path.back()] = value;
      if (!constraints_.empty()) ++tried;
      if (constraints_.MayHold(hparams)) self(self, at + 1);
      map->erase(axis.path.back());
    };
    const auto* condition = steps[at].condition;
    digits[steps[at].axis] = 0;
    if (condition != nullptr && !Holds(condition->when, hparams)) {
      if (!condition->otherwise) return self(self, at + 1);
      return set(*condition->otherwise);
    }
    for (std::size_t i = 0; i < axis.values.size() && !is_full(); ++i) {
      digits[steps[at].axis] = static_cast<std::uint32_t>(i);
      set(axis.values[i]);
    }
  };
  choose(choose, 0);
  std::ranges::sort(points_);
  size_ =
      tried > kMaxTried ? most + 1 : static_cast<std::int64_t>(points_.size());
}

nlohmann::json HparamGrid::At(std::int64_t index) const {
  std::vector<const nlohmann::json*> chosen(axes_.size());
  if (!points_.empty()) {
    const auto& digits = points_[static_cast<std::size_t>(index)];
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      chosen[i] = &axes_[i].values[digits[i]];
    }
  } else {
    // The index is a number with one digit for each axis, of which the last is
    // the least significant.
    for (std::size_t i = axes_.size(); i-- > 0;) {
      const auto values = static_cast<std::int64_t>(axes_[i].values.size());
      chosen[i] = &axes_[i].values[static_cast<std::size_t>(index % values)];
      index /= values;
    }
  }
  std::size_t next = 0;
  nlohmann::json hparams = Fill(space_, chosen, next);
  conditions_.Apply(hparams);
  return hparams;
}

}  // namespace dtrain
