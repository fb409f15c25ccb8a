#include "engine/train/schedule_steps.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dtrain {
namespace {

struct GoldenCase {
  std::string name;
  SchedulePace pace;
  std::int64_t aggregation;
  std::int64_t batches_per_epoch;
  std::vector<std::int64_t> steps;  // in all, after each batch
};

void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name;
}

StepMode ModeOf(const std::string& name) {
  if (name == "STEP_EVERY_EPOCH") return StepMode::kEveryEpoch;
  if (name == "STEP_EVERY_BATCH") return StepMode::kEveryBatch;
  if (name == "STEP_EVERY_OPTIMIZER_STEP") return StepMode::kEveryOptimizerStep;
  return StepMode::kManual;
}

std::vector<GoldenCase> GoldenCases() {
  std::ifstream file(DTRAIN_GOLDEN_DIR "/lr_scheduler_steps.json");
  std::vector<GoldenCase> cases;
  const auto json = nlohmann::json::parse(file);
  for (const auto& entry : json.at("cases")) {
    const std::string mode = entry.at("step_mode");
    const std::int64_t frequency = entry.at("frequency");
    // Those steps are counted by TrialContext::Step, and tested there.
    if (mode == "STEP_EVERY_OPTIMIZER_STEP") continue;
    cases.push_back(
        {.name = mode + " " + entry.dump(),
         .pace = {ModeOf(mode), frequency},
         .aggregation = entry.at("aggregation_frequency"),
         .batches_per_epoch = entry.at("epoch_len"),
         .steps = entry.at("cumulative_scheduler_steps_after_batch")});
  }
  return cases;
}

class ScheduleStepsTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(ScheduleStepsTest, AreThoseThatDeterminedTakes) {
  const GoldenCase& golden = GetParam();
  std::vector<std::int64_t> steps;
  std::int64_t sum = 0;
  for (std::size_t batch = 0; batch < golden.steps.size(); ++batch) {
    sum += ScheduleSteps(golden.pace, golden.aggregation,
                         golden.batches_per_epoch, batch);
    steps.push_back(sum);
  }
  EXPECT_EQ(steps, golden.steps);
}

INSTANTIATE_TEST_SUITE_P(Golden, ScheduleStepsTest,
                         testing::ValuesIn(GoldenCases()));

}  // namespace
}  // namespace dtrain
