#include "engine/config/value_reader.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class BadSpecialTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadSpecialTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Values, BadSpecialTest,
    testing::Values(
        BadConfig{"NegativePeriod", kValid + "min_validation_period: -1\n", 3,
                  24, "min_validation_period", "at least 0"},
        BadConfig{"PeriodUnit", kValid + "min_checkpoint_period: {steps: 5}\n",
                  3, 25, "min_checkpoint_period.steps", "unknown key"},
        BadConfig{"DurationSuffix", kValid + "time_limit: 5w\n", 3, 13,
                  "time_limit", "ms, s, m, h or d"},
        BadConfig{"ZeroDuration", kValid + "hang_timeout: 0\n", 3, 15,
                  "hang_timeout", "above 0"},
        BadConfig{"InfiniteDuration", kValid + "hang_timeout: .inf\n", 3, 15,
                  "hang_timeout", "above 0"},
        BadConfig{"NegativeDuration", kValid + "time_limit: -5m\n", 3, 13,
                  "time_limit", "above 0"},
        BadConfig{"DurationList", kValid + "time_limit: [5]\n", 3, 13,
                  "time_limit", "a list"},
        BadConfig{"ZeroCpus", kValid + "resources: {slots: cpu:0}\n", 3, 20,
                  "resources.slots", "cpu:N"},
        BadConfig{"UnknownSlots", kValid + "resources: {slots: gpu}\n", 3, 20,
                  "resources.slots", "most_free"},
        BadConfig{"NegativeGpu", kValid + "resources: {slots: -1}\n", 3, 20,
                  "resources.slots", "from 0 to 1024"},
        BadConfig{"TwiceTheSameGpu", kValid + "resources: {slots: [1, 1]}\n", 3,
                  24, "resources.slots[1]", "twice"},
        BadConfig{"NoGpu", kValid + "resources: {slots: []}\n", 3, 20,
                  "resources.slots", "is empty"},
        BadConfig{"NoSlotsOnGpus",
                  kValid + "resources: {slots_per_trial: 0, slots: gpu:2}\n", 3,
                  40, "resources.slots", "a trial has none"},
        BadConfig{"FewerGpusThanATrialTakes",
                  kValid + "resources: {slots_per_trial: 3, slots: gpu:2}\n", 3,
                  40, "resources.slots", "fewer than slots_per_trial (3)"},
        BadConfig{"ZeroGpus", kValid + "resources: {slots: gpu:0}\n", 3, 20,
                  "resources.slots", "gpu:N"},
        BadConfig{"OddFraction", kValid + "resources: {slots_per_trial: 0.3}\n",
                  3, 30, "resources.slots_per_trial", "0.25, 0.5, 0.75"},
        BadConfig{"NegativeShare",
                  kValid + "resources: {slots_per_trial: -0.25}\n", 3, 30,
                  "resources.slots_per_trial", "0.25, 0.5, 0.75"},
        BadConfig{"NegativeSlots",
                  kValid + "resources: {slots_per_trial: -1}\n", 3, 30,
                  "resources.slots_per_trial", "from 0 to 1024"},
        BadConfig{"ShareInQuotes",
                  kValid + "resources: {slots_per_trial: '0.5'}\n", 3, 30,
                  "resources.slots_per_trial", "0.25, 0.5, 0.75"},
        BadConfig{"ShareAtMost", kValid + "resources: {max_slots: 0.5}\n", 3,
                  24, "resources.max_slots", "integer"},
        BadConfig{"SlotAndAHalf",
                  kValid + "resources: {slots_per_trial: 1.5}\n", 3, 30,
                  "resources.slots_per_trial", "0.25"},
        BadConfig{"PortTooLarge", kValid + "resources: {listen: 65536}\n", 3,
                  21, "resources.listen", "from 0 to 65535"},
        BadConfig{"NegativePort", kValid + "resources: {listen: -1}\n", 3, 21,
                  "resources.listen", "from 0 to 65535"},
        BadConfig{"PortOfSixDigits",
                  kValid + "resources: {listen: 'a:100000'}\n", 3, 21,
                  "resources.listen", "from 0 to 65535"},
        BadConfig{"PortOfAHostTooLarge",
                  kValid + "resources: {listen: 'a:65536'}\n", 3, 21,
                  "resources.listen", "HOST:PORT"},
        BadConfig{"NegativePortOfAHost",
                  kValid + "resources: {listen: 'a:-1'}\n", 3, 21,
                  "resources.listen", "HOST:PORT"},
        BadConfig{"NoPort", kValid + "resources: {listen: 'a:'}\n", 3, 21,
                  "resources.listen", "HOST:PORT"},
        BadConfig{"NoHost", kValid + "resources: {listen: ':7'}\n", 3, 21,
                  "resources.listen", "HOST:PORT"},
        BadConfig{"TextAfterThePort", kValid + "resources: {listen: 'a:7x'}\n",
                  3, 21, "resources.listen", "HOST:PORT"},
        BadConfig{"HostOfTwoParts", kValid + "resources: {listen: 'a:b:7'}\n",
                  3, 21, "resources.listen", "HOST:PORT"},
        BadConfig{"HostOfTwoWords", kValid + "resources: {listen: 'a b:7'}\n",
                  3, 21, "resources.listen", "HOST:PORT"},
        BadConfig{"BudgetWithoutAUnit",
                  kSearcher + "  name: bayesian\n  max_length: 4\n"
                              "  budget: '90'\n  max_trials: 9\n",
                  6, 11, "searcher.budget", "a number with s, m, h or d"},
        BadConfig{"BudgetOfAnUnknownUnit",
                  kSearcher + "  name: bayesian\n  max_length: 4\n"
                              "  budget: 5w\n  max_trials: 9\n",
                  6, 11, "searcher.budget", "a number with s, m, h or d"},
        BadConfig{"BudgetOfNoTime",
                  kSearcher + "  name: bayesian\n  max_length: 4\n"
                              "  budget: 0s\n  max_trials: 9\n",
                  6, 11, "searcher.budget", "a number with s, m, h or d"},
        BadConfig{"TrialId",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  source_trial_id: 7\n",
                  6, 20, "searcher.source_trial_id", "such as 3.7"},
        BadConfig{"Uuid",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  source_checkpoint_uuid: ../x\n",
                  6, 27, "searcher.source_checkpoint_uuid", "UUID"},
        BadConfig{"ShortUuid",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  source_checkpoint_uuid: abc\n",
                  6, 27, "searcher.source_checkpoint_uuid", "at least 4"},
        BadConfig{"LossScale", kValid + "optimizations: {loss_scale: 0}\n", 3,
                  29, "optimizations.loss_scale", "dynamic"}),
    CaseName);

