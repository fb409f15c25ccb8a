#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/store/store.h"

namespace dtrain {

/// The results that `evaluate --record` stored, as JSON and as lines of text.
nlohmann::json EvaluationsJson(const std::vector<EvaluationRow>& rows);
void PrintEvaluations(const std::vector<EvaluationRow>& rows);

/// Prints what is recorded of trial `number` of `experiment`, and where its
/// time went if it was profiled.
void DescribeTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number, bool as_json,
                   const GlobalOptions& globals);

}  // namespace dtrain
