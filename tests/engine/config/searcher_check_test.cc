#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class BadSearcherTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadSearcherTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Keys, BadSearcherTest,
    testing::Values(
        BadConfig{"MisspeltKey",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  max_lenght: 1\n",
                  6, 3, "searcher.max_lenght", "did you mean 'max_length'?"},
        BadConfig{"UnknownName",
                  kSearcher + "  name: singel\n  max_length: 1\n", 4, 9,
                  "searcher.name", "did you mean 'single'?"},
        BadConfig{"Adaptive", kSearcher + "  name: adaptive\n  max_length: 1\n",
                  4, 9, "searcher.name", "use 'adaptive_asha' in its place"},
        BadConfig{"AdaptiveSimple",
                  kSearcher + "  name: adaptive_simple\n  max_length: 1\n", 4,
                  9, "searcher.name", "use 'adaptive_asha' in its place"},
        BadConfig{"SyncHalving",
                  kSearcher + "  name: sync_halving\n  max_length: 1\n", 4, 9,
                  "searcher.name", "use 'async_halving' in its place"},
        BadConfig{"EmptyMetric",
                  "entrypoint: a:B\n"
                  "searcher: {name: single, metric: '', max_length: 1}\n",
                  2, 34, "searcher.metric", "is empty"},
        BadConfig{"NoMetric",
                  "entrypoint: a:B\nsearcher: {name: single, max_length: 1}\n",
                  2, 11, "searcher.metric", "required but missing"},
        BadConfig{"NoName", kSearcher + "  max_length: 1\n", 2, 1,
                  "searcher.name", "required but missing"},
        BadConfig{"NoMaxTrials",
                  kSearcher + "  name: random\n  max_length: 1\n", 2, 1,
                  "searcher.max_trials", "required but missing"},
        BadConfig{"KeyOfAnother",
                  kSearcher + "  name: single\n  max_length: 1\n  mode: x\n", 6,
                  3, "searcher.mode",
                  "belongs to the searcher adaptive_asha, not to single"},
        BadConfig{"RungsOfAnother",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  num_rungs: 3\n",
                  7, 3, "searcher.num_rungs", "async_halving"},
        BadConfig{"DivisorOne",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  divisor: 1\n",
                  7, 12, "searcher.divisor", "above 1"},
        BadConfig{"DivisorNan",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  divisor: .nan\n",
                  7, 12, "searcher.divisor", "above 1"},
        BadConfig{"DivisorInfinite",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  divisor: .inf\n",
                  7, 12, "searcher.divisor", "above 1"},
        BadConfig{"DivisorZero",
                  kSearcher + "  name: asha\n  max_length: 1\n"
                              "  max_trials: 1\n  num_rungs: 1\n  divisor: 0\n",
                  8, 12, "searcher.divisor", "above 1"},
        BadConfig{"DivisorAsText",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  divisor: '4'\n",
                  7, 12, "searcher.divisor", "remove the quotes"},
        BadConfig{"UnknownMode",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  mode: agressive\n",
                  7, 9, "searcher.mode", "did you mean 'aggressive'?"},
        BadConfig{"ZeroRungs",
                  kSearcher + "  name: asha\n  max_length: 1\n"
                              "  max_trials: 1\n  num_rungs: 0\n",
                  7, 14, "searcher.num_rungs", "from 1 to 64"},
        BadConfig{"HalvingKeyOfRandom",
                  kSearcher + "  name: random\n  max_length: 1\n"
                              "  max_trials: 1\n  divisor: 3\n",
                  7, 3, "searcher.divisor",
                  "belongs to the searcher async_halving, adaptive_asha, not "
                  "to random"},
        BadConfig{"PointsOfSingle",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  points: [{a: 1}]\n",
                  6, 3, "searcher.points", "not to single"},
        BadConfig{"PointsOfGrid",
                  kSearcher + "  name: grid\n  max_length: 1\n"
                              "  points: [{a: 1}]\n",
                  6, 3, "searcher.points", "not to grid"},
        BadConfig{"ZeroTrials",
                  kSearcher + "  name: random\n  max_length: 1\n"
                              "  max_trials: 0\n",
                  6, 15, "searcher.max_trials", "from 1 to 1000000"},
        BadConfig{"NegativeConcurrency",
                  kSearcher + "  name: grid\n  max_length: 1\n"
                              "  max_concurrent_trials: -1\n",
                  6, 26, "searcher.max_concurrent_trials", "from 0"},
        BadConfig{"BracketRungs",
                  kSearcher + "  name: adaptive_asha\n  max_length: 1\n"
                              "  max_trials: 1\n  bracket_rungs: [3, 0]\n",
                  7, 22, "searcher.bracket_rungs[1]", "from 1 to 64"},
        BadConfig{"StopsOfAnother",
                  kSearcher + "  name: grid\n  max_length: 9\n"
                              "  stops: [3]\n",
                  6, 3, "searcher.stops", "not to grid"},
        BadConfig{"StopsThatShrink",
                  kSearcher + "  name: single\n  max_length: 9\n"
                              "  stops: [3, 3]\n",
                  6, 10, "searcher.stops", "got 3 before 3"},
        BadConfig{"StopAtTheEnd",
                  kSearcher + "  name: single\n  max_length: 9\n"
                              "  stops: [3, 9]\n",
                  6, 10, "searcher.stops", "got 9 before 9"},
        BadConfig{"StopAtNothing",
                  kSearcher + "  name: single\n  max_length: 9\n"
                              "  stops: [0]\n",
                  6, 11, "searcher.stops[0]", "at least 1"},
        BadConfig{"TrialSeedOfASearch",
                  kSearcher + "  name: grid\n  max_length: 9\n"
                              "reproducibility: {trial_seed: 3}\n",
                  6, 31, "reproducibility.trial_seed", "searcher single"},
        BadConfig{"TwoSources",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  source_trial_id: 1.1\n"
                              "  source_checkpoint_uuid: abcd\n",
                  7, 27, "searcher.source_checkpoint_uuid",
                  "goes not with source_trial_id"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Lengths, BadSearcherTest,
    testing::Values(
        BadConfig{"None", kSearcher + "  name: single\n", 2, 1,
                  "searcher.max_length", "required but missing"},
        BadConfig{"Zero", kSearcher + "  name: single\n  max_length: 0\n", 5,
                  15, "searcher.max_length", "at least 1"},
        BadConfig{"ZeroEpochs",
                  kSearcher + "  name: single\n  max_length: {epochs: 0}\n", 5,
                  24, "searcher.max_length.epochs", "at least 1"},
        BadConfig{"ZeroRecords",
                  kSearcher + "  name: single\n  max_length: {records: 0}\n", 5,
                  25, "searcher.max_length.records", "at least 1"},
        BadConfig{"Negative", kSearcher + "  name: single\n  max_length: -5\n",
                  5, 15, "searcher.max_length", "at least 1"},
        BadConfig{"Overflow",
                  kSearcher + "  name: single\n"
                              "  max_length: {epochs: 99999999999999999999}\n",
                  5, 24, "searcher.max_length.epochs", "too large"},
        BadConfig{"UnknownUnit",
                  kSearcher + "  name: single\n  max_length:\n    epoch: 1\n",
                  6, 5, "searcher.max_length.epoch", "did you mean 'epochs'?"},
        BadConfig{"TwoUnits",
                  kSearcher + "  name: single\n"
                              "  max_length: {epochs: 1, batches: 1}\n",
                  5, 15, "searcher.max_length", "exactly one"},
        BadConfig{"NoUnit", kSearcher + "  name: single\n  max_length: {}\n", 5,
                  15, "searcher.max_length", "exactly one"},
        BadConfig{"Fraction", kSearcher + "  name: single\n  max_length: 1.5\n",
                  5, 15, "searcher.max_length", "{epochs: N}"},
        BadConfig{"TextAsLength",
                  kSearcher + "  name: single\n  max_length: 3 epochs\n", 5, 15,
                  "searcher.max_length", "{epochs: N}"},
        BadConfig{"LengthAndTime",
                  kSearcher + "  name: adaptive_asha\n  max_trials: 1\n"
                              "  max_length: 1\n  max_time: 5\n"
                              "  time_metric: epochs\n",
                  7, 13, "searcher.max_time", "stands for max_length"},
        BadConfig{"TimeWithoutMetric",
                  kSearcher + "  name: adaptive_asha\n  max_trials: 1\n"
                              "  max_time: 5\n",
                  2, 1, "searcher.time_metric", "go together"},
        BadConfig{"LengthWithTimeMetric",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  time_metric: epochs\n",
                  6, 16, "searcher.time_metric", "with max_time only"},
        BadConfig{"MetricOfTheTrialAsTime",
                  kSearcher + "  name: adaptive_asha\n  max_trials: 1\n"
                              "  max_time: 5\n  time_metric: minutes\n",
                  7, 16, "searcher.time_metric",
                  "dtrain counts nothing else: give the length by max_length"},
        BadConfig{"ZeroTime",
                  kSearcher + "  name: single\n  max_time: 0\n"
                              "  time_metric: epochs\n",
                  5, 13, "searcher.max_time", "at least 1"}),
    CaseName);

class SearcherCheckTest : public testing::Test {};

TEST_F(SearcherCheckTest, WarnsOfALossThatShallGrow) {
  const std::string text = kSearcher +
                           "  name: single\n  max_length: 1\n"
                           "  smaller_is_better: false\n";

  const Diagnostics warnings = FindingsOf(text, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 6);
  EXPECT_EQ(warnings[0].key, "searcher.smaller_is_better");
  EXPECT_FALSE(ReadConfig(text, {}).config->searcher.smaller_is_better);
}

TEST_F(SearcherCheckTest, WarnsOfAnAccuracyThatShallShrink) {
  const Diagnostics warnings = FindingsOf(
      "entrypoint: a:B\nsearcher: {name: single, metric: accuracy, "
      "max_length: 1}\n",
      Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 2);
}

TEST_F(SearcherCheckTest, IsSilentAboutAnErrorThatShallShrink) {
  EXPECT_TRUE(FindingsOf("entrypoint: a:B\nsearcher: {name: single, metric: "
                         "accuracy_error, max_length: 1}\n",
                         Severity::kWarning)
                  .empty());
}

TEST_F(SearcherCheckTest, TakesTimeInPlaceOfLength) {
  const auto result = ReadConfig(kSearcher +
                                     "  name: single\n  max_time: 50\n"
                                     "  time_metric: epochs\n",
                                 {});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->searcher.max_length, 50);
  EXPECT_EQ(result.config->length_unit, Unit::kEpochs);
}

