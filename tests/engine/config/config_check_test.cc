#include "engine/config/config_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class BadTogetherTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadTogetherTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Keys, BadTogetherTest,
    testing::Values(
        BadConfig{"TwoPaths",
                  kValid + "checkpoint_storage:\n  path: /a\n"
                           "  host_path: /b\n",
                  5, 14, "checkpoint_storage.host_path", "remove one"},
        BadConfig{"SubdirectoryOfNothing",
                  kValid + "checkpoint_storage: {storage_path: a}\n", 3, 36,
                  "checkpoint_storage.storage_path", "use path instead"},
        BadConfig{"SubdirectoryThatLeaves",
                  kValid + "checkpoint_storage:\n  host_path: /a\n"
                           "  storage_path: b/../../c\n",
                  5, 17, "checkpoint_storage.storage_path",
                  "is outside host_path"},
        BadConfig{"SubdirectoryElsewhere",
                  kValid + "checkpoint_storage:\n  host_path: /a\n"
                           "  storage_path: /ab\n",
                  5, 17, "checkpoint_storage.storage_path",
                  "is outside host_path"},
        BadConfig{"TwoSubdirectories",
                  kValid + "checkpoint_storage:\n  path: /a\n"
                           "  storage_path: b\n  checkpoint_path: c\n",
                  6, 20, "checkpoint_storage.checkpoint_path", "remove one"},
        BadConfig{"MoreSlotsThanAtMost",
                  kValid + "resources: {slots_per_trial: 4, max_slots: 2}\n", 3,
                  44, "resources.max_slots", "no trial could run"},
        BadConfig{"FewerGpusThanSlots",
                  kValid + "resources: {slots_per_trial: 2, slots: [0]}\n", 3,
                  40, "resources.slots", "no trial could run"},
        BadConfig{"FewerGpusOfAllJobsThanSlots",
                  kValid + "resources: {executor: slurm, slots_per_trial: 24}\n"
                           "slurm: {gpus_per_node: 4, nodes: 2, max_jobs: 2}\n",
                  4, 24, "slurm.gpus_per_node",
                  "16 slots (max_jobs × nodes × gpus_per_node = 2 × 2 × 4)"},
        BadConfig{"FewerCpusOfAllJobsThanSlots",
                  kValid + "resources: {executor: slurm, slots_per_trial: 9}\n"
                           "slurm: {cpus_per_task: 1}\n",
                  4, 24, "slurm.cpus_per_task",
                  "8 slots (max_jobs × nodes × cpus_per_task = 8 × 1 × 1)"},
        BadConfig{"NormAndValue",
                  kValid + "optimizations:\n"
                           "  clip_gradients: {norm: 1, value: 1}\n",
                  4, 19, "optimizations.clip_gradients", "exactly one"},
        BadConfig{"NoClip", kValid + "optimizations: {clip_gradients: {}}\n", 3,
                  33, "optimizations.clip_gradients", "exactly one"},
        BadConfig{"ZeroNorm",
                  kValid + "optimizations: {clip_gradients: {norm: 0}}\n", 3,
                  40, "optimizations.clip_gradients.norm", "above 0"},
        BadConfig{"ScaleWithoutFp16",
                  kValid + "optimizations: {loss_scale: 128}\n", 3, 29,
                  "optimizations.loss_scale",
                  "only applies to mixed_precision: fp16"},
        BadConfig{"UpdateInBackwardWithClip",
                  kValid + "optimizations: {update_in_backward: true, "
                           "clip_gradients: {value: 1}}\n",
                  3, 37, "optimizations.update_in_backward", "turn one off"}),
    CaseName);

class ConfigCheckTest : public testing::Test {
 protected:
  ExperimentConfig Read(const std::string& added) {
    return ReadConfig(kValid + added, {}).config.value();
  }
};

TEST_F(ConfigCheckTest, TakesAShareOfAGpu) {
  const std::string shares = kValid +
                             "resources: {slots_per_trial: 0.25, max_slots: 1, "
                             "slots: [0]}\n";
  EXPECT_TRUE(ReadConfig(shares, {}).diagnostics.empty());
}

