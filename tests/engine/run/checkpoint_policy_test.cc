#include "engine/run/checkpoint_policy.h"

#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

CheckpointRow Row(std::int64_t trial, const std::string& uuid,
                  std::optional<double> metric) {
  return {.uuid = uuid, .trial = {1, trial}, .metric = metric};
}

json Golden() {
  std::ifstream file(std::string(DTRAIN_GOLDEN_DIR) + "/checkpoint_gc.json");
  return json::parse(file);
}

class RecordedPolicyTest : public testing::TestWithParam<int> {};

TEST_P(RecordedPolicyTest, KeepsTheRecordedCheckpoints) {
  const json golden = Golden();
  const json& given = golden.at("cases").at(GetParam());
  std::vector<CheckpointRow> rows;
  for (const json& row : golden.at("checkpoints")) {
    const json& metric = row.at("metric");
    rows.push_back(
        Row(row.at("trial"), std::to_string(row.at("checkpoint").get<int>()),
            metric.is_null() ? std::nullopt : std::optional<double>(metric)));
  }
  std::set<std::string> expected;
  for (const int kept : given.at("kept")) expected.insert(std::to_string(kept));

  EXPECT_EQ(CheckpointsToKeep(
                {.save_experiment_best = given.at("save_experiment_best"),
                 .save_trial_best = given.at("save_trial_best"),
                 .save_trial_latest = given.at("save_trial_latest")},
                /*smaller_is_better=*/true, rows, /*unfinished=*/{}),
            expected);
}

INSTANTIATE_TEST_SUITE_P(All, RecordedPolicyTest, testing::Range(0, 11));

TEST(CheckpointPolicyTest, KeepsTheLatestOfAnUnfinishedTrial) {
  const CheckpointConfig nothing{.policy = "none"};

  EXPECT_THAT(CheckpointsToKeep(nothing, true,
                                {Row(1, "a", 0.1), Row(1, "b", 0.2)}, {{1, 1}}),
              UnorderedElementsAre("b"));
  EXPECT_THAT(CheckpointsToKeep(nothing, true, {Row(1, "a", 0.1)}, {}),
              IsEmpty());
}

TEST(CheckpointPolicyTest, NeverTakesNanForTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();

  EXPECT_THAT(CheckpointsToKeep({.save_trial_best = 1, .save_trial_latest = 0},
                                true, {Row(1, "a", nan), Row(1, "b", 0.2)}, {}),
              UnorderedElementsAre("b"));
}

TEST(CheckpointPolicyTest, KeepsEverythingWhereAskedTo) {
  EXPECT_THAT(CheckpointsToKeep({.policy = "all"}, true,
                                {Row(1, "a", 0.1), Row(1, "b", 0.2)}, {}),
              UnorderedElementsAre("a", "b"));
}

}  // namespace
}  // namespace dtrain