TEST_F(SearcherCheckTest, WarnsOfRungsThatTheLengthHasNoRoomFor) {
  const Diagnostics warnings = FindingsOf(
      kSearcher +
          "  name: asha\n  max_trials: 9\n  max_length: 9\n  divisor: 3\n"
          "  num_rungs: 5\n",
      Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 8);
  EXPECT_EQ(warnings[0].key, "searcher.num_rungs");
  EXPECT_THAT(warnings[0].message,
              testing::HasSubstr("5 rungs, but a length of 9 has room for 3"));
}

TEST_F(SearcherCheckTest, WarnsWhereNoTrialMayTrainToMaxLength) {
  const std::string rungs = "  max_length: 9\n  divisor: 3\n  num_rungs: 3\n";

  const Diagnostics maybe =
      FindingsOf(kSearcher + "  name: asha\n  max_trials: 6\n" + rungs,
                 Severity::kWarning);
  const Diagnostics never =
      FindingsOf(kSearcher + "  name: asha\n  max_trials: 2\n" + rungs,
                 Severity::kWarning);

  ASSERT_EQ(maybe.size(), 1u);
  EXPECT_EQ(maybe[0].key, "searcher.max_trials");
  EXPECT_THAT(maybe[0].message,
              testing::HasSubstr("it may be that no trial is chosen to train "
                                 "to max_length: 6 are few for 3 rungs; use "
                                 "at least 9"));
  ASSERT_EQ(never.size(), 1u);
  EXPECT_THAT(never[0].message, testing::HasSubstr("no trial is expected"));
}

TEST_F(SearcherCheckTest, WarnsOfABracketThatTheLengthHasNoRoomFor) {
  const Diagnostics warnings =
      FindingsOf(kSearcher +
                     "  name: adaptive_asha\n  max_trials: 9\n  max_length: 9\n"
                     "  divisor: 3\n  bracket_rungs: [1, 4, 2]\n",
                 Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].key, "searcher.bracket_rungs");
}

TEST_F(SearcherCheckTest, IsSilentAboutRungsThatFit) {
  EXPECT_TRUE(FindingsOf(kSearcher +
                             "  name: asha\n  max_trials: 9\n"
                             "  max_length: 9\n  divisor: 3\n"
                             "  num_rungs: 3\n  max_concurrent_trials: 99\n",
                         Severity::kWarning)
                  .empty());
}

}  // namespace
}  // namespace dtrain
