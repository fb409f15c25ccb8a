#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "engine/run/reporter.h"

namespace dtrain {

/// What a summary says beside the result.
struct SummaryContext {
  std::string metric;
  nlohmann::json hyperparameters;  // of the configuration: what was searched
  std::string command;             // "dtrain" or "dtrain --store DIR"
};

/// How a run ended, for people: the best trial with its metric, searched
/// hyperparameters and checkpoint, how to look at it. Escaped lines.
std::string SummaryText(const RunResult& result, const SummaryContext& context);

}  // namespace dtrain
