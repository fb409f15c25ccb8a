#include "engine/config/experiment_config.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/config/bad_config.h"
#include "tests/support/cpu_time.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

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

TEST_F(ExperimentConfigTest, GoesThroughYamlUnchanged) {
  const ExperimentConfig config = Read("everything.yaml");

  const auto again = ReadConfig(ToYaml(config.effective), {});

  ASSERT_TRUE(again.config);
  EXPECT_EQ(again.config->effective, config.effective);
  EXPECT_EQ(ToYaml(again.config->effective), ToYaml(config.effective));
}

TEST_F(ExperimentConfigTest, GoesThroughJsonUnchanged) {
  const ExperimentConfig config = Read("everything.yaml");

  const ExperimentConfig again =
      ConfigFromJson(nlohmann::json::parse(config.effective.dump()));

  EXPECT_EQ(again.effective, config.effective);
  EXPECT_EQ(again.training.ToJson(), config.training.ToJson());
  EXPECT_EQ(again.name, config.name);
  EXPECT_EQ(again.time_limit, config.time_limit);
  EXPECT_EQ(again.resources.slots.gpus, config.resources.slots.gpus);
  EXPECT_EQ(again.searcher.max_length, config.searcher.max_length);
  EXPECT_TRUE(again.environment.All().empty());
}

TEST_F(ExperimentConfigTest, RefusesAStoredConfigurationThatIsNone) {
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

  const auto start = CpuTime();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ReadConfig(text, {}).config);
  const auto took = CpuTime() - start;

  EXPECT_LT(took / 20, std::chrono::milliseconds(kSanitized ? 40 : 4));
}

}  // namespace
}  // namespace dtrain
