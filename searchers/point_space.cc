// A search space as coordinates for the model-based search.
//
// A number becomes a coordinate from 0 to 1, on a logarithmic axis if it is
// searched so; an integer, a step or the rank in an ordered list the centre of
// one of equal cells, so that every value has the same width; a number of a
// normal distribution its share of that, so that every share has; a category
// its index. Hyperparameters with one value have no coordinate. Axes are in the
// order of hparam_space.cc: byte order of names, depth first.
//
// Logarithms and exponentials are those of portable_math.h, because a seed must
// give the same search on every machine. The width of an integer range is kept
// as unsigned, since maxval − minval may exceed std::int64_t.
//
// DrawNear changes a random number of coordinates, always at least one, by
// normal steps that are reflected at the ends.

#include "searchers/point_space.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "searchers/hparam_space.h"
#include "searchers/portable_math.h"

namespace dtrain {
namespace {

// Draws a standard normal number by the polar method (Marsaglia and Bray,
// 1964), which needs no function but ln and the square root.
double DrawNormal(Rng& rng) {
  while (true) {
    const double x = 2 * rng.Uniform() - 1;
    const double y = 2 * rng.Uniform() - 1;
    const double squared = x * x + y * y;
    if (squared >= 1 || squared == 0) continue;
    return x * std::sqrt(-2 * PortableLog(squared) / squared);
  }
}

// True if the hyperparameter has only one value, which is not a coordinate.
bool HasOneValue(const nlohmann::json& range) {
  return range.at("type") == "const" ||
         (range.at("type") == "categorical" && range.at("vals").size() == 1);
}

}  // namespace

PointSpace::PointSpace(nlohmann::json space, bool orders_lists,
                       const std::vector<std::string>& constraints)
    : space_(std::move(space)),
      orders_lists_(orders_lists),
      conditions_(space_),
      constraints_(space_, constraints) {
  std::vector<std::string> path;
  Collect(space_, path);
}

void PointSpace::Collect(const nlohmann::json& space,
                         std::vector<std::string>& path) {
  if (!space.is_object()) return;
  for (const auto& [name, value] : space.items()) {
    path.push_back(name);
    if (!HasType(value)) {
      Collect(value, path);
    } else if (!HasOneValue(value)) {
      Axis axis = MakeAxis(value);
      axis.path = path;
      axis.when = value.value("when", nlohmann::json());
      axes_.push_back(std::move(axis));
    }
    path.pop_back();
  }
}

PointSpace::Axis PointSpace::MakeAxis(const nlohmann::json& range) const {
  Axis axis;
  const std::string type = range.at("type");
  if (type == "categorical") {
    const bool ordered = orders_lists_ && IsOrdered(range);
    axis.kind = ordered ? Kind::kOrdered : Kind::kCategorical;
    axis.values = range.at("vals");
    return axis;
  }
  if (type == "normal") {
    axis.kind = Kind::kNormal;
    axis.normal.emplace(range);
    return axis;
  }
  if (IsDiscrete(range)) {
    axis.kind = Kind::kSteps;
    axis.steps.emplace(range);
    return axis;
  }
  if (type == "int") {
    axis.kind = Kind::kLogInteger;
    axis.log_integer.emplace(range);
    return axis;
  }
  axis.low = range.at("minval");
  axis.high = range.at("maxval");
  if (type == "log") {
    const double base = PortableLog(range.value("base", 10.0));
    axis.log = true;
    axis.log_low = axis.low * base;
    axis.log_high = axis.high * base;
    axis.low = PortableExp(std::min(axis.log_low, axis.log_high));
    axis.high = PortableExp(std::max(axis.log_low, axis.log_high));
  } else if (IsLog(range)) {
    axis.log = true;
    axis.log_low = PortableLog(axis.low);
    axis.log_high = PortableLog(axis.high);
  }
  return axis;
}

std::vector<bool> PointSpace::Categorical() const {
  std::vector<bool> categorical;
  for (const Axis& axis : axes_) {
    categorical.push_back(axis.kind == Kind::kCategorical);
  }
  return categorical;
}

std::uint64_t PointSpace::LastCell(const Axis& axis) {
  return axis.steps ? axis.steps->last() : axis.values.size() - 1;
}

std::uint64_t PointSpace::FindCell(const Axis& axis, double coordinate) {
  const std::uint64_t last = LastCell(axis);
  const double cell = coordinate * (static_cast<double>(last) + 1);
  return cell >= static_cast<double>(last) ? last
                                           : static_cast<std::uint64_t>(cell);
}

double PointSpace::CellCentre(const Axis& axis, std::uint64_t cell) {
  return (static_cast<double>(cell) + 0.5) /
         (static_cast<double>(LastCell(axis)) + 1);
}

double PointSpace::Snap(const Axis& axis, double coordinate) {
  if (axis.kind == Kind::kSteps || axis.kind == Kind::kOrdered) {
    return CellCentre(axis, FindCell(axis, coordinate));
  }
  if (axis.kind == Kind::kLogInteger) {
    return axis.log_integer->Place(axis.log_integer->At(coordinate));
  }
  return coordinate;
}

double PointSpace::EncodeValue(const Axis& axis, const nlohmann::json& value) {
  if (axis.kind == Kind::kCategorical || axis.kind == Kind::kOrdered) {
    const auto index =
        std::ranges::find(axis.values, value) - axis.values.begin();
    return axis.kind == Kind::kOrdered
               ? CellCentre(axis, static_cast<std::uint64_t>(index))
               : static_cast<double>(index);
  }
  if (axis.kind == Kind::kSteps) {
    return CellCentre(axis, axis.steps->Find(value).value_or(0));
  }
  if (axis.kind == Kind::kLogInteger) return axis.log_integer->Place(value);
  if (axis.kind == Kind::kNormal) return axis.normal->Place(value);
  const double number = value;
  const double share = axis.log ? (PortableLog(number) - axis.log_low) /
                                      (axis.log_high - axis.log_low)
                                : (number - axis.low) / (axis.high - axis.low);
  return std::clamp(share, 0.0, 1.0);
}

nlohmann::json PointSpace::DecodeValue(const Axis& axis, double coordinate) {
  if (axis.kind == Kind::kCategorical) {
    return axis.values.at(static_cast<std::size_t>(coordinate));
  }
  if (axis.kind == Kind::kOrdered) {
    return axis.values.at(FindCell(axis, coordinate));
  }
  if (axis.kind == Kind::kSteps) {
    return axis.steps->At(FindCell(axis, coordinate));
  }
  if (axis.kind == Kind::kLogInteger) return axis.log_integer->At(coordinate);
  if (axis.kind == Kind::kNormal) return axis.normal->At(coordinate);
  const double number =
      axis.log ? PortableExp(axis.log_low +
                             coordinate * (axis.log_high - axis.log_low))
               : axis.low + coordinate * (axis.high - axis.low);
  // Rounding must not leave the range.
  return std::clamp(number, axis.low, axis.high);
}

Point PointSpace::Encode(const nlohmann::json& hparams) const {
  Point point;
  for (const Axis& axis : axes_) {
    if (!axis.when.is_null() && !Holds(axis.when, hparams)) {
      point.push_back(AbsentCoordinate(axis));
      continue;
    }
    const nlohmann::json* value = &hparams;
    for (const std::string& name : axis.path) value = &value->at(name);
    point.push_back(EncodeValue(axis, *value));
  }
  return point;
}

nlohmann::json PointSpace::Decode(const Point& point) const {
  std::size_t next = 0;
  nlohmann::json hparams = Fill(space_, point, next);
  conditions_.Apply(hparams);
  return hparams;
}

nlohmann::json PointSpace::Fill(const nlohmann::json& space, const Point& point,
                                std::size_t& next) const {
  if (!space.is_object()) return space;
  nlohmann::json filled = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    if (!HasType(value)) {
      filled[name] = Fill(value, point, next);
    } else if (HasOneValue(value)) {
      filled[name] = value.at("type") == "const" ? value.at("val")
                                                 : value.at("vals").front();
    } else {
      filled[name] = DecodeValue(axes_[next], point[next]);
      ++next;
    }
  }
  return filled;
}

