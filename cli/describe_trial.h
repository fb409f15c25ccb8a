#pragma once

#include <cstdint>

#include "cli/commands.h"
#include "engine/store/store.h"

namespace dtrain {

/// Prints what is recorded of trial `number` of `experiment`, and where its
/// time went if it was profiled.
void DescribeTrial(const Store& store, const ExperimentRow& experiment,
                   std::int64_t number, bool as_json,
                   const GlobalOptions& globals);

}  // namespace dtrain
