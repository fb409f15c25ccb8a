#include "engine/run/checkpoint_keeper.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using Rows = CheckpointKeeper::Rows;

CheckpointRow Row(std::int64_t trial, std::int64_t batches,
                  std::optional<double> metric) {
  return {.uuid = std::to_string(trial) + "@" + std::to_string(batches),
          .trial = {1, trial},
          .batches = batches,
          .metric = metric};
}

std::vector<std::string> Uuids(const Rows& rows) {
  std::vector<std::string> uuids;
  for (const CheckpointRow& row : rows) uuids.push_back(row.uuid);
  return uuids;
}

// Compares the checkpoints of the keeper with those of the full rule.
class Comparison {
 public:
  explicit Comparison(CheckpointConfig policy)
      : policy_(policy), keeper_(policy, /*smaller_is_better=*/true) {}

  void Add(const CheckpointRow& row) {
    rows_.push_back(row);
    left_.insert(row.uuid);
    unfinished_.insert(row.trial);
    Drop(keeper_.Add(row));
  }
  void SetMetric(const CheckpointRow& row, double metric) {
    for (CheckpointRow& known : rows_) {
      if (known.uuid == row.uuid) known.metric = metric;
    }
    Drop(keeper_.SetMetric(row.trial, row.batches, metric));
  }
  void End(TrialId trial) {
    unfinished_.erase(trial);
    Drop(keeper_.End(trial));
  }
  bool IsLeft(const CheckpointRow& row) const {
    return left_.contains(row.uuid);
  }
  void Check() {
    std::ranges::stable_sort(rows_, {}, &CheckpointRow::trial);
    EXPECT_EQ(left_, CheckpointsToKeep(policy_, /*smaller_is_better=*/true,
                                       rows_, unfinished_));
  }

  const std::set<std::string>& left() const { return left_; }

 private:
  void Drop(const Rows& rows) {
    for (const CheckpointRow& row : rows) EXPECT_EQ(left_.erase(row.uuid), 1u);
  }

  CheckpointConfig policy_;
  CheckpointKeeper keeper_;
  Rows rows_;
  std::set<std::string> left_;
  std::set<TrialId> unfinished_;
};

// Some hundred changes at random, of eight trials that begin and end; many
// metrics are equal, some are missing and come later, some are NaN.
void CompareAtRandom(const CheckpointConfig& policy, unsigned seed) {
  std::mt19937 random(seed);
  Comparison comparison(policy);
  std::map<std::int64_t, std::int64_t> running;  // batches by trial
  std::int64_t trials = 0;
  for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
    if (running.size() < 8) running[++trials] = 0;
    auto trial = running.begin();
    std::advance(trial, random() % running.size());
    auto row = Row(trial->first, trial->second += 10, std::nullopt);
    const double metric = random() % 10 == 0
                              ? std::numeric_limits<double>::quiet_NaN()
                              : static_cast<double>(random() % 20);
    const bool measured_later = random() % 4 == 0;
    if (!measured_later) row.metric = metric;
    comparison.Add(row);
    if (measured_later && comparison.IsLeft(row)) {
      comparison.SetMetric(row, metric);
    }
    if (random() % 6 == 0) {
      comparison.End(row.trial);
      running.erase(trial);
    }
    comparison.Check();
  }
}

class RecordedKeeperTest : public testing::TestWithParam<int> {};

TEST_P(RecordedKeeperTest, KeepsTheRecordedCheckpoints) {
  std::ifstream file(std::string(DTRAIN_GOLDEN_DIR) + "/checkpoint_gc.json");
  const json golden = json::parse(file);
  const json& given = golden.at("cases").at(GetParam());
  Comparison comparison(
      {.save_experiment_best = given.at("save_experiment_best"),
       .save_trial_best = given.at("save_trial_best"),
       .save_trial_latest = given.at("save_trial_latest")});
  std::set<std::string> expected;
  for (const json& row : golden.at("checkpoints")) {
    const json& metric = row.at("metric");
    CheckpointRow made =
        Row(row.at("trial"), row.at("checkpoint"),
            metric.is_null() ? std::nullopt : std::optional<double>(metric));
    const auto& kept = given.at("kept");
    if (std::ranges::count(kept, row.at("checkpoint")) > 0) {
      expected.insert(made.uuid);
    }
    comparison.Add(made);
  }
  comparison.End({1, 1});
  comparison.End({1, 2});

  EXPECT_EQ(comparison.left(), expected);
}

