#include "engine/config/read_config.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/wire/json_codec.h"
#include "tests/engine/config/bad_config.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

// The settings as the trial receives them.
nlohmann::json Written(const TrainerSettings& settings) {
  return nlohmann::json::parse(EncodeLine(settings));
}

std::string Corpus(const std::string& name) {
  std::ifstream file(DTRAIN_SOURCE_DIR "/tests/engine/config/corpus/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ExperimentConfigTest : public testing::Test {
 protected:
  ExperimentConfig Read(const std::string& name) {
    return ReadConfig(Corpus(name), {.file_name = name}).config.value();
  }
};

TEST_F(ExperimentConfigTest, ReadsConstYamlAsItStands) {
  const ExperimentConfig config = Read("const.yaml");

  EXPECT_EQ(config.name, "const");
  EXPECT_EQ(config.description, "ImageNet_PyTorch_const");
  EXPECT_EQ(std::get<std::string>(config.entrypoint),
            "model_def:ImageNetTrial");
  EXPECT_EQ(config.hyperparameters["weight_decay"], 1e-4);
  EXPECT_EQ(config.hyperparameters["start-epoch"], 0);
  EXPECT_EQ(config.hyperparameters["pretrained"], true);
  EXPECT_EQ(config.training.records_per_epoch, 60000);
  EXPECT_EQ(config.searcher.max_length, 10);
  EXPECT_EQ(config.length_unit, Unit::kEpochs);
  EXPECT_FALSE(config.searcher.smaller_is_better);
  EXPECT_EQ(config.max_restarts, 0);
}

TEST_F(ExperimentConfigTest, WarnsTwiceOfConstYaml) {
  const auto result = ReadConfig(Corpus("const.yaml"),
                                 {.file_name = "configs/const.yaml",
                                  .known_entrypoints = {"digits:LeNetTrial"}});

  ASSERT_EQ(result.diagnostics.size(), 2u);
  EXPECT_THAT(result.diagnostics[0].ToString(),
              testing::StartsWith("configs/const.yaml:17:24: "
                                  "searcher.smaller_is_better: warning: "));
  EXPECT_THAT(result.diagnostics[1].ToString(),
              testing::StartsWith("configs/const.yaml:20:13: entrypoint: "
                                  "warning: "));
}

TEST_F(ExperimentConfigTest, ReadsEveryKind) {
  const ExperimentConfig config = Read("everything.yaml");

  EXPECT_EQ(config.labels, (std::vector<std::string>{"vision", "42"}));
  EXPECT_EQ(config.hyperparameters["optimizer"]["momentum"], 0.9);
  EXPECT_EQ(config.hyperparameters["quoted: key"], "yes");
  EXPECT_EQ(config.training.scheduling_unit, 16);
  EXPECT_EQ(config.training.aggregation_frequency, 2);
  EXPECT_EQ(config.training.clip_norm, 1.5);
  EXPECT_FALSE(config.training.clip_value);
  EXPECT_EQ(config.max_restarts, 10);
  EXPECT_EQ(config.time_limit, 7200);
  EXPECT_EQ(config.hang_timeout, 90.5);
  EXPECT_EQ(config.experiment_seed, 2147483647u);
  EXPECT_EQ(config.resources.max_slots, 2);
  EXPECT_EQ(config.checkpoints.path, "/ckpt/mine");
  EXPECT_EQ(config.checkpoints.policy, "all");
  EXPECT_EQ(config.length_unit, Unit::kRecords);
  EXPECT_EQ(config.source_checkpoint_uuid, "0123abcd");
  EXPECT_FALSE(config.training.early_stopping->smaller_is_better);
  EXPECT_EQ(config.environment.everywhere.size(), 2u);
}

// No value is the key's default, or a key that is dropped would not be missed.
constexpr char kEveryTrainingKey[] = R"(
entrypoint: digits:LeNetTrial
records_per_epoch: 60000
min_validation_period: {epochs: 1}
min_checkpoint_period: {records: 500}
perform_initial_validation: true
scheduling_unit: 7
checkpoint_policy: all
reproducibility: {deterministic: true}
profiling: {enabled: true}
searcher: {name: single, metric: accuracy, smaller_is_better: false,
           max_length: {epochs: 2}}
optimizations:
  aggregation_frequency: 4
  average_aggregated_gradients: false
  average_training_metrics: false
  mixed_precision: fp16
  loss_scale: 128
  channels_last: true
  cuda_graphs: false
  clip_gradients: {value: 0.25}
  sink_size: 50
early_stopping: {metric: top5, patience: 3, min_delta: 1e-3,
                 smaller_is_better: false}
)";

