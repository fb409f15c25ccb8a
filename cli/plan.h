#pragma once

#include "engine/config/experiment_config.h"
#include "engine/slots/slots.h"

namespace dtrain {

/// What `create --dry-run` says on stdout: the experiment as it would run.
void PrintPlan(const ExperimentConfig& config, const SlotPlan& slots,
               bool json);

}  // namespace dtrain
