#include "engine/base/json_depth.h"

#include <algorithm>

namespace dtrain {

bool NestsDeeperThan(const nlohmann::json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels == 0) return true;
  return std::any_of(json.begin(), json.end(), [&](const auto& item) {
    return NestsDeeperThan(item, levels - 1);
  });
}

}  // namespace dtrain