class SpecialValuesTest : public testing::Test {
 protected:
  ExperimentConfig Read(const std::string& added) {
    return ReadConfig(kValid + added, {}).config.value();
  }
};

TEST_F(SpecialValuesTest, ReadsPeriods) {
  const ExperimentConfig config =
      Read("min_validation_period: 50\nmin_checkpoint_period: {epochs: 2}\n");

  EXPECT_EQ(config.training.min_validation_period, (Length{50}));
  EXPECT_EQ(config.training.min_checkpoint_period, (Length{2, Unit::kEpochs}));
}

TEST_F(SpecialValuesTest, ReadsAddressesToListenAt) {
  struct Row {
    std::string text;
    std::string host;
    int port;
  };
  const Row rows[] = {{"0", "", 0},
                      {"65535", "", 65535},
                      {"a:0", "a", 0},
                      {"'n1.example:65535'", "n1.example", 65535},
                      {"'[::1]:29600'", "::1", 29600}};
  for (const auto& [text, host, port] : rows) {
    const auto listen =
        Read("resources: {listen: " + text + "}\n").resources.listen;
    ASSERT_TRUE(listen) << text;
    EXPECT_EQ(listen->host, host) << text;
    EXPECT_EQ(listen->port, port) << text;
  }
}

TEST_F(SpecialValuesTest, ReadsEachUnitOfADuration) {
  const std::pair<const char*, double> rows[] = {
      {"90", 90},     {"90s", 90},     {"250ms", 0.25}, {"2m", 120},
      {"1.5h", 5400}, {"2d", 172'800}, {"'7'", 7}};
  for (const auto& [text, seconds] : rows) {
    const ExperimentConfig config = Read(std::string("time_limit: ") + text +
                                         "\nhang_timeout: " + text + "\n");
    EXPECT_EQ(config.time_limit, seconds) << text;
    EXPECT_EQ(config.hang_timeout, seconds) << text;
  }
}

TEST_F(SpecialValuesTest, PassesTheCheckpointPolicyToTrials) {
  EXPECT_EQ(Read("").training.checkpoint_policy, "best");
  EXPECT_EQ(Read("checkpoint_policy: none\n").training.checkpoint_policy,
            "none");
}

TEST_F(SpecialValuesTest, ReadsDurations) {
  const ExperimentConfig config =
      Read("time_limit: 1.5h\nhang_timeout: 250ms\n");

  EXPECT_EQ(config.time_limit, 5400);
  EXPECT_EQ(config.hang_timeout, 0.25);
}

TEST_F(SpecialValuesTest, ReadsSlots) {
  EXPECT_EQ(Read("").resources.slots.kind, SlotChoice::Kind::kAuto);
  EXPECT_EQ(Read("resources: {slots: none}\n").resources.slots.kind,
            SlotChoice::Kind::kNone);
  EXPECT_EQ(Read("resources: {slots: most_free}\n").resources.slots.kind,
            SlotChoice::Kind::kMaxFree);
}

TEST_F(SpecialValuesTest, ReadsCpuSlots) {
  const SlotChoice any = Read("resources: {slots: cpu}\n").resources.slots;
  const SlotChoice four = Read("resources: {slots: cpu:4}\n").resources.slots;

  EXPECT_EQ(any.kind, SlotChoice::Kind::kCpu);
  EXPECT_EQ(any.cpu_slots, 0);
  EXPECT_EQ(four.kind, SlotChoice::Kind::kCpu);
  EXPECT_EQ(four.cpu_slots, 4);
}

TEST_F(SpecialValuesTest, ReadsGpus) {
  const SlotChoice one = Read("resources: {slots: 3}\n").resources.slots;
  const SlotChoice two = Read("resources: {slots: [2, 0]}\n").resources.slots;

  EXPECT_EQ(one.kind, SlotChoice::Kind::kIds);
  EXPECT_EQ(one.gpus, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(two.gpus, (std::vector<std::int64_t>{2, 0}));
}

TEST_F(SpecialValuesTest, ReadsSlotsPerTrial) {
  EXPECT_EQ(
      Read("resources: {slots_per_trial: 0.5}\n").resources.slots_per_trial,
      0.5);
  EXPECT_EQ(
      Read("resources: {slots_per_trial: 4.0}\n").resources.slots_per_trial, 4);
  EXPECT_TRUE(Read("resources: {slots_per_trial: all}\n").resources.all_slots);
}

// Determined's form: a trial without GPUs.
TEST_F(SpecialValuesTest, RunsTrialsOfNoSlotsOnCpus) {
  const ExperimentConfig config = Read("resources: {slots_per_trial: 0}\n");

  EXPECT_EQ(config.resources.slots_per_trial, 1);
  EXPECT_EQ(config.resources.slots.kind, SlotChoice::Kind::kNone);
  EXPECT_EQ(config.effective["resources"]["slots"], "none");
  EXPECT_EQ(config.effective["resources"]["slots_per_trial"], 1);
}

TEST_F(SpecialValuesTest, KeepsTheCpuSlotsOfTrialsOfNoSlots) {
  const auto slots =
      Read("resources: {slots_per_trial: 0, slots: cpu:2}\n").resources.slots;

  EXPECT_EQ(slots.kind, SlotChoice::Kind::kCpu);
  EXPECT_EQ(slots.cpu_slots, 2);
}

TEST_F(SpecialValuesTest, ReadsANumberOfGpus) {
  const SlotChoice four = Read("resources: {slots: gpu:4}\n").resources.slots;

  EXPECT_EQ(four.kind, SlotChoice::Kind::kGpu);
  EXPECT_EQ(four.gpu_slots, 4);
}

TEST_F(SpecialValuesTest, TakesIdsThatLookLikeNumbersAsTheyAreWritten) {
  const auto result = ReadConfig(kSearcher +
                                     "  name: single\n  max_length: 1\n"
                                     "  source_checkpoint_uuid: 1e40\n",
                                 {});

  EXPECT_EQ(result.config->source_checkpoint_uuid, "1e40");
}

}  // namespace

}  // namespace dtrain