double PointSpace::DrawCoordinate(const Axis& axis, Rng& rng) {
  switch (axis.kind) {
    case Kind::kNumber:
    case Kind::kLogInteger:
    case Kind::kNormal:
      return Snap(axis, rng.Uniform());
    case Kind::kSteps:
    case Kind::kOrdered:
      return CellCentre(axis, rng.Below(LastCell(axis) + 1));
    case Kind::kCategorical:
      break;
  }
  return static_cast<double>(rng.Below(axis.values.size()));
}

// A value that exists, so that a point with it can be decoded.
double PointSpace::AbsentCoordinate(const Axis& axis) {
  return axis.kind == Kind::kCategorical ? 0 : Snap(axis, 0.5);
}

std::vector<bool> PointSpace::FindPresent(const Point& point) const {
  std::vector<bool> present(axes_.size(), true);
  if (conditions_.empty()) return present;
  const nlohmann::json hparams = Decode(point);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    present[i] = axes_[i].when.is_null() || Holds(axes_[i].when, hparams);
  }
  return present;
}

void PointSpace::LeaveOutAbsent(Point& point) const {
  const std::vector<bool> present = FindPresent(point);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (!present[i]) point[i] = AbsentCoordinate(axes_[i]);
  }
}

bool PointSpace::MeetsConstraints(const Point& point) const {
  return constraints_.empty() || constraints_.Hold(Decode(point));
}

Point PointSpace::Draw(Rng& rng, std::int64_t max_draws) const {
  Point point;
  std::int64_t draws = 0;
  do {
    point.clear();
    for (const Axis& axis : axes_) point.push_back(DrawCoordinate(axis, rng));
    LeaveOutAbsent(point);
  } while (!MeetsConstraints(point) && ++draws < max_draws);
  return point;
}

Point PointSpace::DrawNear(const Point& point, double deviation,
                           Rng& rng) const {
  Point near = point;
  const std::vector<bool> present = FindPresent(point);
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < dimensions(); ++i) {
    if (present[i]) candidates.push_back(i);
  }
  if (candidates.empty()) return near;
  const double probability = rng.Uniform();
  const std::size_t always = candidates.at(rng.Below(candidates.size()));
  for (std::size_t i = 0; i < dimensions(); ++i) {
    // It may become present by a change of another one.
    if (!present[i]) {
      near[i] = DrawCoordinate(axes_[i], rng);
      continue;
    }
    const bool changes = rng.Uniform() < probability || i == always;
    if (changes) near[i] = Step(axes_[i], point[i], deviation, rng);
  }
  LeaveOutAbsent(near);
  return near;
}

double PointSpace::Step(const Axis& axis, double from, double deviation,
                        Rng& rng) {
  if (axis.kind == Kind::kCategorical) {
    const bool redrawn = rng.Uniform() < 0.5;
    return redrawn ? static_cast<double>(rng.Below(axis.values.size())) : from;
  }
  double to = from + deviation * DrawNormal(rng);
  // Reflected rather than clamped, or the ends would be drawn too often.
  if (to < 0) to = -to;
  if (to > 1) to = 2 - to;
  return Snap(axis, std::clamp(to, 0.0, 1.0));
}

}  // namespace dtrain