TEST_F(ConfigCheckTest, ModelMayTakeSlotsOnSeveralWorkers) {
  const std::string trial = "resources: {slots_per_trial: 4, ";
  EXPECT_THAT(ReadFindings(kValid + trial + "slots: gpu:2, listen: 0}\n",
                           Severity::kError),
              testing::IsEmpty());
  const std::string jobs =
      kValid + trial +
      "executor: slurm}\nslurm: {gpus_per_node: 2, max_jobs: 2}\n";
  EXPECT_THAT(ReadFindings(jobs, Severity::kError), testing::IsEmpty());
}

TEST_F(ConfigCheckTest, AnAllocationHasTheNodesThatItHas) {
  const std::string yaml = kValid +
                           "resources: {executor: slurm, slots_per_trial: 4}\n"
                           "slurm: {cpus_per_task: 2, max_jobs: 1}\n";
  EXPECT_FALSE(ReadConfig(yaml, {}).config);
  const auto config = ReadConfig(yaml, {.in_allocation = true}).config;
  ASSERT_TRUE(config);
  EXPECT_EQ(ConfigFromJson(config->effective).resources.slots_per_trial, 4)
      << "it can be resumed";
}

TEST_F(ConfigCheckTest, CommandTakesItsSlotsOnOneNode) {
  const std::string command =
      "entrypoint: ['true']\n"
      "searcher: {name: single, metric: loss}\n"
      "resources: {slots_per_trial: 4, executor: slurm}\n";
  const Diagnostics errors = ReadFindings(
      command + "slurm: {gpus_per_node: 2, nodes: 8}\n", Severity::kError);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].key, "slurm.gpus_per_node");
  EXPECT_THAT(errors[0].message,
              testing::HasSubstr("less than slots_per_trial (4)"));
  // The CPUs of a task that has GPUs are no slots.
  EXPECT_THAT(
      ReadFindings(command + "slurm: {gpus_per_node: 4, cpus_per_task: 1}\n",
                   Severity::kError),
      testing::IsEmpty());
}

TEST_F(ConfigCheckTest, RefusesSharesOfACpuSlot) {
  const Diagnostics cpu = ReadFindings(
      kValid + "resources: {slots_per_trial: 0.25, slots: cpu:2}\n",
      Severity::kWarning);
  ASSERT_EQ(cpu.size(), 1u);
  EXPECT_EQ(cpu[0].key, "resources.slots_per_trial");
  EXPECT_THAT(cpu[0].message, testing::HasSubstr("takes a whole one"));
  const std::string none =
      kValid + "resources: {slots_per_trial: 0.5, slots: none}\n";
  EXPECT_EQ(ReadFindings(none, Severity::kWarning).size(), 1u);
}

TEST_F(ConfigCheckTest, ReportsABatchThatRanksDoNotDivide) {
  const auto warnings = [](const std::string& size) {
    std::vector<std::string> texts;
    for (const Diagnostic& found :
         ReadFindings(kValid + "hyperparameters: {global_batch_size: " + size +
                          "}\nresources: {slots_per_trial: 3, slots: cpu:3}\n",
                      Severity::kWarning)) {
      if (found.key == "hyperparameters.global_batch_size") {
        texts.push_back(found.message);
      }
    }
    return texts;
  };
  const std::string ten =
      "10 is not a multiple of 3 ranks (resources.slots_per_trial): each rank "
      "takes "
      "3, so a batch has 9 samples";
  EXPECT_THAT(warnings("9"), testing::IsEmpty());
  EXPECT_THAT(warnings("10"), testing::ElementsAre(ten));
  EXPECT_THAT(warnings("{type: const, val: 10}"), testing::ElementsAre(ten));
  EXPECT_THAT(warnings("{type: categorical, vals: [9, 10]}"),
              testing::Contains(ten));
}

TEST_F(ConfigCheckTest, FindsOneStoragePathUnderItsManyNames) {
  EXPECT_EQ(Read("checkpoint_storage: {path: /a}\n").checkpoints.path, "/a");
  EXPECT_EQ(Read("checkpoint_storage: {type: directory, container_path: /b}\n")
                .checkpoints.path,
            "/b");
  EXPECT_EQ(Read("checkpoint_storage: {host_path: /c, storage_path: d}\n")
                .checkpoints.path,
            "/c/d");
  EXPECT_EQ(Read("checkpoint_storage: {host_path: /c, storage_path: /c/e}\n")
                .checkpoints.path,
            "/c/e");
}

