#pragma once

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"

namespace dtrain {

/// The configuration that `effective` says, but for environment values.
/// REQUIRES: `effective` is checked and has its defaults.
ExperimentConfig BuildConfig(nlohmann::json effective);

/// The part of it that searchers see. REQUIRES: as BuildConfig, of the
/// section `searcher`.
SearcherConfig BuildSearcher(const nlohmann::json& searcher);

}  // namespace dtrain
