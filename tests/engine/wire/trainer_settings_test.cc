#include "engine/wire/trainer_settings.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

nlohmann::json Written(const TrainerSettings& settings) {
  return nlohmann::json::parse(EncodeLine(settings));
}

TrainerSettings ReadSettings(const nlohmann::json& json) {
  return DecodeLine<TrainerSettings>(json.dump(), /*strict=*/true);
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
          .smaller_is_better = false,
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
          {"smaller_is_better", false},
          {"profile", true}};
}

TEST(TrainerSettingsTest, EveryFieldIsWritten) {
  EXPECT_EQ(Written(Everything()), EverythingAsJson());
}

TEST(TrainerSettingsTest, NoFieldOfTheRoundTripHasItsDefault) {
  const nlohmann::json defaults = Written(TrainerSettings{});
  const nlohmann::json written = Written(Everything());
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

  EXPECT_EQ(Written(read), EverythingAsJson());
  EXPECT_EQ(read.clip_norm, 1.5);
  EXPECT_EQ(read.clip_value, 0.25);
  ASSERT_TRUE(read.early_stopping);
  EXPECT_FALSE(read.early_stopping->smaller_is_better);
}

TEST(TrainerSettingsTest, DefaultsRoundTripWithoutText) {
  const auto read = ReadSettings(Written(TrainerSettings{}));

  EXPECT_EQ(Written(read), Written(TrainerSettings{}));
  EXPECT_EQ(read.clip_norm, std::nullopt);
  EXPECT_FALSE(read.early_stopping);
}

TEST(TrainerSettingsTest, RefusesWhatIsNotItsOwn) {
  nlohmann::json missing = Written(TrainerSettings{});
  missing.erase("mixed_precision");
  nlohmann::json wrong_type = Written(TrainerSettings{});
  wrong_type["scheduling_unit"] = "100";
  nlohmann::json too_small = Written(TrainerSettings{});
  too_small["aggregation_frequency"] = 0;
  nlohmann::json no_profile = Written(TrainerSettings{});
  no_profile["profile"] = 1;
  nlohmann::json bad_length = Written(TrainerSettings{});
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