TEST_F(ConfigCheckTest, TakesTheOldNameOfAStoragePath) {
  EXPECT_EQ(Read("checkpoint_storage: {host_path: /c, checkpoint_path: d}\n")
                .checkpoints.path,
            "/c/d");
  EXPECT_EQ(
      Read("checkpoint_storage: {checkpoint_path: /d}\n").checkpoints.path,
      "/d");
}

TEST_F(ConfigCheckTest, IgnoresDeprecatedPathsBesideHostPath) {
  for (const auto& [keys, directory] :
       std::vector<std::pair<std::string, std::string>>{
           {"container_path: /b", "/c"},
           {"container_path: /b, storage_path: d", "/c/d"},
           {"storage_path: d, checkpoint_path: e", "/c/d"},
           {"checkpoint_path: /elsewhere", "/c"},
           {"checkpoint_path: ../up, container_path: /b", "/c"}}) {
    const std::string text =
        kValid + "checkpoint_storage: {host_path: /c, " + keys + "}\n";
    const auto result = ReadConfig(text, {});
    ASSERT_TRUE(result.config) << keys;
    EXPECT_EQ(result.config->checkpoints.path, directory) << keys;
    EXPECT_TRUE(std::ranges::any_of(result.diagnostics, [](const Diagnostic&
                                                               found) {
      return found.message == "is ignored beside host_path, as by Determined";
    })) << keys;
  }
}

TEST_F(ConfigCheckTest, StoragePathIsRelativeToTheDirectoryOfTheText) {
  const CheckpointConfig checkpoints =
      ReadConfig(kValid +
                     "checkpoint_storage: {host_path: ../c/, "
                     "storage_path: d//e/.}\n",
                 {.file_name = "x.yaml", .directory = "/a/b"})
          .config.value()
          .checkpoints;

  EXPECT_EQ(checkpoints.path, "/a/c/d/e");
  EXPECT_EQ(checkpoints.base, "/a/c");
  EXPECT_EQ(checkpoints.where.ToString(),
            "x.yaml:3:33: checkpoint_storage.host_path: ");
}

TEST_F(ConfigCheckTest, AcceptsAStoragePath) {
  EXPECT_TRUE(ReadFindings(kValid + "checkpoint_storage: {host_path: /c}\n",
                           Severity::kNote)
                  .empty());
}

TEST_F(ConfigCheckTest, StopsEarlyByTheSearchersMetric) {
  const auto early =
      Read("early_stopping: {patience: 3}\n").training.early_stopping;

  ASSERT_TRUE(early);
  EXPECT_EQ(early->metric, "loss");
  EXPECT_TRUE(early->smaller_is_better);
  EXPECT_EQ(early->patience, 3);
  EXPECT_EQ(early->min_delta, 0);
}

TEST_F(ConfigCheckTest, WarnsOfKeysThatACommandIgnores) {
  const std::string keys =
      "searcher: {name: single, metric: loss, max_length: 1}\n"
      "optimizations: {sink_size: 4, aggregation_frequency: 1,\n"
      "  clip_gradients: {norm: 1}}\n";

  const Diagnostics warnings =
      ReadFindings("entrypoint: ./train.sh\n" + keys, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].key, "optimizations.sink_size");
  EXPECT_EQ(warnings[0].line, 3);
  EXPECT_EQ(warnings[1].key, "optimizations.clip_gradients");
  EXPECT_TRUE(
      ReadFindings("entrypoint: a:B\n" + keys, Severity::kWarning).empty());
}

TEST_F(ConfigCheckTest, WarnsOfAProfileThatACommandDoesNotMake) {
  const std::string keys =
      "searcher: {name: single, metric: loss, max_length: 1}\n"
      "profiling: {enabled: true}\n";

  const Diagnostics warnings =
      ReadFindings("entrypoint: ./train.sh\n" + keys, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].key, "profiling.enabled");
  EXPECT_EQ(warnings[0].line, 3);
  EXPECT_TRUE(
      ReadFindings("entrypoint: a:B\n" + keys, Severity::kWarning).empty());
}

