// The order in which hyperparameters are visited fixes which random number each
// gets: byte order of the names, depth first, as in Determined. nlohmann::json
// iterates over objects in that order.
//
// Every change of that order, or of the number of words that a value draws from
// the generator, gives all searches with the same seed other trials. A constant
// draws nothing, and neither does a categorical with one value.
//
// The functions take the map of the YAML as JSON. It has been checked when the
// configuration was read, so members are read with `at` and no error is
// expected.

#include "searchers/hparam_space.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "engine/base/json.h"
#include "searchers/hparam_conditions.h"
#include "searchers/number_range.h"

namespace dtrain {
namespace {

nlohmann::json SampleTyped(const nlohmann::json& space, Rng& rng) {
  const std::string type = space.at("type");
  if (type == "const") return space.at("val");
  if (type == "categorical") {
    const nlohmann::json& values = space.at("vals");
    return values.at(rng.Below(values.size()));
  }
  if (type == "normal") return NormalRange(space).At(rng.Uniform());
  if (IsDiscrete(space)) {
    const SteppedRange values(space);
    return values.At(rng.Below(values.last() + 1));
  }
  if (type == "int") return LogInteger(space).At(rng.Uniform());
  if (IsLog(space)) {
    // Rounding must not leave the range.
    const double low = space.at("minval");
    const double high = space.at("maxval");
    const double draw = rng.Uniform(std::log(low), std::log(high));
    return std::clamp(std::exp(draw), low, high);
  }
  const double draw = rng.Uniform(space.at("minval"), space.at("maxval"));
  if (type == "double") return draw;
  return std::pow(space.value("base", 10.0), draw);
}

nlohmann::json SampleMap(const nlohmann::json& space, Rng& rng);

// Draws a value of the map: a range, a nested map, or a constant.
nlohmann::json SampleValue(const nlohmann::json& space, Rng& rng) {
  return HasType(space) ? SampleTyped(space, rng) : SampleMap(space, rng);
}

nlohmann::json SampleMap(const nlohmann::json& space, Rng& rng) {
  if (!space.is_object()) return space;
  // nlohmann keeps objects in byte order of their keys.
  nlohmann::json sample = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    sample[name] = SampleValue(value, rng);
  }
  return sample;
}

}  // namespace

bool HasType(const nlohmann::json& value) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  return value.is_object() && type != value.end() && type->is_string();
}

std::vector<HparamPart> HparamParts(const std::string& name,
                                    const nlohmann::json& range) {
  std::vector<const nlohmann::json*> values;
  const bool is_constant = range.at("type") == "const";
  const auto entry = range.find(is_constant ? "val" : "vals");
  if (entry != range.end() && is_constant) {
    values = {&*entry};
  } else if (entry != range.end() && entry->is_array()) {
    for (const nlohmann::json& value : *entry) values.push_back(&value);
  }
  std::map<std::string, std::vector<nlohmann::json>> parts;
  for (const nlohmann::json* value : values) {
    for (const auto& [part, one] : FlattenNames(*value)) {
      std::vector<nlohmann::json>& part_values = parts[part];
      if (std::ranges::count(part_values, one) == 0) part_values.push_back(one);
    }
  }
  std::vector<HparamPart> found;
  for (auto& [part, part_values] : parts) {
    const auto lacking =
        std::ranges::find_if(values, [&](const nlohmann::json* value) {
          return FindMember(*value, part) == nullptr;
        });
    found.push_back({.name = name + '.' + part,
                     .values = std::move(part_values),
                     .lacking = lacking == values.end() ? nullptr : *lacking});
  }
  return found;
}

namespace {

// An empty map is a value like any other: a trial has it, so it has a name.
void AddNames(const nlohmann::json& space, const std::string& prefix,
              std::vector<HparamName>& names) {
  for (const auto& [key, value] : space.items()) {
    const std::string name = prefix + key;
    if (value.is_object() && !value.empty() && !HasType(value)) {
      AddNames(value, name + '.', names);
      continue;
    }
    names.push_back({.name = name});
    if (!HasType(value)) continue;
    for (HparamPart& part : HparamParts(name, value)) {
      names.push_back({.name = std::move(part.name), .whole = name});
    }
  }
}

}  // namespace

std::vector<HparamName> HparamNames(const nlohmann::json& space) {
  std::vector<HparamName> names;
  if (space.is_object()) AddNames(space, "", names);
  return names;
}

