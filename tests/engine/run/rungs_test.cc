#include "engine/run/rungs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

SearcherConfig Adaptive() {
  // Brackets of three, two and one rung: 100 300 900, 300 900, 900.
  return {.name = "adaptive_asha",
          .metric = "loss",
          .max_length = 900,
          .max_trials = 20,
          .divisor = 3,
          .mode = "conservative",
          .max_rungs = 3};
}

TEST(RungsTest, CountsTrialsOverAllBrackets) {
  Rungs rungs(Adaptive(), Unit::kBatches);
  rungs.Count(300);
  rungs.Count(300);
  TrialState trial;
  trial.operations = {900};
  trial.process = std::make_unique<ProcessState>();
  trial.process->running = true;

  const auto status = rungs.Status({{1, &trial}});

  ASSERT_THAT(status, SizeIs(3));
  EXPECT_EQ(status[0].length, (Length{100, Unit::kBatches}));
  EXPECT_EQ(status[1].done, 2);
  EXPECT_EQ(status[1].running, 0);
  EXPECT_EQ(status[2].running, 1);
}

TEST(RungsTest, SaysWhichRungOfTheTrialsOwnBracket) {
  const Rungs rungs(Adaptive(), Unit::kBatches);

  EXPECT_EQ(rungs.WhyStopped(1, 100),
            "not promoted from rung 1 of 3 (100 batches)");
  EXPECT_EQ(rungs.WhyStopped(2, 300),
            "not promoted from rung 2 of 3 (300 batches)");
  EXPECT_EQ(rungs.WhyStopped(1, 300),
            "not promoted from rung 1 of 2 (300 batches)");
}

TEST(RungsTest, SaysWhereATrialWasStopped) {
  SearcherConfig config = Adaptive();
  config.stop_once = true;
  config.max_length = 9;
  const Rungs rungs(config, Unit::kEpochs);

  EXPECT_EQ(rungs.WhyStopped(1, 1), "stopped at rung 1 of 3 (1 epoch)");
}

TEST(RungsTest, HasNoneWhereAllTrialsTrainToOneLength) {
  Rungs rungs({.name = "random", .max_length = 10, .max_trials = 3},
              Unit::kEpochs);
  rungs.Count(10);

  EXPECT_THAT(rungs.Status({}), IsEmpty());
  EXPECT_EQ(rungs.WhyStopped(0, 0), "stopped by the searcher");
}

}  // namespace
}  // namespace dtrain
