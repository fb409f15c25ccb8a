#include "engine/wire/trial_spec.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/wire/json_codec.h"
#include "engine/wire/message.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json Written(const TrialSpec& spec) {
  return nlohmann::json::parse(Encode(spec));
}

TrialSpec Read(const nlohmann::json& json) {
  return DecodeTrialSpec(json.dump());
}

TrialSpec Sample() {
  return {.id = {3, 7},
          .task = Task::kFeatures,
          .split = "test",
          .limit = 5,
          .images = "/scratch/images",
          .run = 2,
          .entrypoint = "digits:LeNetTrial",
          .library = "/cache/model_def.so",
          .command = {"./train.sh", "--fast"},
          .placeholders = true,
          .rules = 1,
          .metrics = MetricSource{.file = "a.csv",
                                  .tensorboard = "runs",
                                  .names = {{"acc", "acc=(.)"}},
                                  .step = "epoch (.)",
                                  .step_end = "end (.)",
                                  .first_step = 0,
                                  .first_value = true},
          .context = "/home/me",
          .master = "/store/experiments/3/context",
          .hparams = {{"lr", 0.1}, {"layers", {1, 2}}},
          .alternatives = {{"lr", {0.1, 0.2}}},
          .data = {{"path", "/data"}},
          .seed = 4'000'000'000u,
          .rank = 1,
          .world_size = 2,
          .address = RankAddress{.host = "node1",
                                 .port = 4321,
                                 .token = "secret",
                                 .ranks_here = 2},
          .nccl_timeout = 90.5,
          .threads = 4,
          .gpus = {0, 3},
          .gpu_share = 0.25,
          .directory = "/store/experiments/3/trials/7",
          .checkpoints = "/kept/0b5d/3/7",
          .restore = "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e",
          .warm_start = "/elsewhere",
          .completed = {{1, Unit::kEpochs}},
          .until = Length{2, Unit::kEpochs},
          .max_length = Length{9, Unit::kEpochs},
          .stops_trials = true,
          .settings = {.scheduling_unit = 7}};
}

TEST(TrialSpecTest, EveryFieldIsWritten) {
  const nlohmann::json written = Written(Sample());
  const nlohmann::json defaults = Written(TrialSpec{});
  std::vector<std::string> unchanged;
  for (const auto& [name, value] : written.items()) {
    if (defaults.value(name, nlohmann::json()) == value) {
      unchanged.push_back(name);
    }
  }
  EXPECT_EQ(unchanged, std::vector<std::string>());
  EXPECT_EQ(written["settings"]["scheduling_unit"], 7);
  EXPECT_EQ(written["address"], nlohmann::json({{"host", "node1"},
                                                {"port", 4321},
                                                {"token", "secret"},
                                                {"ranks_here", 2}}));
}

TEST(TrialSpecTest, EverythingRoundTrips) {
  const auto read = Read(Written(Sample()));

  EXPECT_EQ(Written(read), Written(Sample()));
  EXPECT_EQ(read.id, (TrialId{3, 7}));
  EXPECT_EQ(read.task, Task::kFeatures);
  EXPECT_EQ(read.limit, 5);
  EXPECT_EQ(read.split, "test");
  EXPECT_EQ(read.images, "/scratch/images");
  EXPECT_EQ(read.library, "/cache/model_def.so");
  EXPECT_EQ(read.run, 2);
  EXPECT_EQ(read.entrypoint, "digits:LeNetTrial");
  EXPECT_THAT(read.command, ElementsAre("./train.sh", "--fast"));
  EXPECT_EQ(read.context, "/home/me");
  EXPECT_EQ(read.master, "/store/experiments/3/context");
  EXPECT_EQ(read.hparams["lr"], 0.1);
  EXPECT_EQ(read.alternatives["lr"][1], 0.2);
  EXPECT_EQ(read.data["path"], "/data");
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world_size, 2);
  EXPECT_EQ(read.address->host, "node1");
  EXPECT_EQ(read.address->port, 4321);
  EXPECT_EQ(read.address->token, "secret");
  EXPECT_EQ(read.address->ranks_here, 2);
  EXPECT_EQ(read.nccl_timeout, 90.5);
  EXPECT_EQ(read.threads, 4);
  EXPECT_EQ(read.directory, "/store/experiments/3/trials/7");
  EXPECT_EQ(read.checkpoints, "/kept/0b5d/3/7");
  EXPECT_EQ(read.restore, "0b5d1b1e-6f4c-4a38-9d6c-3f1a5b2c7d8e");
  EXPECT_EQ(read.warm_start, "/elsewhere");
  EXPECT_EQ(read.settings.scheduling_unit, 7);
  EXPECT_EQ(read.seed, 4'000'000'000u);
  EXPECT_THAT(read.gpus, ElementsAre(0, 3));
  EXPECT_EQ(read.gpu_share, 0.25);
  EXPECT_THAT(read.completed, ElementsAre(Length{1, Unit::kEpochs}));
  EXPECT_EQ(read.until, (Length{2, Unit::kEpochs}));
}

