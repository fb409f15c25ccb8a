#include "engine/app/stores.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

CheckpointRow Saved(const std::string& uuid, std::optional<double> metric,
                    const std::string& state = "COMPLETED",
                    std::int64_t trial = 1) {
  return {.uuid = uuid,
          .trial = {1, trial},
          .state = state,
          .batches = 80,
          .metric = metric};
}

TEST(BestSavedCheckpointTest, IsTheFirstOfTheBestOnesThatAreWhole) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<CheckpointRow> rows = {
      Saved("unvalidated", {}),
      Saved("nan", nan),
      Saved("corrupt", 0.1, "CORRUPT"),
      Saved("deleted", 9, "DELETED"),
      Saved("of another", 0, "COMPLETED", 2),
      Saved("a", 0.5),
      Saved("b", 0.25),
      Saved("c", 0.25),
      Saved("d", 0.5)};
  const ExperimentRow smaller, larger{.smaller_is_better = false};
  EXPECT_EQ(BestSavedCheckpoint(rows, smaller, 1)->uuid, "b");
  EXPECT_EQ(BestSavedCheckpoint(rows, larger, 1)->uuid, "a");
  EXPECT_FALSE(BestSavedCheckpoint(rows, smaller, 3).has_value());
  EXPECT_FALSE(
      BestSavedCheckpoint({rows.begin(), rows.begin() + 5}, smaller, 1));
}

TEST(BestSavedCheckpointTest, IsNamedWhereTheBestOneIsNotKept) {
  const TrialRow trial{.id = {3, 7},
                       .best = BestValidation{.value = 0.2, .batches = 40}};
  const ExperimentRow experiment{.metric = "loss"};
  EXPECT_EQ(NoBestCheckpointText(trial, experiment, Saved("UUID", 0.3), {}),
            "trial 3.7: its best validation (loss 0.2 at batch 40) has no "
            "checkpoint; the best one with a checkpoint is UUID (0.3 at batch "
            "80)");
  EXPECT_THAT(NoBestCheckpointText(trial, experiment, {}, {}),
              HasSubstr("no other validation has one either"));
}

TEST(OnlyTrialTest, IsRefusedIfThereAreSeveralOrNone) {
  const TemporaryDirectory directory;
  FillSampleStore(directory.path() / "store");
  const Store store =
      Store::OpenForReading(StoreLayout(directory.path() / "store"));
  const auto refusal = [&](const Target& target) -> std::string {
    try {
      FindOnlyTrial(store, target);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(FindOnlyTrial(store, {1, 2}).id, (TrialId{1, 2}));
  EXPECT_THAT(refusal({1, {}}),
              HasSubstr("experiment 1 has 2 trials; give one such as 1.1"));
  EXPECT_THAT(refusal({3, {}}), HasSubstr("experiment 3 has no trials yet"));
  EXPECT_THAT(refusal({1, 9}), HasSubstr("1.9"));
  EXPECT_THAT(refusal({9, {}}), HasSubstr("no experiment 9"));
}

// Its runner has died.
TEST(ExperimentStateTest, IsInterruptedWithoutARunner) {
  const TemporaryDirectory directory;
  FillSampleStore(directory.path() / "store");
  const Store store =
      Store::OpenForReading(StoreLayout(directory.path() / "store"));
  EXPECT_EQ(FindExperiment(store, 1).state, State::kCompleted);
  EXPECT_EQ(FindExperiment(store, 2).state, State::kInterrupted);
}

}  // namespace
}  // namespace dtrain
