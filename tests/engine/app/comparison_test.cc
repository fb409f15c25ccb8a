// Comparisons in the sample store, whose experiment 4 maximizes `accuracy`.

#include "engine/app/comparison.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/trial_selection.h"
#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class ComparisonTest : public testing::Test {
 protected:
  ComparisonTest() {
    FillSampleStore(layout_.root());
    AddAccuracySearch(layout_.root());
  }

  TargetComparison Compare(const std::vector<Target>& targets,
                           const std::vector<std::string>& metrics = {}) const {
    return CompareTargets(Store::OpenForReading(layout_), targets,
                          /*baseline=*/0, metrics, TrialSelection());
  }

  // The values of a row; none if there is no such row.
  static std::vector<ComparedValue> Row(const TargetComparison& comparison,
                                        const std::string& section,
                                        const std::string& name) {
    for (const ComparedRow& row : comparison.rows) {
      if (row.section == section && row.name == name) return row.values;
    }
    return {};
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(ComparisonTest, KnowsWhichWayIsBetter) {
  const TargetComparison comparison = Compare({{4, 2}, {4, 1}});
  const auto accuracy = Row(comparison, "metrics", "accuracy");
  ASSERT_EQ(accuracy.size(), 2u);
  EXPECT_FALSE(accuracy[0].difference.has_value());
  EXPECT_EQ(accuracy[1].value, 0.5);
  EXPECT_DOUBLE_EQ(accuracy[1].difference.value(), -0.4);
  EXPECT_NEAR(accuracy[1].percent.value(), -44.444, 0.001);
  EXPECT_EQ(accuracy[1].better, false);
  // Nobody knows the direction of `speed`.
  const auto speed = Row(comparison, "metrics", "speed");
  ASSERT_EQ(speed.size(), 2u);
  EXPECT_EQ(speed[1].difference, -1000);
  EXPECT_FALSE(speed[1].better.has_value());
}

TEST_F(ComparisonTest, PercentIsOfTheSizeOfTheBaseline) {
  struct Change {
    double from, to;
    std::optional<double> percent;
    std::optional<bool> better;
  };
  const std::vector<Change> rows = {{2, 3, 50, true},   {2, 1, -50, false},
                                    {-2, -1, 50, true}, {-2, -3, -50, false},
                                    {-2, 1, 150, true}, {2, 2, 0, {}},
                                    {0, 1, {}, true}};
  for (const auto& [from, to, percent, better] : rows) {
    std::vector<Target> targets;
    Store store = Store::OpenForWriting(layout_);
    for (const double value : {from, to}) {
      store.Write([&](StoreWriter& w) {
        const std::int64_t id =
            w.AddExperiment({.name = "signs",
                             .searcher = "single",
                             .metric = "accuracy",
                             .smaller_is_better = false,
                             .config = store.Experiment(4)->config});
        w.AddTrial({.id = {id, 1}, .request_id = "r"});
        w.AddMetrics({id, 1}, MetricKind::kValidation, 60, 1,
                     {{"accuracy", value}}, Timestamp(4'000'000));
        w.AddValidation({id, 1}, value, 60, false);
        targets.push_back({id, 1});
      });
    }
    const auto values = Row(Compare(targets), "metrics", "accuracy");
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(values[1].difference, to - from) << from << " to " << to;
    EXPECT_EQ(values[1].percent, percent) << from << " to " << to;
    EXPECT_EQ(values[1].better, better) << from << " to " << to;
  }
}

TEST_F(ComparisonTest, StandsForAnExperimentByItsBestTrial) {
  const TargetComparison comparison = Compare({{1, {}}, {4, {}}});
  EXPECT_EQ(comparison.targets[0].trial, "1.2");
  EXPECT_EQ(comparison.targets[0].trials, 2u);
  EXPECT_EQ(comparison.targets[1].trial, "4.2");
  EXPECT_EQ(comparison.targets[1].trials, 3u);
  EXPECT_EQ(Row(comparison, "hyperparameters", "lr")[0].value, 0.25);
  EXPECT_EQ(Row(comparison, "metrics", "accuracy")[1].value, 0.9);
  EXPECT_EQ(Row(comparison, "trials", "all")[0].value, 2);
  EXPECT_EQ(Row(comparison, "trials", "all")[1].value, 3);
  EXPECT_EQ(Row(comparison, "trials", "ERROR")[1].value, nullptr);
  EXPECT_THAT(comparison.warnings,
              ElementsAre(HasSubstr("4 was searched for accuracy (largest), "
                                    "the baseline for loss (smallest)")));
  EXPECT_EQ(Compare({{2, {}}, {4, 1}}).targets[0].trial, "");
}

TEST_F(ComparisonTest, ComparesSearchesAtEqualBudgets) {
  // The same search again, with half the batches and a worse result.
  Store store = Store::OpenForWriting(layout_);
  const json config = store.Experiment(4)->config;
  store.Write([&](StoreWriter& w) {
    const std::int64_t id = w.AddExperiment({.name = "half",
                                             .searcher = "random",
                                             .metric = "accuracy",
                                             .smaller_is_better = false,
                                             .config = config});
    for (std::int64_t number = 1; number <= 2; ++number) {
      const TrialId trial{id, number};
      w.AddTrial({.id = trial, .request_id = "r"});
      w.AddMetrics(trial, MetricKind::kValidation, 60, 1, {{"accuracy", 0.2}},
                   Timestamp(4'000'000 + number));
      w.AddValidation(trial, 0.2, 60, false);
    }
  });
  const TargetComparison comparison = Compare({{4, {}}, {5, {}}});
  // Of 120 batches, 50 of the first trial of experiment 4 were over at 60.
  const auto half = Row(comparison, "best so far", "50 % (60 batches)");
  ASSERT_EQ(half.size(), 2u);
  EXPECT_EQ(half[0].value, 0.5);
  EXPECT_EQ(half[1].value, 0.2);
  EXPECT_EQ(half[1].better, false);
  EXPECT_EQ(Row(comparison, "best so far", "100 % (120 batches)")[0].value,
            0.9);
}

TEST_F(ComparisonTest, RefusesAMetricThatNoneOfThemHas) {
  try {
    Compare({{1, {}}, {2, {}}}, {"f1"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("none of them has 'f1'"));
  }
}

TEST_F(ComparisonTest, GroupsTrialsByAHyperparameter) {
  const Store store = Store::OpenForReading(layout_);
  const MetricGoal goal = {.metric = "accuracy", .smaller_is_better = false};
  const auto found =
      GroupTrials(store, {{4, {}}}, "lr", goal,
                  ValuePlace{.kind = ValuePlace::Kind::kBest}, {});
  EXPECT_EQ(found.trials, 3u);
  const auto& groups = found.groups;
  ASSERT_EQ(groups.size(), 1u);
  const TrialGroup& group = groups[0];  // of 0.5, 0.9 and 0.6
  EXPECT_EQ(group.value, 0.5);
  EXPECT_EQ(group.trials, 3u);
  EXPECT_NEAR(group.mean, 2.0 / 3, 1e-12);
  EXPECT_NEAR(group.deviation, 0.2081665999, 1e-9);
  EXPECT_EQ(group.median, 0.6);
  EXPECT_EQ(group.best, 0.9);
  EXPECT_THROW(GroupTrials(store, {{4, {}}}, "no", goal, {}, {}), Error);
}

TEST_F(ComparisonTest, GroupsTrialsAtOneLength) {
  const Store store = Store::OpenForReading(layout_);
  const MetricGoal goal = {.metric = "accuracy", .smaller_is_better = false};
  const auto found = GroupTrials(store, {{4, {}}}, "lr", goal, {}, {});
  EXPECT_EQ(found.values.place.kind, ValuePlace::Kind::kLength);
  EXPECT_EQ(found.trials, found.values.values.size());
  EXPECT_EQ(found.trials + found.left_out, 3u);
  EXPECT_EQ(found.groups.at(0).trials, found.trials);
}

}  // namespace
}  // namespace dtrain