INSTANTIATE_TEST_SUITE_P(All, RecordedKeeperTest, testing::Range(0, 11));

TEST(CheckpointKeeperTest, AgreesWithTheFullRule) {
  CompareAtRandom({.save_experiment_best = 0}, 1);
  CompareAtRandom({.save_experiment_best = 1}, 2);
  CompareAtRandom(
      {.save_experiment_best = 5, .save_trial_best = 0, .save_trial_latest = 0},
      3);
  CompareAtRandom(
      {.save_experiment_best = 3, .save_trial_best = 2, .save_trial_latest = 2},
      4);
  CompareAtRandom({.policy = "none"}, 5);
  CompareAtRandom({.policy = "all"}, 6);
}

TEST(CheckpointKeeperTest, KeepsTheLatestUntilTheTrialEnds) {
  CheckpointKeeper keeper({.policy = "none"}, true);
  EXPECT_THAT(keeper.Add(Row(1, 10, 0.5)), IsEmpty());

  EXPECT_THAT(Uuids(keeper.Add(Row(1, 20, 0.5))), ElementsAre("1@10"));
  EXPECT_EQ(keeper.Latest({1, 1})->uuid, "1@20");
  EXPECT_THAT(Uuids(keeper.End({1, 1})), ElementsAre("1@20"));
  EXPECT_EQ(keeper.Latest({1, 1}), nullptr);
}

TEST(CheckpointKeeperTest, IgnoresARepeatedReport) {
  CheckpointKeeper keeper({.save_trial_best = 5}, true);
  (void)keeper.Add(Row(1, 10, 0.5));
  (void)keeper.Add(Row(1, 20, 0.4));

  EXPECT_THAT(keeper.Add(Row(1, 10, std::nullopt)), IsEmpty());
  EXPECT_EQ(keeper.Latest({1, 1})->uuid, "1@20");
}

TEST(CheckpointKeeperTest, DropsARepeatedOldCheckpoint) {
  CheckpointKeeper keeper({}, true);
  (void)keeper.Add(Row(1, 20, 0.4));

  // It was deleted before the trial resumed from a later one.
  EXPECT_THAT(Uuids(keeper.Add(Row(1, 10, std::nullopt))), ElementsAre("1@10"));
  EXPECT_EQ(keeper.Latest({1, 1})->uuid, "1@20");
}

TEST(CheckpointKeeperTest, DropsTheBestOfAnEndedTrialWhenItIsBeaten) {
  CheckpointKeeper keeper(
      {.save_experiment_best = 1, .save_trial_best = 0, .save_trial_latest = 0},
      true);
  (void)keeper.Add(Row(1, 10, 0.5));
  EXPECT_THAT(keeper.End({1, 1}), IsEmpty());

  EXPECT_THAT(Uuids(keeper.Add(Row(2, 10, 0.4))), ElementsAre("1@10"));
}

TEST(CheckpointKeeperTest, ForgetsUnneededCheckpoints) {
  CheckpointKeeper keeper({.policy = "best",
                           .save_experiment_best = 1,
                           .save_trial_best = 1,
                           .save_trial_latest = 1},
                          /*smaller_is_better=*/true);
  EXPECT_THAT(keeper.Add(Row(1, 10, 0.1)), IsEmpty());
  EXPECT_THAT(keeper.Add(Row(1, 20, 0.2)), IsEmpty());

  keeper.Forget({1, 1}, "1@20");
  EXPECT_EQ(keeper.Latest({1, 1})->uuid, "1@10");
  keeper.Forget({1, 1}, "1@10");
  EXPECT_EQ(keeper.Latest({1, 1}), nullptr);

  // The place among the best is free again.
  EXPECT_THAT(keeper.Add(Row(2, 10, 0.5)), IsEmpty());
  EXPECT_THAT(keeper.End({1, 2}), IsEmpty());
}

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

TEST(CheckpointPolicyTest, NanIsNeverTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();

  EXPECT_THAT(CheckpointsToKeep({.save_trial_best = 1, .save_trial_latest = 0},
                                true, {Row(1, "a", nan), Row(1, "b", 0.2)}, {}),
              UnorderedElementsAre("b"));
}

TEST(CheckpointPolicyTest, KeepsEverythingOnRequest) {
  EXPECT_THAT(CheckpointsToKeep({.policy = "all"}, true,
                                {Row(1, "a", 0.1), Row(1, "b", 0.2)}, {}),
              UnorderedElementsAre("a", "b"));
}

}  // namespace

}  // namespace dtrain