TEST_F(ConfigCheckTest, ProfilesOnRequest) {
  EXPECT_FALSE(Read("").training.profile);
  EXPECT_TRUE(Read("profiling: {enabled: true}\n").training.profile);
}

TEST_F(ConfigCheckTest, ReportsErrorsOfAllKindsAtOnce) {
  const Diagnostics errors = ReadFindings(
      "entrypoint: 5\n"
      "searcher: {name: grid, metric: loss}\n"
      "hyperparameters:\n"
      "  a: {type: double, minval: 0, maxval: 1}\n"
      "max_restarts: -1\n"
      "max_restart: 1\n",
      Severity::kError);

  ASSERT_EQ(errors.size(), 5u);
  EXPECT_EQ(errors[0].key, "entrypoint");
  EXPECT_EQ(errors[1].key, "searcher.max_length");
  EXPECT_EQ(errors[2].key, "hyperparameters.a.count");
  EXPECT_EQ(errors[3].key, "max_restarts");
  EXPECT_EQ(errors[4].key, "max_restart");
}

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
                  4, 9, "searcher.name", "use 'adaptive_asha' instead"},
        BadConfig{"AdaptiveSimple",
                  kSearcher + "  name: adaptive_simple\n  max_length: 1\n", 4,
                  9, "searcher.name", "use 'adaptive_asha' instead"},
        BadConfig{"SyncHalving",
                  kSearcher + "  name: sync_halving\n  max_length: 1\n", 4, 9,
                  "searcher.name", "use 'async_halving' instead"},
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
                  "only applies to adaptive_asha, not to single"},
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
                  "only applies to async_halving, adaptive_asha, "
                  "bayesian_asha, not to random"},
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
                  "cannot be combined with source_trial_id"}),
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
                  7, 13, "searcher.max_time", "replaces max_length"},
        BadConfig{"TimeWithoutMetric",
                  kSearcher + "  name: adaptive_asha\n  max_trials: 1\n"
                              "  max_time: 5\n",
                  2, 1, "searcher.time_metric", "is the unit of max_time"},
        BadConfig{"LengthWithTimeMetric",
                  kSearcher + "  name: single\n  max_length: 1\n"
                              "  time_metric: epochs\n",
                  6, 16, "searcher.time_metric", "only applies to max_time"},
        BadConfig{"MetricOfTheTrialAsTime",
                  kSearcher + "  name: adaptive_asha\n  max_trials: 1\n"
                              "  max_time: 5\n  time_metric: minutes\n",
                  7, 16, "searcher.time_metric",
                  "only a program counts by a metric of its own"},
        BadConfig{"ZeroTime",
                  kSearcher + "  name: single\n  max_time: 0\n"
                              "  time_metric: epochs\n",
                  5, 13, "searcher.max_time", "at least 1"}),
    CaseName);

class SearcherCheckTest : public testing::Test {};

TEST_F(SearcherCheckTest, WarnsOfAMaximizedLoss) {
  const std::string text = kSearcher +
                           "  name: single\n  max_length: 1\n"
                           "  smaller_is_better: false\n";

  const Diagnostics warnings = ReadFindings(text, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 6);
  EXPECT_EQ(warnings[0].key, "searcher.smaller_is_better");
  EXPECT_FALSE(ReadConfig(text, {}).config->searcher.smaller_is_better);
}

