#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"

namespace dtrain::key_storing {

// Functions of KeySpec::store: they copy a value of the effective configuration
// to a member of ExperimentConfig. Null stores nothing.

inline void Convert(const nlohmann::json& json, std::string& to) {
  to = json.is_null() ? std::string() : json.get<std::string>();
}

inline void Convert(const nlohmann::json& json, Length& to) {
  for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
    const std::string name(UnitName(unit));
    if (json.contains(name)) to = {json.at(name).get<std::int64_t>(), unit};
  }
}

// Words that stand for "no number", such as loss_scale: dynamic, store nothing.
template <typename T>
void Convert(const nlohmann::json& json, std::optional<T>& to) {
  if (json.is_number()) to = json.get<T>();
}

template <typename T>
void Convert(const nlohmann::json& json, T& to) {
  if (!json.is_null()) to = json.get<T>();
}

// Stores the value in the member that the chain of pointers names.
template <auto... kMembers>
void Into(const nlohmann::json& json, ExperimentConfig& config) {
  Convert(json, (config.*....*kMembers));
}

template <auto kMember>
constexpr auto IntoTraining = Into<&ExperimentConfig::training, kMember>;
template <auto kMember>
constexpr auto IntoSearcher = Into<&ExperimentConfig::searcher, kMember>;
template <auto kMember>
constexpr auto IntoCheckpoints = Into<&ExperimentConfig::checkpoints, kMember>;

}  // namespace dtrain::key_storing
