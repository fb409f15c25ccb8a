// The trials that --filter selects: the sample store has the trials 1.1 and 1.2
// of alpha, and 4.1 to 4.3 of delta, which alone has `speed`.

#include "engine/app/trial_selection.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointee;

class TrialSelectionTest : public testing::Test {
 protected:
  TrialSelectionTest() {
    FillSampleStore(layout_.root());
    AddAccuracySearch(layout_.root());
  }

  TrialSelection Select(const std::vector<Target>& targets,
                        const std::string& filter) const {
    return TrialSelection(Store::OpenForReading(layout_), targets, filter,
                          Timestamp(9'000'000));
  }

  std::string Refusal(const std::vector<Target>& targets,
                      const std::string& filter) const {
    try {
      Select(targets, filter);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
      return error.what();
    }
    return "";
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(TrialSelectionTest, HasAllTrialsWithoutAFilter) {
  const TrialSelection all = Select({{1, {}}}, "");
  EXPECT_FALSE(all.is_filtered());
  EXPECT_TRUE(all.Has({7, 7}));
  EXPECT_EQ(all.Numbers(1), nullptr);
  EXPECT_EQ(all.ToJson(), nullptr);
}

TEST_F(TrialSelectionTest, CountsTheTrialsThatMatch) {
  const TrialSelection some = Select({{1, {}}, {4, {}}}, "number != 2");
  EXPECT_THAT(some.Numbers(1), Pointee(ElementsAre(1)));
  EXPECT_THAT(some.Numbers(4), Pointee(ElementsAre(1, 3)));
  EXPECT_THAT(some.Numbers(3), Pointee(ElementsAre()));
  EXPECT_TRUE(some.Has({4, 3}));
  EXPECT_FALSE(some.Has({4, 2}));
  EXPECT_EQ(
      some.ToJson(),
      (json{{"expression", "number != 2"}, {"matching", 3}, {"trials", 5}}));
  EXPECT_EQ(some.Text(4), "2 of 3 trials match");
  EXPECT_THAT(some.notes(), ElementsAre("experiment 1: 1 of 2 trials matches",
                                        "experiment 4: 2 of 3 trials match",
                                        "3 of 5 trials match number != 2"));
}

TEST_F(TrialSelectionTest, TakesANameOfOneExperimentAsMissingInTheOthers) {
  const TrialSelection some =
      Select({{1, {}}, {4, {}}}, "speed > 2000 or number == 1");
  EXPECT_THAT(some.Numbers(1), Pointee(ElementsAre(1)));
  EXPECT_THAT(some.Numbers(4), Pointee(ElementsAre(1, 2, 3)));
}

TEST_F(TrialSelectionTest, CountsOnlyTrialsThatTargetsName) {
  EXPECT_EQ(Select({{4, 1}, {4, 3}}, "number > 0").ToJson()["trials"], 2);
  // The experiment has them all.
  EXPECT_EQ(Select({{4, 1}, {4, {}}}, "number > 0").ToJson()["trials"], 3);
}

TEST_F(TrialSelectionTest, RefusesAFilterThatSelectsNothing) {
  EXPECT_THAT(Refusal({{1, {}}, {3, {}}}, "speed > 1"), HasSubstr("'speed'"));
  EXPECT_THAT(Refusal({{1, {}}, {3, {}}}, "number > 9"),
              HasSubstr("--filter: 0 of 2 trials match number > 9"));
  EXPECT_THAT(Refusal({{1, {}}, {1, 2}}, "number == 1"),
              HasSubstr("trial 1.2 does not match number == 1"));
  EXPECT_THAT(Refusal({{9, {}}}, "number == 1"), HasSubstr("no experiment 9"));
}

TEST_F(TrialSelectionTest, SetsTheBestOfTheSelectedTrials) {
  const Store store = Store::OpenForReading(layout_);
  const TrialSelection some = Select({{4, {}}}, "number != 2");
  ExperimentDetail detail = FindExperimentDetail(store, 4);
  EXPECT_EQ(detail.row.best_trial, 2);
  std::vector<TrialRow> trials = ListTrials(store, detail.row);
  some.Keep(trials);
  some.SetBest(trials, detail);
  EXPECT_EQ(detail.row.best_trial, 3);
  EXPECT_EQ(detail.row.best->value, 0.6);
  some.SetBest({}, detail);
  EXPECT_EQ(detail.row.best_trial, 0);
  EXPECT_FALSE(detail.row.best.has_value());
}

}  // namespace
}  // namespace dtrain
