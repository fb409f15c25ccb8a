#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "searchers/rng.h"

namespace dtrain {

/// A trial's hyperparameters with what belongs to them.
struct Sample {
  nlohmann::json hparams;
  std::string request_id;
  std::uint32_t seed = 0;
};

/// The value of one searched hyperparameter, or a constant, drawn at random.
/// `space` is what the YAML gives: a scalar or list (constant), a map with
/// `type` (const, int, double, log, categorical), or a map of further
/// hyperparameters. Maps are visited in byte order of their names, depth first;
/// constants draw nothing. REQUIRES: `space` was checked.
nlohmann::json SampleHparams(const nlohmann::json& space, Rng& rng);

/// A whole trial: hyperparameters, request id, seed, drawn in this order.
Sample SampleTrial(const nlohmann::json& space, Rng& rng);

/// The hyperparameters with the request id and seed drawn for them.
Sample Identify(nlohmann::json hparams, Rng& rng);

/// The hyperparameters of a starting point: its value for all that is searched,
/// the constants of `space` for the rest. Draws nothing. REQUIRES: the point
/// was checked against the space.
nlohmann::json HparamsOfPoint(const nlohmann::json& space,
                              const nlohmann::json& point);

/// Whether every hyperparameter of `space` has but one value.
bool IsConstant(const nlohmann::json& space);

/// Whether `value` is a map that describes one hyperparameter by its `type`.
bool HasType(const nlohmann::json& value);

}  // namespace dtrain
