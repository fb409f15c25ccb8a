#pragma once

#include <optional>

#include "engine/config/experiment_config.h"
#include "engine/context/context_list.h"
#include "engine/slots/slots.h"

namespace dtrain {

/// What `create --dry-run` says on stdout: the experiment as it would run,
/// and what of its context would be stored.
void PrintPlan(const ExperimentConfig& config, const SlotPlan& slots,
               const std::optional<ContextList>& context, bool json);

}  // namespace dtrain
