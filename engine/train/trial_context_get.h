#pragma once

// The templates of TrialContext; included by trial_context.h only.

#include <cstdint>
#include <string>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/train/trial_context.h"

namespace dtrain {

namespace internal {

/// `json` as T, or Error(kFailed) that names the hyperparameter.
template <typename T>
T HparamAs(const nlohmann::json& json, const std::string& name) {
  const auto wrong = [&](const char* type) {
    return Error(ErrorKind::kFailed, "hyperparameter '" + name +
                                         "': expected " + type + ", got " +
                                         json.dump());
  };
  if constexpr (std::is_same_v<T, nlohmann::json>) {
    return json;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) throw wrong("true or false");
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) throw wrong("an integer");
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) throw wrong("a number");
  } else {
    if (!json.is_string()) throw wrong("a string");
  }
  return json.get<T>();
}

}  // namespace internal

template <typename T>
T TrialContext::Get(const std::string& name) const {
  const nlohmann::json* found = Find(name);
  if (found == nullptr) {
    throw Error(ErrorKind::kFailed,
                "hyperparameter '" + name +
                    "' is missing; add it under 'hyperparameters'");
  }
  return internal::HparamAs<T>(*found, name);
}

template <typename T>
T TrialContext::Get(const std::string& name, T fallback) const {
  const nlohmann::json* found = Find(name);
  if (found == nullptr || found->is_null()) return fallback;
  return internal::HparamAs<T>(*found, name);
}

}  // namespace dtrain
