#include "engine/wire/trainer_settings.h"

#include "engine/base/json_number.h"
#include "engine/wire/json_fields.h"

namespace dtrain {
namespace {

using nlohmann::json;

json OptionalNumber(const std::optional<double>& value) {
  return value ? JsonNumber(*value) : json(nullptr);
}

std::optional<double> OptionalNumber(const JsonFields& fields,
                                     const char* name) {
  if (fields.At(name).is_null()) return std::nullopt;
  return fields.Number(name);
}

json ToJson(const EarlyStopping& stopping) {
  return {{"metric", stopping.metric},
          {"smaller_is_better", stopping.smaller_is_better},
          {"patience", stopping.patience},
          {"min_delta", JsonNumber(stopping.min_delta)}};
}

EarlyStopping EarlyStoppingFromJson(const json& object) {
  const JsonFields fields(object, "trainer settings.early_stopping");
  return {.metric = fields.String("metric"),
          .smaller_is_better = fields.Bool("smaller_is_better"),
          .patience = fields.Int("patience", 1),
          .min_delta = fields.Number("min_delta")};
}

}  // namespace

json TrainerSettings::ToJson() const {
  json object = {{"scheduling_unit", scheduling_unit},
                 {"min_validation_period", LengthToJson(min_validation_period)},
                 {"min_checkpoint_period", LengthToJson(min_checkpoint_period)},
                 {"checkpoint_policy", checkpoint_policy},
                 {"perform_initial_validation", perform_initial_validation},
                 {"validation_batches", validation_batches},
                 {"records_per_epoch", records_per_epoch},
                 {"aggregation_frequency", aggregation_frequency},
                 {"average_aggregated_gradients", average_aggregated_gradients},
                 {"average_training_metrics", average_training_metrics},
                 {"mixed_precision", mixed_precision},
                 {"loss_scale", OptionalNumber(loss_scale)},
                 {"channels_last", channels_last},
                 {"cuda_graphs", cuda_graphs},
                 {"deterministic", deterministic},
                 {"clip_norm", OptionalNumber(clip_norm)},
                 {"clip_value", OptionalNumber(clip_value)},
                 {"update_in_backward", update_in_backward},
                 {"sink_size", sink_size},
                 {"early_stopping", nullptr},
                 {"searcher_metric", searcher_metric},
                 {"smaller_is_better", smaller_is_better},
                 {"profile", profile}};
  if (early_stopping) {
    object["early_stopping"] = dtrain::ToJson(*early_stopping);
  }
  return object;
}

TrainerSettings TrainerSettings::FromJson(const json& object) {
  const JsonFields fields(object, "trainer settings");
  TrainerSettings settings{
      .scheduling_unit = fields.Int("scheduling_unit", 1),
      .min_validation_period = fields.LengthOf("min_validation_period"),
      .min_checkpoint_period = fields.LengthOf("min_checkpoint_period"),
      .checkpoint_policy = fields.String("checkpoint_policy"),
      .perform_initial_validation = fields.Bool("perform_initial_validation"),
      .validation_batches = fields.Int("validation_batches"),
      .records_per_epoch = fields.Int("records_per_epoch"),
      .aggregation_frequency = fields.Int("aggregation_frequency", 1),
      .average_aggregated_gradients =
          fields.Bool("average_aggregated_gradients"),
      .average_training_metrics = fields.Bool("average_training_metrics"),
      .mixed_precision = fields.String("mixed_precision"),
      .loss_scale = OptionalNumber(fields, "loss_scale"),
      .channels_last = fields.String("channels_last"),
      .cuda_graphs = fields.String("cuda_graphs"),
      .deterministic = fields.Bool("deterministic"),
      .clip_norm = OptionalNumber(fields, "clip_norm"),
      .clip_value = OptionalNumber(fields, "clip_value"),
      .update_in_backward = fields.Bool("update_in_backward"),
      .sink_size = fields.Int("sink_size", -1),
      .searcher_metric = fields.String("searcher_metric"),
      .smaller_is_better = fields.Bool("smaller_is_better"),
      .profile = fields.Bool("profile")};
  const json& stopping = fields.At("early_stopping");
  if (!stopping.is_null()) {
    settings.early_stopping = EarlyStoppingFromJson(stopping);
  }
  return settings;
}

}  // namespace dtrain