TEST(TrialSpecTest, CheckpointsHaveTheirPath) {
  TrialSpec spec = Sample();
  EXPECT_EQ(spec.CheckpointPath("uuid"), "/kept/0b5d/3/7/uuid");
  spec.checkpoints.clear();
  EXPECT_EQ(spec.CheckpointPath("uuid"),
            "/store/experiments/3/trials/7/checkpoints/uuid");
}

TEST(TrialSpecTest, NoOperationStaysNone) {
  TrialSpec spec = Sample();
  spec.until.reset();

  EXPECT_EQ(Read(Written(spec)).until, std::nullopt);
}

TEST(TrialSpecTest, RefusesInvalidSharesOfAGpu) {
  nlohmann::json nothing = Written(Sample());
  nothing["gpu_share"] = 0;
  nlohmann::json more = Written(Sample());
  more["gpu_share"] = 1.25;
  nlohmann::json odd = Written(Sample());
  odd["gpu_share"] = "NaN";
  nlohmann::json text = Written(Sample());
  text["gpu_share"] = "half";

  EXPECT_THROW(Read(nothing), Error);
  EXPECT_THROW(Read(more), Error);
  EXPECT_THROW(Read(odd), Error);
  EXPECT_THROW(Read(text), Error);
}

TEST(TrialSpecTest, RefusesForeignJson) {
  nlohmann::json no_trial = Written(Sample());
  no_trial["trial"] = 0;
  nlohmann::json odd_task = Written(Sample());
  odd_task["task"] = "dream";
  nlohmann::json odd_gpus = Written(Sample());
  odd_gpus["gpus"] = {-1};
  nlohmann::json odd_seed = Written(Sample());
  odd_seed["seed"] = 4'294'967'296;
  nlohmann::json odd_hparams = Written(Sample());
  odd_hparams["hparams"] = "lr";
  nlohmann::json odd_completed = Written(Sample());
  odd_completed["completed"] = {1};
  nlohmann::json odd_command = Written(Sample());
  odd_command["command"] = {1};

  EXPECT_THROW(Read(odd_command), Error);
  EXPECT_THROW(Read(no_trial), Error);
  EXPECT_THROW(Read(odd_completed), Error);
  EXPECT_THROW(Read(odd_gpus), Error);
  EXPECT_THROW(Read(odd_task), Error);
  EXPECT_THROW(Read(odd_seed), Error);
  EXPECT_THROW(Read(odd_hparams), Error);
  EXPECT_THROW(Read("x"), Error);
}

TEST(TrialSpecTest, AnAddressRoundTripsAndIsChecked) {
  TrialSpec spec = Sample();
  spec.address.reset();
  EXPECT_FALSE(Read(Written(spec)).address);
  spec.address = RankAddress{
      .host = "node1", .port = 29400, .token = "t", .ranks_here = 4};
  nlohmann::json json = Written(spec);
  const auto address = Read(json).address;

  ASSERT_TRUE(address);
  EXPECT_EQ(address->host, "node1");
  EXPECT_EQ(address->port, 29400);
  EXPECT_EQ(address->token, "t");
  EXPECT_EQ(address->ranks_here, 4);
  json["address"]["port"] = 65536;
  EXPECT_THROW(Read(json), Error);
  json["address"] = "node1:29400";
  EXPECT_THROW(Read(json), Error);
}

TEST(TrialSpecTest, MessagesNameTheField) {
  nlohmann::json spec = Written(Sample());
  spec.erase("threads");
  try {
    Read(spec);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("trial spec: field 'threads'"));
  }
}