// A direction that is left out, or contradicts the name of the metric.
TEST_F(SearcherCheckTest, WarnsOfTheUsualNamesOfMetrics) {
  const auto warns = [](const std::string& metric,
                        const std::string& direction) {
    return !ReadFindings("entrypoint: a:B\nsearcher: {name: single, metric: '" +
                             metric + "', max_length: 1" + direction + "}\n",
                         Severity::kWarning)
                .empty();
  };
  for (const std::string metric :
       {"acc",      "val_acc", "test_acc",    "valAcc", "acc@1",
        "eval/acc", "top1",    "top-5",       "mAP",    "mAP50",
        "bleu",     "BLEU4",   "iou",         "mIoU",   "r2",
        "r2_score", "reward",  "mean_reward", "score",  "val_accuracy",
        "f1"}) {
    EXPECT_TRUE(warns(metric, "")) << metric;
    EXPECT_FALSE(warns(metric, ", smaller_is_better: false")) << metric;
  }
  for (const std::string metric : {"rmse", "val_rmse", "error", "loss", "mae",
                                   "top1_error", "wer", "score_loss"}) {
    EXPECT_TRUE(warns(metric, ", smaller_is_better: false")) << metric;
    EXPECT_FALSE(warns(metric, "")) << metric;
  }
  for (const std::string metric :
       {"x", "neg_mean_squared_error", "vacc1ne", "mape", "epoch", "latency"}) {
    EXPECT_FALSE(warns(metric, "")) << metric;
  }
  EXPECT_FALSE(warns("neg_loss", ", smaller_is_better: false"));
  EXPECT_FALSE(warns("score", ", smaller_is_better: true"))
      << "it is written down";
}

TEST_F(SearcherCheckTest, WarnsOfAMinimizedAccuracy) {
  const Diagnostics warnings = ReadFindings(
      "entrypoint: a:B\nsearcher: {name: single, metric: accuracy, "
      "max_length: 1}\n",
      Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].line, 2);
}

TEST_F(SearcherCheckTest, AcceptsAMinimizedError) {
  EXPECT_TRUE(ReadFindings("entrypoint: a:B\nsearcher: {name: single, metric: "
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

TEST_F(SearcherCheckTest, CountsByAMetricOfAProgram) {
  const std::string text =
      "entrypoint: [sh, run.sh]\n"
      "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
      "searcher: {name: adaptive_asha, metric: loss, max_trials: 4,\n"
      "  max_time: 50, time_metric: steps}\n";
  const auto result = ReadConfig(text, {});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->training.time_metric, "steps");
  EXPECT_EQ(result.config->length_unit, Unit::kEpochs);
  EXPECT_TRUE(
      std::ranges::any_of(result.diagnostics, [](const Diagnostic& found) {
        return found.severity == Severity::kNote &&
               found.message.find("stop_once: true") != std::string::npos;
      }));
}

TEST_F(SearcherCheckTest, WarnsOfRungsBeyondTheLength) {
  const Diagnostics warnings = ReadFindings(
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

TEST_F(SearcherCheckTest, WarnsIfNoTrialCanReachMaxLength) {
  const std::string rungs = "  max_length: 9\n  divisor: 3\n  num_rungs: 3\n";

  const Diagnostics maybe =
      ReadFindings(kSearcher + "  name: asha\n  max_trials: 6\n" + rungs,
                   Severity::kWarning);
  const Diagnostics never =
      ReadFindings(kSearcher + "  name: asha\n  max_trials: 2\n" + rungs,
                   Severity::kWarning);

  ASSERT_EQ(maybe.size(), 1u);
  EXPECT_EQ(maybe[0].key, "searcher.max_trials");
  EXPECT_THAT(maybe[0].message,
              testing::HasSubstr("possibly no trial trains to max_length: 6 "
                                 "trials are few for 3 rungs; use "
                                 "at least 9"));
  ASSERT_EQ(never.size(), 1u);
  EXPECT_THAT(never[0].message, testing::HasSubstr("no trial is expected"));
}

TEST_F(SearcherCheckTest, WarnsOfABracketBeyondTheLength) {
  const Diagnostics warnings = ReadFindings(
      kSearcher +
          "  name: adaptive_asha\n  max_trials: 9\n  max_length: 9\n"
          "  divisor: 3\n  bracket_rungs: [1, 4, 2]\n",
      Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].key, "searcher.bracket_rungs");
}

TEST_F(SearcherCheckTest, AcceptsRungsThatFit) {
  EXPECT_TRUE(ReadFindings(kSearcher +
                               "  name: asha\n  max_trials: 9\n"
                               "  max_length: 9\n  divisor: 3\n"
                               "  num_rungs: 3\n  max_concurrent_trials: 99\n",
                           Severity::kWarning)
                  .empty());
}

}  // namespace

}  // namespace dtrain