std::optional<nlohmann::json> HparamChoices(const nlohmann::json& space,
                                            const std::string& name) {
  const auto names = HparamNames(space);
  const auto found = std::ranges::find(names, name, &HparamName::name);
  if (found == names.end()) return std::nullopt;
  if (!found->whole.empty()) {
    const nlohmann::json& range = *FindMember(space, found->whole);
    const auto parts = HparamParts(found->whole, range);
    return std::ranges::find(parts, name, &HparamPart::name)->values;
  }
  const nlohmann::json& value = *FindMember(space, name);
  if (!HasType(value)) return nlohmann::json::array({value});
  const std::string type = value.at("type");
  nlohmann::json choices;
  if (type == "categorical") choices = value.at("vals");
  if (type == "const") choices = nlohmann::json::array({value.at("val")});
  if (choices.is_array() && value.contains("else")) {
    choices.push_back(value.at("else"));
  }
  return choices;
}

std::vector<std::string> NamesWithParts(const nlohmann::json& space) {
  std::vector<std::string> wholes;
  for (HparamName& one : HparamNames(space)) {
    const bool is_new =
        !one.whole.empty() && (wholes.empty() || wholes.back() != one.whole);
    if (is_new) wholes.push_back(std::move(one.whole));
  }
  return wholes;
}

std::map<std::string, nlohmann::json> HparamValues(
    const nlohmann::json& hparams, const std::vector<std::string>& with_parts) {
  auto values = FlattenNames(hparams);
  for (const std::string& name : with_parts) {
    if (const nlohmann::json* value = FindMember(hparams, name))
      values[name] = *value;
  }
  return values;
}

bool IsLog(const nlohmann::json& range) { return range.value("log", false); }

bool IsDiscrete(const nlohmann::json& range) {
  return range.contains("step") || (range.at("type") == "int" && !IsLog(range));
}

bool IsOrdered(const nlohmann::json& range) {
  if (range.at("type") != "categorical") return false;
  const nlohmann::json& values = range.at("vals");
  const auto is_sorted = [&](auto before) {
    return std::ranges::adjacent_find(
               values, [&](const nlohmann::json& a, const nlohmann::json& b) {
                 return !before(a.get<double>(), b.get<double>());
               }) == values.end();
  };
  if (range.contains("ordered")) return range.at("ordered");
  return values.size() >= 3 &&
         std::ranges::all_of(values, &nlohmann::json::is_number) &&
         (is_sorted(std::less()) || is_sorted(std::greater()));
}

// What is absent is drawn, too: a condition must not change the other samples.
nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng) {
  nlohmann::json sample = SampleMap(space, rng);
  HparamConditions(space).Apply(sample);
  return sample;
}

Sample SampleTrial(const nlohmann::json& space, Rng& rng) {
  return Identify(SampleHparams(space, rng), rng);
}

Sample Identify(nlohmann::json hparams, Rng& rng) {
  Sample sample;
  sample.hparams = std::move(hparams);
  sample.request_id = rng.Uuid();
  sample.seed = static_cast<std::uint32_t>(rng.Below(std::uint64_t{1} << 31));
  return sample;
}

namespace {

nlohmann::json MapOfPoint(const nlohmann::json& space,
                          const nlohmann::json& point, Rng& rng) {
  if (!space.is_object()) return space;
  nlohmann::json hparams = nlohmann::json::object();
  for (const auto& [name, range] : space.items()) {
    const auto given = point.find(name);
    if (given == point.end()) {
      hparams[name] = SampleValue(range, rng);
      continue;
    }
    if (!HasType(range)) {
      hparams[name] = MapOfPoint(range, *given, rng);
      continue;
    }
    const std::string type = range.at("type");
    // A real number stays one, even if the point has 1. A constant is that of
    // the space even if the point repeats it.
    const bool is_real = type == "double" || type == "log" || type == "normal";
    hparams[name] = type == "const" ? range.at("val")
                    : is_real       ? nlohmann::json(given->get<double>())
                                    : *given;
  }
  return hparams;
}

}  // namespace

nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point, Rng& rng) {
  nlohmann::json hparams = MapOfPoint(space, point, rng);
  HparamConditions(space).Apply(hparams);
  return hparams;
}

