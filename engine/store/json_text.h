#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace dtrain {

/// JSON as it is stored; invalid UTF-8 is replaced.
inline std::string JsonText(const nlohmann::json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::json::error_handler_t::replace);
}

/// Reads back what `JsonText` wrote. Throws Error(kStore) for what it did not.
inline nlohmann::json JsonFromText(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, /*cb=*/nullptr,
                                              /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  throw Error(ErrorKind::kStore,
              "the store holds text that is no JSON; it is damaged, restore "
              "dtrain.db from a backup");
}

}  // namespace dtrain
