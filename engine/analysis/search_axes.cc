// A search space as axes, for plots and importance. Unlike point_space.cc,
// which prepares coordinates for a model, an axis keeps the values themselves
// and has categories by their index. A category that is a map adds an axis for
// each of its parts (optimizer.lr), on which trials of other categories have no
// place.

#include "engine/analysis/search_axes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/base/json.h"
#include "searchers/hparam_conditions.h"
#include "searchers/hparam_space.h"
#include "searchers/number_range.h"

namespace dtrain {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Distance of `count` values from low to high; empty without a count.
std::optional<double> GridStep(const nlohmann::json& range, double low,
                               double high) {
  const auto count = range.find("count");
  if (count == range.end() || !count->is_number_integer()) return std::nullopt;
  const auto values = count->get<std::int64_t>();
  if (values < 2) return high - low;
  return (high - low) / static_cast<double>(values - 1);
}

void SetNumbers(const nlohmann::json& range, bool grid, SearchAxis& axis) {
  if (range.at("type") == "normal") {
    // One trial in 16,000 is outside if there are no bounds.
    constexpr double kNarrow = 3.2e-5;
    const NormalRange normal(range);
    axis.low = range.value("minval", normal.At(kNarrow));
    axis.high = range.value("maxval", normal.At(1 - kNarrow));
    axis.log = IsLog(range);
    return;
  }
  axis.low = range.at("minval");
  axis.high = range.at("maxval");
  if (range.at("type") == "log") {
    // The limits of `log` are exponents.
    const double base = range.value("base", 10.0);
    axis.low = std::pow(base, axis.low);
    axis.high = std::pow(base, axis.high);
    axis.log = true;
    return;
  }
  axis.log = IsLog(range);
  if (axis.log) return;
  if (IsDiscrete(range)) {
    const SteppedRange values(range);
    axis.high = values.At(values.last());
    axis.step = range.value("step", 1.0);
  }
  if (!grid) return;
  if (const auto step = GridStep(range, axis.low, axis.high)) {
    axis.step = std::max(*step, axis.step.value_or(0));
  }
}

void Collect(const nlohmann::json& space, bool grid, const std::string& prefix,
             std::vector<SearchAxis>& axes) {
  if (!space.is_object()) return;
  for (const auto& [name, value] : space.items()) {
    if (!HasType(value)) {
      Collect(value, grid, prefix + name + ".", axes);
      continue;
    }
    if (value.at("type") == "const") continue;
    SearchAxis axis{.name = prefix + name,
                    .when = value.value("when", nlohmann::json())};
    if (value.at("type") == "categorical") {
      axis.choices = value.at("vals").get<std::vector<nlohmann::json>>();
      axis.high = static_cast<double>(axis.choices.size()) - 1;
      axes.push_back(std::move(axis));
      for (HparamPart& part : HparamParts(prefix + name, value)) {
        axes.push_back({.name = std::move(part.name),
                        .high = static_cast<double>(part.values.size()) - 1,
                        .choices = std::move(part.values),
                        .is_part = true,
                        .when = value.value("when", nlohmann::json())});
      }
      continue;
    }
    SetNumbers(value, grid, axis);
    axes.push_back(std::move(axis));
  }
}

}  // namespace

std::vector<SearchAxis> SearchAxes(const nlohmann::json& space, bool grid) {
  std::vector<SearchAxis> axes;
  Collect(space, grid, "", axes);
  return axes;
}

double PlaceOn(const SearchAxis& axis, const nlohmann::json& hparams) {
  if (!axis.when.is_null() && !Holds(axis.when, hparams)) return kNone;
  const nlohmann::json* value = FindMember(hparams, axis.name);
  return value == nullptr ? kNone : FindPlace(*value, axis);
}

double FindPlace(const nlohmann::json& value, const SearchAxis& axis) {
  if (axis.choices.empty()) {
    return value.is_number() ? value.get<double>() : kNone;
  }
  const auto choice = std::ranges::find(axis.choices, value);
  if (choice == axis.choices.end()) return kNone;
  return static_cast<double>(choice - axis.choices.begin());
}

}  // namespace dtrain
