#include "engine/wire/trainer_settings.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

TEST(TrainerSettingsTest, EverythingRoundTrips) {
  const TrainerSettings settings{
      .scheduling_unit = 7,
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

  const auto read = TrainerSettings::FromJson(
      nlohmann::json::parse(settings.ToJson().dump()));

  EXPECT_EQ(read.ToJson(), settings.ToJson());
  EXPECT_EQ(read.min_validation_period, (Length{1, Unit::kEpochs}));
  EXPECT_EQ(read.checkpoint_policy, "all");
  EXPECT_EQ(read.clip_norm, 1.5);
  EXPECT_TRUE(read.update_in_backward);
  EXPECT_EQ(read.sink_size, -1);
  EXPECT_EQ(read.validation_batches, 2);
  ASSERT_TRUE(read.early_stopping);
  EXPECT_EQ(read.early_stopping->min_delta, 1e-3);
  EXPECT_FALSE(read.smaller_is_better);
  EXPECT_TRUE(read.profile);
}

TEST(TrainerSettingsTest, DefaultsRoundTripWithoutText) {
  const auto read = TrainerSettings::FromJson(TrainerSettings{}.ToJson());

  EXPECT_EQ(read.ToJson(), TrainerSettings{}.ToJson());
  EXPECT_EQ(read.clip_norm, std::nullopt);
  EXPECT_FALSE(read.early_stopping);
}

TEST(TrainerSettingsTest, RefusesWhatIsNotItsOwn) {
  nlohmann::json missing = TrainerSettings{}.ToJson();
  missing.erase("mixed_precision");
  nlohmann::json wrong_type = TrainerSettings{}.ToJson();
  wrong_type["scheduling_unit"] = "100";
  nlohmann::json too_small = TrainerSettings{}.ToJson();
  too_small["aggregation_frequency"] = 0;
  nlohmann::json no_profile = TrainerSettings{}.ToJson();
  no_profile["profile"] = 1;
  nlohmann::json bad_length = TrainerSettings{}.ToJson();
  bad_length["min_validation_period"] = {{"days", 1}};

  EXPECT_THROW(TrainerSettings::FromJson(missing), Error);
  EXPECT_THROW(TrainerSettings::FromJson(wrong_type), Error);
  EXPECT_THROW(TrainerSettings::FromJson(too_small), Error);
  EXPECT_THROW(TrainerSettings::FromJson(no_profile), Error);
  EXPECT_THROW(TrainerSettings::FromJson(bad_length), Error);
  EXPECT_THROW(TrainerSettings::FromJson(nullptr), Error);
}

}  // namespace
}  // namespace dtrain
