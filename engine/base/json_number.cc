#include "engine/base/json_number.h"

#include <cmath>
#include <limits>
#include <string>

#include "engine/base/error.h"

namespace dtrain {

nlohmann::json JsonNumber(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

double NumberFromJson(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorKind::kFailed,
              "expected a number, 'NaN', 'Infinity' or '-Infinity'");
}

}  // namespace dtrain
