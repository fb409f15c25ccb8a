#pragma once

#include <cstdint>

#include "engine/train/lr_schedule.h"

namespace dtrain {

/// The pace of a schedule: `mode`, and how many of its units make one step.
struct SchedulePace {
  StepMode mode = StepMode::kEveryBatch;
  std::int64_t frequency = 1;
};

/// How many steps a schedule takes after batch `batch` (from 0). A rate only
/// changes where the optimizer steps, every `aggregation` batches; there it
/// takes the steps of all batches since, and an epoch counts as over once the
/// next optimizer step lands in a later one. As Determined counts (its
/// recorded steps are a test). None for kManual and for kEveryOptimizerStep,
/// which TrialContext::Step counts itself.
std::int64_t ScheduleSteps(SchedulePace pace, std::int64_t aggregation,
                           std::int64_t batches_per_epoch, std::int64_t batch);

}  // namespace dtrain
