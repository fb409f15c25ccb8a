#include "engine/train/schedule_steps.h"

namespace dtrain {

namespace {

// How many multiples of `frequency` are in (from, to].
std::int64_t Multiples(std::int64_t from, std::int64_t to,
                       std::int64_t frequency) {
  return to / frequency - from / frequency;
}

}  // namespace

std::int64_t ScheduleSteps(SchedulePace pace, std::int64_t aggregation,
                           std::int64_t batches_per_epoch, std::int64_t batch) {
  const std::int64_t done = batch + 1;
  if (done % aggregation != 0) return 0;
  switch (pace.mode) {
    case StepMode::kEveryBatch:
      return Multiples(done - aggregation, done, pace.frequency);
    case StepMode::kEveryEpoch:
      return Multiples(batch / batches_per_epoch,
                       (batch + aggregation) / batches_per_epoch,
                       pace.frequency);
    case StepMode::kEveryOptimizerStep:
    case StepMode::kManual:
      return 0;
  }
  return 0;
}

}  // namespace dtrain