namespace {

// Returns why a value is not in the range, or "".
std::string RangeProblem(const nlohmann::json& range,
                         const nlohmann::json& value) {
  const std::string type = range.at("type");
  if (type == "categorical") {
    const nlohmann::json& values = range.at("vals");
    const bool has = std::ranges::find(values, value) != values.end();
    return has ? "" : "is not in vals";
  }
  if (type == "int" && !value.is_number_integer()) return "is not an integer";
  if (!value.is_number()) return "is not a number";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = range.value("minval", IsLog(range) ? 0.0 : -kInfinity);
  double high = range.value("maxval", kInfinity);
  if (type == "log") {
    const double base = range.value("base", 10.0);
    const auto [least, most] =
        std::minmax({std::pow(base, low), std::pow(base, high)});
    // Allow for rounding at the ends.
    low = least * (1 - 1e-12);
    high = most * (1 + 1e-12);
  }
  const double number = value;
  const bool is_inside = number >= low && number <= high &&
                         !(type == "normal" && IsLog(range) && number == 0);
  if (!is_inside) return "is out of range";
  const bool has = !IsDiscrete(range) || SteppedRange(range).Find(value);
  return has ? "" : "is between two steps";
}

// Builds the point of one level of the map. The first hyperparameter that is
// missing or out of range ends it, and `problem` names it by its path.
// `all`: the hyperparameters of all levels.
std::optional<nlohmann::json> PartOfPoint(const nlohmann::json& space,
                                          const nlohmann::json& hparams,
                                          const nlohmann::json& all,
                                          const std::string& prefix,
                                          std::string& problem) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  nlohmann::json point = nlohmann::json::object();
  for (const auto& [name, range] : space.items()) {
    if (IsConstant({{name, range}})) continue;
    const std::string path = prefix + name;
    const bool absent = HasType(range) && range.contains("when") &&
                        !Holds(range.at("when"), all);
    if (absent) continue;
    const bool missing = !hparams.is_object() || !hparams.contains(name);
    if (missing && HasType(range)) {
      problem = path + " is missing";
      return std::nullopt;
    }
    // All of a nested map may be absent.
    const nlohmann::json& value = missing ? kNothing : hparams.at(name);
    if (!HasType(range)) {
      const auto inner = PartOfPoint(range, value, all, path + '.', problem);
      if (!inner) return std::nullopt;
      point[name] = *inner;
      continue;
    }
    const std::string why = RangeProblem(range, value);
    if (!why.empty()) {
      problem = path + ' ' + why;
      return std::nullopt;
    }
    point[name] = value;
  }
  return point;
}

}  // namespace

std::optional<nlohmann::json> PointOfHparams(const nlohmann::json& space,
                                             const nlohmann::json& hparams,
                                             std::string& problem) {
  return PartOfPoint(space, hparams, hparams, "", problem);
}

bool IsConstant(const nlohmann::json& space) {
  if (!space.is_object()) return true;
  return std::ranges::all_of(space, [](const nlohmann::json& value) {
    return HasType(value) ? value.at("type") == "const" : IsConstant(value);
  });
}

namespace {

// Returns point i of `count` evenly spaced points of [low, high].
double Spread(double low, double high, std::int64_t i, std::int64_t count) {
  if (count == 1) return (low + high) / 2;
  const auto step = static_cast<double>(i);
  return low + step * (high - low) / static_cast<double>(count - 1);
}

// Returns the range with each of its values equally likely.
nlohmann::json WithoutScale(nlohmann::json range) {
  range.erase("log");
  return range;
}

// Returns `count` values of an int, without repetitions.
std::vector<nlohmann::json> SomeIntegers(const nlohmann::json& range,
                                         std::int64_t count) {
  const std::int64_t low = range.at("minval");
  const std::int64_t high = range.at("maxval");
  count = std::min(count, high - low + 1);
  std::vector<nlohmann::json> values;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsLog(range)) {
      const LogInteger integers(range);
      const std::int64_t value = integers.At(
          Spread(integers.Place(low), integers.Place(high), i, count));
      if (values.empty() || values.back() != value) values.emplace_back(value);
      continue;
    }
    const double value =
        Spread(static_cast<double>(low), static_cast<double>(high), i, count);
    // Rounds half away from zero, as Determined does.
    values.emplace_back(
        std::clamp(static_cast<std::int64_t>(std::round(value)), low, high));
  }
  return values;
}

}  // namespace

