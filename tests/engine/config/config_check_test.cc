#include "engine/config/config_check.h"

#include <string>

#include <gmock/gmock.h>

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
                  5, 17, "checkpoint_storage.storage_path", "leaves host_path"},
        BadConfig{"SubdirectoryElsewhere",
                  kValid + "checkpoint_storage:\n  host_path: /a\n"
                           "  storage_path: /ab\n",
                  5, 17, "checkpoint_storage.storage_path", "leaves host_path"},
        BadConfig{"TwoSubdirectories",
                  kValid + "checkpoint_storage:\n  host_path: /a\n"
                           "  storage_path: b\n  checkpoint_path: c\n",
                  6, 20, "checkpoint_storage.checkpoint_path", "remove one"},
        BadConfig{"MoreSlotsThanAtMost",
                  kValid + "resources: {slots_per_trial: 4, max_slots: 2}\n", 3,
                  44, "resources.max_slots", "no trial could run"},
        BadConfig{"FewerGpusThanSlots",
                  kValid + "resources: {slots_per_trial: 2, slots: [0]}\n", 3,
                  40, "resources.slots", "no trial could run"},
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
                  "optimizations.loss_scale", "fp16 only"},
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

TEST_F(ConfigCheckTest, SaysThatACpuSlotHasNoShares) {
  const Diagnostics cpu =
      FindingsOf(kValid + "resources: {slots_per_trial: 0.25, slots: cpu:2}\n",
                 Severity::kWarning);
  ASSERT_EQ(cpu.size(), 1u);
  EXPECT_EQ(cpu[0].key, "resources.slots_per_trial");
  EXPECT_THAT(cpu[0].message, testing::HasSubstr("takes a whole one"));
  const std::string none =
      kValid + "resources: {slots_per_trial: 0.5, slots: none}\n";
  EXPECT_EQ(FindingsOf(none, Severity::kWarning).size(), 1u);
}

TEST_F(ConfigCheckTest, SaysWhatABatchHasThatRanksDoNotDivide) {
  const auto warnings = [](const std::string& size) {
    std::vector<std::string> texts;
    for (const Diagnostic& found :
         FindingsOf(kValid + "hyperparameters: {global_batch_size: " + size +
                        "}\nresources: {slots_per_trial: 3, slots: cpu:3}\n",
                    Severity::kWarning)) {
      if (found.key == "hyperparameters.global_batch_size") {
        texts.push_back(found.message);
      }
    }
    return texts;
  };
  const std::string ten =
      "10 is not a multiple of 3 ranks (resources.slots_per_trial): each takes "
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

TEST_F(ConfigCheckTest, SaysNothingOfAStoragePath) {
  EXPECT_TRUE(FindingsOf(kValid + "checkpoint_storage: {host_path: /c}\n",
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

TEST_F(ConfigCheckTest, WarnsOfWhatACommandDoesInItsOwnWay) {
  const std::string keys =
      "searcher: {name: single, metric: loss, max_length: 1}\n"
      "optimizations: {sink_size: 4, aggregation_frequency: 1,\n"
      "  clip_gradients: {norm: 1}}\n";

  const Diagnostics warnings =
      FindingsOf("entrypoint: ./train.sh\n" + keys, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].key, "optimizations.sink_size");
  EXPECT_EQ(warnings[0].line, 3);
  EXPECT_EQ(warnings[1].key, "optimizations.clip_gradients");
  EXPECT_TRUE(
      FindingsOf("entrypoint: a:B\n" + keys, Severity::kWarning).empty());
}

TEST_F(ConfigCheckTest, WarnsOfAProfileThatACommandDoesNotMake) {
  const std::string keys =
      "searcher: {name: single, metric: loss, max_length: 1}\n"
      "profiling: {enabled: true}\n";

  const Diagnostics warnings =
      FindingsOf("entrypoint: ./train.sh\n" + keys, Severity::kWarning);

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].key, "profiling.enabled");
  EXPECT_EQ(warnings[0].line, 3);
  EXPECT_TRUE(
      FindingsOf("entrypoint: a:B\n" + keys, Severity::kWarning).empty());
}

TEST_F(ConfigCheckTest, ProfileIsMadeWhereItIsAskedFor) {
  EXPECT_FALSE(Read("").training.profile);
  EXPECT_TRUE(Read("profiling: {enabled: true}\n").training.profile);
}

TEST_F(ConfigCheckTest, TellsErrorsOfAllKindsAtOnce) {
  const Diagnostics errors = FindingsOf(
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

}  // namespace
}  // namespace dtrain