TEST_F(ExperimentConfigTest, PassesEveryTrainingKeyToTheTrial) {
  const auto result = ReadConfig(kEveryTrainingKey, {});
  ASSERT_TRUE(result.config) << result.diagnostics.at(0).ToString();

  EXPECT_EQ(Written(result.config->training),
            nlohmann::json({{"scheduling_unit", 7},
                            {"requires_metric", false},
                            {"time_metric", ""},
                            {"min_validation_period", {{"epochs", 1}}},
                            {"min_checkpoint_period", {{"records", 500}}},
                            {"checkpoint_policy", "all"},
                            {"perform_initial_validation", true},
                            {"validation_batches", 0},
                            {"records_per_epoch", 60'000},
                            {"aggregation_frequency", 4},
                            {"average_aggregated_gradients", false},
                            {"average_training_metrics", false},
                            {"mixed_precision", "fp16"},
                            {"loss_scale", 128.0},
                            {"channels_last", "on"},
                            {"cuda_graphs", "off"},
                            {"deterministic", true},
                            {"clip_value", 0.25},
                            {"update_in_backward", false},
                            {"sink_size", 50},
                            {"early_stopping",
                             {{"metric", "top5"},
                              {"smaller_is_better", false},
                              {"patience", 3},
                              {"min_delta", 1e-3}}},
                            {"searcher_metric", "accuracy"},
                            {"smaller_is_better", false},
                            {"profile", true}}));
}

TEST_F(ExperimentConfigTest, PassesExclusiveKeys) {
  const auto training = [](const std::string& optimizations) {
    return ReadConfig(kValid + "optimizations: {" + optimizations + "}\n", {})
        .config.value()
        .training;
  };

  EXPECT_TRUE(training("update_in_backward: true").update_in_backward);
  EXPECT_EQ(training("clip_gradients: {norm: 1.5}").clip_norm, 1.5);
  EXPECT_EQ(training("mixed_precision: bf16").mixed_precision, "bf16");
  EXPECT_EQ(training("channels_last: false").channels_last, "off");
  EXPECT_EQ(training("cuda_graphs: true").cuda_graphs, "on");
  EXPECT_EQ(training("sink_size: 50, dataset_sink_mode: false").sink_size, 0);
  EXPECT_EQ(training("mixed_precision: fp16, loss_scale: dynamic").loss_scale,
            std::nullopt);
}

TEST_F(ExperimentConfigTest, PassesEveryKeyToTheSearcher) {
  const auto searcher = [](const std::string& keys) {
    return ReadConfig(
               "entrypoint: a:B\nhyperparameters:\n"
               "  lr: {type: double, minval: 0, maxval: 1}\n"
               "searcher: {metric: m, max_length: 900, " +
                   keys + "}\n",
               {})
        .config.value()
        .searcher;
  };

  const SearcherConfig halving = searcher(
      "name: async_halving, max_trials: 90, max_concurrent_trials: 5, "
      "num_rungs: 3, divisor: 3, stop_once: true, smaller_is_better: false, "
      "points: [{lr: 0.5}]");
  EXPECT_EQ(halving.name, "async_halving");
  EXPECT_EQ(halving.metric, "m");
  EXPECT_FALSE(halving.smaller_is_better);
  EXPECT_EQ(halving.max_length, 900);
  EXPECT_EQ(halving.max_trials, 90);
  EXPECT_EQ(halving.max_concurrent_trials, 5);
  EXPECT_EQ(halving.num_rungs, 3);
  EXPECT_EQ(halving.divisor, 3);
  EXPECT_TRUE(halving.stop_once);
  EXPECT_THAT(halving.points,
              testing::ElementsAre(nlohmann::json({{"lr", 0.5}})));

  const SearcherConfig adaptive = searcher(
      "name: adaptive_asha, max_trials: 90, mode: aggressive, "
      "max_rungs: 3");
  EXPECT_EQ(adaptive.mode, "aggressive");
  EXPECT_EQ(adaptive.max_rungs, 3);
  EXPECT_THAT(searcher("name: adaptive_asha, max_trials: 90, "
                       "bracket_rungs: [3, 2]")
                  .bracket_rungs,
              testing::ElementsAre(3, 2));
  EXPECT_THAT(searcher("name: single, stops: [100, 300]").stops,
              testing::ElementsAre(100, 300));
}

TEST_F(ExperimentConfigTest, PassesSeedsSlotsAndLimits) {
  const ExperimentConfig config =
      ReadConfig(kValid +
                     "reproducibility: {experiment_seed: 5, trial_seed: 6}\n"
                     "resources: {slots: 'cpu:8', max_slots: 4, "
                     "slots_per_trial: 2}\n"
                     "time_limit: 5m\nhang_timeout: 1.5h\nmax_restarts: 2\n"
                     "checkpoint_storage: {save_experiment_best: 7, "
                     "save_trial_best: 8, save_trial_latest: 9}\n",
                 {})
          .config.value();

  EXPECT_EQ(config.experiment_seed, 5u);
  EXPECT_EQ(config.trial_seed, 6u);
  EXPECT_EQ(config.resources.slots.kind, SlotChoice::Kind::kCpu);
  EXPECT_EQ(config.resources.slots.cpu_slots, 8);
  EXPECT_EQ(config.resources.max_slots, 4);
  EXPECT_EQ(config.resources.slots_per_trial, 2);
  EXPECT_EQ(config.time_limit, 300);
  EXPECT_EQ(config.hang_timeout, 5400);
  EXPECT_EQ(config.max_restarts, 2);
  EXPECT_EQ(config.checkpoints.save_experiment_best, 7);
  EXPECT_EQ(config.checkpoints.save_trial_best, 8);
  EXPECT_EQ(config.checkpoints.save_trial_latest, 9);
}

TEST_F(ExperimentConfigTest, RoundTripsThroughYaml) {
  const ExperimentConfig config = Read("everything.yaml");

  const auto again = ReadConfig(ToYaml(config.effective), {});

  ASSERT_TRUE(again.config);
  EXPECT_EQ(again.config->effective, config.effective);
  EXPECT_EQ(ToYaml(again.config->effective), ToYaml(config.effective));
}

TEST_F(ExperimentConfigTest, RoundTripsThroughJson) {
  const ExperimentConfig config = Read("everything.yaml");

  const ExperimentConfig again =
      ConfigFromJson(nlohmann::json::parse(config.effective.dump()));

  EXPECT_EQ(again.effective, config.effective);
  EXPECT_EQ(Written(again.training), Written(config.training));
  EXPECT_EQ(again.name, config.name);
  EXPECT_EQ(again.time_limit, config.time_limit);
  EXPECT_EQ(again.resources.slots.gpus, config.resources.slots.gpus);
  EXPECT_EQ(again.searcher.max_length, config.searcher.max_length);
  EXPECT_TRUE(again.environment.All().empty());
}

TEST_F(ExperimentConfigTest, RefusesAnInvalidStoredConfiguration) {
  EXPECT_THROW(ConfigFromJson(nlohmann::json::array()), Error);
  EXPECT_THROW(ConfigFromJson({{"name", 5}}), Error);
  try {
    ConfigFromJson(nlohmann::json::object());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
  }
}

TEST_F(ExperimentConfigTest, TakesTheNameFromTheFile) {
  const auto name = [](const std::string& file) {
    return ReadConfig(kValid, {.file_name = file}).config->name;
  };

  EXPECT_EQ(name("a/b.c/digits.yaml"), "digits");
  EXPECT_EQ(name(".yaml"), ".yaml");
  EXPECT_EQ(name("-"), "experiment");
  EXPECT_EQ(name(""), "experiment");
}

TEST_F(ExperimentConfigTest, ReadsAnOrdinaryFileInAMillisecond) {
  const std::string text = Corpus("const.yaml");
  ReadConfig(text, {});

  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 20; ++i) {
    const auto start = CpuTime();
    ASSERT_TRUE(ReadConfig(text, {}).config);
    shortest = std::min(shortest, CpuTime() - start);
  }

  EXPECT_LT(shortest, std::chrono::milliseconds(kSanitized ? 40 : 4));
}

}  // namespace
}  // namespace dtrain
