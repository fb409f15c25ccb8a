#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/length.h"

namespace dtrain {

/// Ends a trial whose metric has stopped getting better.
struct EarlyStopping {
  std::string metric;
  bool smaller_is_better = true;
  std::int64_t patience = 0;  // validations without improvement, ≥ 1
  double min_delta = 0;       // less than this is no improvement, ≥ 0
};

/// How a trial is trained: what the YAML says of it and the trainer obeys.
/// Periods with count 0 mean "only at the end of an operation".
struct TrainerSettings {
  std::int64_t scheduling_unit = 100;  // batches between reports, ≥ 1
  Length min_validation_period;
  Length min_checkpoint_period;
  // Which validations make a checkpoint: best, all, none.
  std::string checkpoint_policy = "best";
  bool perform_initial_validation = false;
  // Batches of a validation at most; 0: the whole set.
  std::int64_t validation_batches = 0;
  std::int64_t records_per_epoch = 0;  // 0: as the loader yields
  std::int64_t aggregation_frequency = 1;
  bool average_aggregated_gradients = true;
  bool average_training_metrics = true;
  std::string mixed_precision = "none";  // none, bf16, fp16
  std::optional<double> loss_scale;      // fixed; none: adapted
  std::string channels_last = "auto";    // auto, on, off
  std::string cuda_graphs = "auto";      // auto, on, off
  bool deterministic = false;  // the same bits every time, on GPUs too
  std::optional<double> clip_norm;
  std::optional<double> clip_value;
  bool update_in_backward = false;
  // Steps in one go, which then are an epoch; −1: the whole set; 0: no sinking.
  std::int64_t sink_size = 0;
  std::optional<EarlyStopping> early_stopping;
  std::string searcher_metric;
  bool smaller_is_better = true;
  bool profile = false;  // a ProfileReport after each TrainingReport

  nlohmann::json ToJson() const;
  /// Throws Error(kFailed) for what `ToJson` did not write.
  static TrainerSettings FromJson(const nlohmann::json& json);
};

}  // namespace dtrain
