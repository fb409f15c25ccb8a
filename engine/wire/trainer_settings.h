#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/length.h"

namespace dtrain {

/// Ends a trial whose metric no longer improves.
struct EarlyStopping {
  std::string metric;
  bool smaller_is_better = true;
  std::int64_t patience = 0;  // validations without improvement, ≥ 1
  double min_delta = 0;       // smallest change that is an improvement, ≥ 0

  static void Fields(auto& field, auto& m) {
    field("metric", m.metric);
    field("smaller_is_better", m.smaller_is_better);
    field("patience", m.patience, 1);
    field("min_delta", m.min_delta);
  }
};

/// The part of the experiment's YAML that the trainer obeys. A period with
/// count 0 means "only at the end of an operation".
struct TrainerSettings {
  std::int64_t scheduling_unit = 100;  // batches between reports, ≥ 1
  Length min_validation_period;
  Length min_checkpoint_period;
  // Which validations lead to a checkpoint: best, all, none.
  std::string checkpoint_policy = "best";
  bool perform_initial_validation = false;
  std::int64_t validation_batches = 0;  // at most; 0: the whole set
  std::int64_t records_per_epoch = 0;   // 0: the length of the data set
  std::int64_t aggregation_frequency = 1;
  bool average_aggregated_gradients = true;
  bool average_training_metrics = true;
  std::string mixed_precision = "none";  // none, bf16, fp16
  std::optional<double> loss_scale;      // fixed; empty: dynamic
  std::string channels_last = "auto";    // auto, on, off
  std::string cuda_graphs = "auto";      // auto, on, off
  bool deterministic = false;            // bitwise reproducible, on GPUs too
  std::optional<double> clip_norm;
  std::optional<double> clip_value;
  bool update_in_backward = false;
  // Steps in one data sink, which then is an epoch; −1: the whole set; 0: none.
  std::int64_t sink_size = 0;
  std::optional<EarlyStopping> early_stopping;
  std::string searcher_metric;
  bool smaller_is_better = true;
  bool profile = false;  // send a ProfileReport after each TrainingReport

  static void Fields(auto& field, auto& m) {
    field("scheduling_unit", m.scheduling_unit, 1);
    field("min_validation_period", m.min_validation_period);
    field("min_checkpoint_period", m.min_checkpoint_period);
    field("checkpoint_policy", m.checkpoint_policy);
    field("perform_initial_validation", m.perform_initial_validation);
    field("validation_batches", m.validation_batches);
    field("records_per_epoch", m.records_per_epoch);
    field("aggregation_frequency", m.aggregation_frequency, 1);
    field("average_aggregated_gradients", m.average_aggregated_gradients);
    field("average_training_metrics", m.average_training_metrics);
    field("mixed_precision", m.mixed_precision);
    field("loss_scale", m.loss_scale);
    field("channels_last", m.channels_last);
    field("cuda_graphs", m.cuda_graphs);
    field("deterministic", m.deterministic);
    field("clip_norm", m.clip_norm);
    field("clip_value", m.clip_value);
    field("update_in_backward", m.update_in_backward);
    field("sink_size", m.sink_size, -1);
    field("early_stopping", m.early_stopping);
    field("searcher_metric", m.searcher_metric);
    field("smaller_is_better", m.smaller_is_better);
    field("profile", m.profile);
  }
};

}  // namespace dtrain