TEST(TrialSpecTest, RefusesTooDeepNesting) {
  const std::string line = "{\"hparams\":" + std::string(100'000, '[') +
                           std::string(100'000, ']') + "}";
  EXPECT_THAT([&] { DecodeTrialSpec(line); },
              testing::ThrowsMessage<Error>(HasSubstr("nests deeper than")));
}

TEST(TrialSpecTest, ErrorsNameTrialsLikeTheCommands) {
  EXPECT_EQ(ToString(TrialId{3, 7}), "3.7");
}

nlohmann::json WrittenSettings(const TrainerSettings& settings) {
  return nlohmann::json::parse(EncodeLine(settings));
}

TrainerSettings ReadSettings(const nlohmann::json& json) {
  return DecodeLine<TrainerSettings>(json.dump(), "settings", /*strict=*/true);
}

// No field has its default, or one that is lost would not be missed.
TrainerSettings Everything() {
  return {.scheduling_unit = 7,
          .min_validation_period = {1, Unit::kEpochs},
          .min_checkpoint_period = {500, Unit::kRecords},
          .checkpoint_policy = "all",
          .perform_initial_validation = true,
          .validation_batches = 2,
          .records_per_epoch = 60'000,
          .aggregation_frequency = 4,
          .average_aggregated_gradients = false,
          .average_training_metrics = false,
          .mixed_precision = "bf16",
          .loss_scale = 128,
          .channels_last = "on",
          .cuda_graphs = "off",
          .deterministic = true,
          .clip_norm = 1.5,
          .clip_value = 0.25,
          .update_in_backward = true,
          .sink_size = -1,
          .early_stopping = EarlyStopping{.metric = "acc",
                                          .smaller_is_better = false,
                                          .patience = 3,
                                          .min_delta = 1e-3},
          .searcher_metric = "val_loss",
          .requires_metric = false,
          .smaller_is_better = false,
          .time_metric = "steps",
          .profile = true};
}

nlohmann::json EverythingAsJson() {
  return {{"scheduling_unit", 7},
          {"min_validation_period", {{"epochs", 1}}},
          {"min_checkpoint_period", {{"records", 500}}},
          {"checkpoint_policy", "all"},
          {"perform_initial_validation", true},
          {"validation_batches", 2},
          {"records_per_epoch", 60'000},
          {"aggregation_frequency", 4},
          {"average_aggregated_gradients", false},
          {"average_training_metrics", false},
          {"mixed_precision", "bf16"},
          {"loss_scale", 128.0},
          {"channels_last", "on"},
          {"cuda_graphs", "off"},
          {"deterministic", true},
          {"clip_norm", 1.5},
          {"clip_value", 0.25},
          {"update_in_backward", true},
          {"sink_size", -1},
          {"early_stopping",
           {{"metric", "acc"},
            {"smaller_is_better", false},
            {"patience", 3},
            {"min_delta", 1e-3}}},
          {"searcher_metric", "val_loss"},
          {"requires_metric", false},
          {"smaller_is_better", false},
          {"time_metric", "steps"},
          {"profile", true}};
}

TEST(TrainerSettingsTest, EveryFieldIsWritten) {
  EXPECT_EQ(WrittenSettings(Everything()), EverythingAsJson());
}

TEST(TrainerSettingsTest, NoFieldOfTheRoundTripHasItsDefault) {
  const nlohmann::json defaults = WrittenSettings(TrainerSettings{});
  const nlohmann::json written = WrittenSettings(Everything());
  std::vector<std::string> unchanged;
  for (const auto& [name, value] : written.items()) {
    if (defaults.value(name, nlohmann::json()) == value) {
      unchanged.push_back(name);
    }
  }
  EXPECT_EQ(unchanged, std::vector<std::string>());
  EXPECT_EQ(written.size(), EverythingAsJson().size());
}

TEST(TrainerSettingsTest, EverythingRoundTrips) {
  const auto read = ReadSettings(EverythingAsJson());

  EXPECT_EQ(WrittenSettings(read), EverythingAsJson());
  EXPECT_EQ(read.clip_norm, 1.5);
  EXPECT_EQ(read.clip_value, 0.25);
  ASSERT_TRUE(read.early_stopping);
  EXPECT_FALSE(read.early_stopping->smaller_is_better);
}

TEST(TrainerSettingsTest, DefaultsRoundTripWithoutText) {
  const auto read = ReadSettings(WrittenSettings(TrainerSettings{}));

  EXPECT_EQ(WrittenSettings(read), WrittenSettings(TrainerSettings{}));
  EXPECT_EQ(read.clip_norm, std::nullopt);
  EXPECT_FALSE(read.early_stopping);
}

TEST(TrainerSettingsTest, RefusesForeignJson) {
  nlohmann::json missing = WrittenSettings(TrainerSettings{});
  missing.erase("mixed_precision");
  nlohmann::json wrong_type = WrittenSettings(TrainerSettings{});
  wrong_type["scheduling_unit"] = "100";
  nlohmann::json too_small = WrittenSettings(TrainerSettings{});
  too_small["aggregation_frequency"] = 0;
  nlohmann::json no_profile = WrittenSettings(TrainerSettings{});
  no_profile["profile"] = 1;
  nlohmann::json bad_length = WrittenSettings(TrainerSettings{});
  bad_length["min_validation_period"] = {{"days", 1}};

  EXPECT_THROW(ReadSettings(missing), Error);
  EXPECT_THROW(ReadSettings(wrong_type), Error);
  EXPECT_THROW(ReadSettings(too_small), Error);
  EXPECT_THROW(ReadSettings(no_profile), Error);
  EXPECT_THROW(ReadSettings(bad_length), Error);
  EXPECT_THROW(ReadSettings(nullptr), Error);
}

}  // namespace
}  // namespace dtrain