std::vector<nlohmann::json> GridValues(const nlohmann::json& hparam) {
  const std::string type = hparam.at("type");
  if (type == "const") return {hparam.at("val")};
  if (type == "categorical") {
    return hparam.at("vals").get<std::vector<nlohmann::json>>();
  }
  const auto given = hparam.find("count");
  const bool counted = given != hparam.end() && !given->is_null();
  std::vector<nlohmann::json> values;
  if (type == "int" && counted) return SomeIntegers(hparam, *given);
  if (type == "int" || hparam.contains("step")) {
    const SteppedRange range(WithoutScale(hparam));
    for (std::uint64_t i = 0; i <= range.last(); ++i) {
      values.push_back(range.At(i));
    }
    return values;
  }
  const std::int64_t count = hparam.at("count");
  if (type == "normal") {
    const NormalRange range(hparam);
    for (std::int64_t i = 0; i < count; ++i) {
      values.emplace_back(range.At((static_cast<double>(i) + 0.5) /
                                   static_cast<double>(count)));
    }
    return values;
  }
  if (IsLog(hparam)) {
    const double low = hparam.at("minval");
    const double high = hparam.at("maxval");
    for (std::int64_t i = 0; i < count; ++i) {
      const double value =
          std::exp(Spread(std::log(low), std::log(high), i, count));
      // Rounding must not change the ends.
      const bool first = i == 0 && count > 1;
      const bool last = i == count - 1 && count > 1;
      values.emplace_back(first ? low : last ? high : value);
    }
    return values;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const double value =
        Spread(hparam.at("minval"), hparam.at("maxval"), i, count);
    values.emplace_back(
        type == "double" ? value : std::pow(hparam.value("base", 10.0), value));
  }
  return values;
}

std::int64_t CountGridValues(const nlohmann::json& hparam) {
  constexpr std::int64_t kMaxListed = 100'000;
  const std::string type = hparam.at("type");
  if (type == "const") return 1;
  if (type == "categorical") {
    return static_cast<std::int64_t>(hparam.at("vals").size());
  }
  const nlohmann::json count = hparam.value("count", nlohmann::json());
  if (type != "int" && !count.is_null()) return count;
  if (type != "int" && !hparam.contains("step")) return 0;
  const auto all =
      static_cast<std::int64_t>(SteppedRange(WithoutScale(hparam)).last()) + 1;
  if (count.is_null()) return all;
  const std::int64_t values = std::min(count.get<std::int64_t>(), all);
  if (!IsLog(hparam) || values > kMaxListed) return values;
  return static_cast<std::int64_t>(GridValues(hparam).size());
}

namespace {

constexpr std::size_t kMaxAlternatives = 1000;

// Returns the alternatives of one hyperparameter, a map with `type`; none if it
// is a range or has too many.
std::vector<nlohmann::json> FindAlternatives(const nlohmann::json& hparam,
                                             bool is_grid) {
  const std::string type = hparam.at("type");
  const nlohmann::json count = hparam.value("count", nlohmann::json());
  double size = 0;  // of a range
  if (type == "categorical") {
    size = static_cast<double>(hparam.at("vals").size());
  } else if (is_grid && !count.is_null()) {
    size = count.get<double>();
  } else if (type == "int" || IsDiscrete(hparam)) {
    size = static_cast<double>(SteppedRange(WithoutScale(hparam)).last()) + 1;
    if (!is_grid && size != 2) return {};
  }
  if (size == 0 || size > kMaxAlternatives) return {};
  return GridValues(hparam);
}

void AddAlternatives(const nlohmann::json& space, bool is_grid,
                     const std::string& prefix, nlohmann::json& found) {
  for (const auto& [name, value] : space.items()) {
    const std::string path = prefix + name;
    if (HasType(value)) {
      auto values = FindAlternatives(value, is_grid);
      if (values.size() > 1) found[path] = std::move(values);
    } else if (value.is_object()) {
      AddAlternatives(value, is_grid, path + '.', found);
    }
  }
}

}  // namespace

nlohmann::json Alternatives(const nlohmann::json& space, bool is_grid) {
  nlohmann::json found = nlohmann::json::object();
  if (space.is_object()) AddAlternatives(space, is_grid, "", found);
  return found;
}

}  // namespace dtrain
