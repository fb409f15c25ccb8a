#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class OverridesTest : public testing::Test {
 protected:
  ConfigResult Read(std::vector<std::string> overrides) {
    return ReadConfig(kValid + "hyperparameters: {lr: 0.1}\n",
                      {.file_name = "f.yaml", .overrides = overrides});
  }
  std::string Error(const std::string& override_text) {
    const Diagnostics all = Read({override_text}).diagnostics;
    return all.size() == 1 ? all[0].ToString() : "not one error";
  }
};

TEST_F(OverridesTest, ReplacesValues) {
  const auto result = Read({"hyperparameters.lr=1e-4", "max_restarts=0"});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->hyperparameters["lr"], 1e-4);
  EXPECT_EQ(result.config->max_restarts, 0);
}

TEST_F(OverridesTest, MakesMissingMaps) {
  const auto result = Read({"resources.slots=cpu:2", "data.a.b.c=x"});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->resources.slots.cpu_slots, 2);
  EXPECT_EQ(result.config->data["a"]["b"]["c"], "x");
}

TEST_F(OverridesTest, TakesListsMapsAndQuotes) {
  const auto result = Read({"labels=[a, b]", "searcher.max_length={epochs: 3}",
                            "name=\"5\"", "description=a=b"});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->labels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(result.config->length_unit, Unit::kEpochs);
  EXPECT_EQ(result.config->name, "5");
  EXPECT_EQ(result.config->description, "a=b");
}

TEST_F(OverridesTest, UnsetsByAnEmptyValue) {
  const auto result = Read({"name=x", "name="});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->name, "f");
}

TEST_F(OverridesTest, UnsetsHyperparameters) {
  const auto result = Read({"hyperparameters.lr="});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->hyperparameters, nlohmann::json::object());
}

TEST_F(OverridesTest, UnsetsWithoutMakingMaps) {
  const auto result = Read({"early_stopping.patience="});

  ASSERT_TRUE(result.config);
  EXPECT_FALSE(result.config->training.early_stopping);
}

TEST_F(OverridesTest, RefusesToUnsetAMissingKey) {
  EXPECT_EQ(Error("hyperparameters.lrr="),
            "--set hyperparameters.lrr: hyperparameters.lrr: is not set, so "
            "it cannot be removed; did you mean 'lr'?");
  EXPECT_EQ(Error("max_restart="),
            "--set max_restart: max_restart: is not set, so it cannot be "
            "removed; did you mean 'max_restarts'?");
  EXPECT_EQ(Error("data.zzzzz="),
            "--set data.zzzzz: data.zzzzz: is not set, so it cannot be "
            "removed; leave it out");
}

TEST_F(OverridesTest, ReplacesTheUnitOfALength) {
  const auto result = Read({"searcher.max_length.epochs=2",
                            "min_validation_period={batches: 4}",
                            "min_checkpoint_period.records=640"});

  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->length_unit, Unit::kEpochs);
  EXPECT_EQ(result.config->searcher.max_length, 2);
  EXPECT_EQ(result.config->training.min_checkpoint_period,
            (Length{640, Unit::kRecords}));
}

TEST_F(OverridesTest, RefusesTwoUnitsOfALength) {
  const auto result =
      Read({"searcher.max_length.epochs=2", "searcher.max_length.batches=3"});

  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_THAT(result.diagnostics[0].ToString(),
              testing::HasSubstr("expected exactly one of batches, records and "
                                 "epochs"));
}

TEST_F(OverridesTest, ReplacesAKeyByTheOneThatExcludesIt) {
  const auto result = ReadConfig(
      "entrypoint: digits:LeNetTrial\n"
      "searcher: {name: single, metric: loss, max_time: 9, time_metric: "
      "epochs}\n"
      "optimizations: {clip_gradients: {norm: 1}}\n"
      "checkpoint_storage: {host_path: /a}\n",
      {.overrides = {"searcher.max_length=100",
                     "optimizations.clip_gradients.value=2",
                     "checkpoint_storage.path=/b"}});

  ASSERT_TRUE(result.config) << result.diagnostics[0].ToString();
  EXPECT_EQ(result.config->searcher.max_length, 100);
  EXPECT_EQ(result.config->training.clip_value, 2);
  EXPECT_FALSE(result.config->training.clip_norm);
  EXPECT_EQ(result.config->checkpoints.path, "/b");
}

TEST_F(OverridesTest, ReplacesATimeByAUnitOfALength) {
  const std::vector<std::string> overrides = {"searcher.max_length.epochs=5"};
  const auto result = ReadConfig(
      "entrypoint: digits:LeNetTrial\n"
      "hyperparameters: {global_batch_size: 8}\n"
      "searcher: {name: single, metric: loss, max_time: 9, time_metric: "
      "batches}\n",
      {.overrides = overrides});
  ASSERT_TRUE(result.config);
  EXPECT_EQ(result.config->searcher.max_length, 5);
  EXPECT_EQ(result.config->length_unit, Unit::kEpochs);
}

TEST_F(OverridesTest, NamesTheHyperparameterThatWasMeant) {
  EXPECT_EQ(Error("lr=3"),
            "--set lr: lr: unknown key; did you mean 'hyperparameters.lr'?");
  EXPECT_EQ(Error("hidden=3"),
            "--set hidden: hidden: unknown key; a hyperparameter is set as "
            "hyperparameters.hidden");
}

TEST_F(OverridesTest, RefusesAmbiguousValues) {
  EXPECT_THAT(Error("hyperparameters.lr=.nan"),
              testing::StartsWith("--set hyperparameters.lr: "));
}

TEST_F(OverridesTest, LastOneWins) {
  EXPECT_EQ(Read({"max_restarts=1", "max_restarts=2"}).config->max_restarts, 2);
}

TEST_F(OverridesTest, NamesTheOverrideInErrors) {
  EXPECT_EQ(Error("searcher.max_lenght=5"),
            "--set searcher.max_lenght: searcher.max_lenght: unknown key; did "
            "you mean 'max_length'?");
  EXPECT_EQ(Error("max_restarts=many"),
            "--set max_restarts: max_restarts: expected an integer from 0 to "
            "1000000, got the string 'many'");
}

TEST_F(OverridesTest, RefusesAnythingButKeyAndValue) {
  EXPECT_EQ(Error("name"),
            "--set name: expected a key and a value; write it as "
            "searcher.metric=accuracy");
  EXPECT_EQ(Error("=x"),
            "--set : expected a key and a value; write it as "
            "searcher.metric=accuracy");
  EXPECT_EQ(Error("a..b=x"),
            "--set a..b: expected a key and a value; write it as "
            "searcher.metric=accuracy");
}

TEST_F(OverridesTest, RefusesKeysWithinScalars) {
  EXPECT_EQ(
      Error("hyperparameters.lr.minval=1"),
      "--set hyperparameters.lr.minval: hyperparameters.lr: is the number "
      "0.1, not a map with a key 'minval'; set the whole value");
}

TEST_F(OverridesTest, RefusesInvalidYamlValues) {
  EXPECT_FALSE(Read({"labels=[a"}).config);
  EXPECT_FALSE(Read({"name=\"a"}).config);
  EXPECT_FALSE(Read({"name=\x1b[2J"}).config);
}

}  // namespace
}  // namespace dtrain
