#include "searchers/hparam_space.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace dtrain {
namespace {

nlohmann::json SampleTyped(const nlohmann::json& space, Rng& rng) {
  const std::string type = space.at("type");
  if (type == "const") return space.at("val");
  if (type == "categorical") {
    const nlohmann::json& values = space.at("vals");
    return values.at(rng.Below(values.size()));
  }
  if (type == "int") {
    const std::int64_t low = space.at("minval");
    const std::int64_t high = space.at("maxval");
    const auto count =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                     rng.Below(count));
  }
  if (IsLogDouble(space)) {
    // Rounding must not lead out of the range.
    const double low = space.at("minval");
    const double high = space.at("maxval");
    const double draw = rng.Uniform(std::log(low), std::log(high));
    return std::clamp(std::exp(draw), low, high);
  }
  const double draw = rng.Uniform(space.at("minval"), space.at("maxval"));
  if (type == "double") return draw;
  return std::pow(space.value("base", 10.0), draw);
}

// A value of the map: a range, a nested map, or a constant.
nlohmann::json SampleValue(const nlohmann::json& space, Rng& rng) {
  return HasType(space) ? SampleTyped(space, rng) : SampleHparams(space, rng);
}

nlohmann::json ValueOfPoint(const nlohmann::json& space,
                            const nlohmann::json& point) {
  if (!HasType(space)) return HparamsOfPoint(space, point);
  const std::string type = space.at("type");
  if (type == "const") return space.at("val");
  // What is a real number stays one, also where the point says 1.
  if (type == "double" || type == "log") return point.get<double>();
  return point;
}

}  // namespace

bool HasType(const nlohmann::json& value) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  return value.is_object() && type != value.end() && type->is_string();
}

bool IsLogDouble(const nlohmann::json& range) {
  return range.at("type") == "double" && range.value("log", false);
}

nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng) {
  if (!space.is_object()) return space;
  // nlohmann keeps objects in byte order of their keys.
  nlohmann::json sample = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    sample[name] = SampleValue(value, rng);
  }
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

nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point) {
  if (!space.is_object()) return space;
  nlohmann::json hparams = nlohmann::json::object();
  for (const auto& [name, value] : space.items()) {
    hparams[name] =
        ValueOfPoint(value, point.value(name, nlohmann::json::object()));
  }
  return hparams;
}

bool IsConstant(const nlohmann::json& space) {
  if (!space.is_object()) return true;
  return std::ranges::all_of(space, [](const nlohmann::json& value) {
    return HasType(value) ? value.at("type") == "const" : IsConstant(value);
  });
}

}  // namespace dtrain
