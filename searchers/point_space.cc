// A search space as coordinates for the model-based search.
//
// A number becomes a coordinate from 0 to 1, on a logarithmic axis if it is
// searched so; an integer the centre of one of equal cells, so that every value
// has the same width; a category its index. Hyperparameters with one value have
// no coordinate. Axes are in the order of hparam_space.cc: byte order of names,
// depth first.
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

PointSpace::PointSpace(nlohmann::json space) : space_(std::move(space)) {
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
      axes_.push_back(std::move(axis));
    }
    path.pop_back();
  }
}

PointSpace::Axis PointSpace::MakeAxis(const nlohmann::json& range) {
  Axis axis;
  const std::string type = range.at("type");
  if (type == "categorical") {
    axis.kind = Kind::kCategorical;
    axis.values = range.at("vals");
    return axis;
  }
  if (type == "int") {
    axis.kind = Kind::kInt;
    axis.first = range.at("minval");
    axis.last =
        static_cast<std::uint64_t>(range.at("maxval").get<std::int64_t>()) -
        static_cast<std::uint64_t>(axis.first);
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
  } else if (IsLogDouble(range)) {
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

std::uint64_t PointSpace::FindCell(const Axis& axis, double coordinate) {
  const double cell = coordinate * (static_cast<double>(axis.last) + 1);
  return cell >= static_cast<double>(axis.last)
             ? axis.last
             : static_cast<std::uint64_t>(cell);
}

double PointSpace::CellCentre(const Axis& axis, std::uint64_t cell) {
  return (static_cast<double>(cell) + 0.5) /
         (static_cast<double>(axis.last) + 1);
}

double PointSpace::EncodeValue(const Axis& axis, const nlohmann::json& value) {
  if (axis.kind == Kind::kCategorical) {
    const auto found = std::ranges::find(axis.values, value);
    return static_cast<double>(found - axis.values.begin());
  }
  if (axis.kind == Kind::kInt) {
    const auto cell = static_cast<std::uint64_t>(value.get<std::int64_t>()) -
                      static_cast<std::uint64_t>(axis.first);
    return CellCentre(axis, cell);
  }
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
  if (axis.kind == Kind::kInt) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(axis.first) +
                                     FindCell(axis, coordinate));
  }
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
    const nlohmann::json* value = &hparams;
    for (const std::string& name : axis.path) value = &value->at(name);
    point.push_back(EncodeValue(axis, *value));
  }
  return point;
}

nlohmann::json PointSpace::Decode(const Point& point) const {
  std::size_t next = 0;
  return Fill(space_, point, next);
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

Point PointSpace::Draw(Rng& rng) const {
  Point point;
  for (const Axis& axis : axes_) {
    switch (axis.kind) {
      case Kind::kNumber:
        point.push_back(rng.Uniform());
        break;
      case Kind::kInt:
        point.push_back(CellCentre(axis, rng.Below(axis.last + 1)));
        break;
      case Kind::kCategorical:
        point.push_back(static_cast<double>(rng.Below(axis.values.size())));
        break;
    }
  }
  return point;
}

Point PointSpace::DrawNear(const Point& point, double deviation,
                           Rng& rng) const {
  Point near = point;
  const double probability = rng.Uniform();
  const std::size_t always = rng.Below(dimensions());
  for (std::size_t i = 0; i < dimensions(); ++i) {
    const bool changes = rng.Uniform() < probability || i == always;
    if (changes) near[i] = Step(axes_[i], point[i], deviation, rng);
  }
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
  to = std::clamp(to, 0.0, 1.0);
  return axis.kind == Kind::kInt ? CellCentre(axis, FindCell(axis, to)) : to;
}

}  // namespace dtrain
