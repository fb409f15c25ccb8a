#include "engine/config/config_builder.h"

#include <string>
#include <utility>

namespace dtrain {
namespace {

using Json = nlohmann::json;

std::string TextOrEmpty(const Json& json) {
  return json.is_null() ? std::string() : json.get<std::string>();
}

template <typename T>
std::optional<T> Optional(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<T>();
}

Length ToLength(const Json& json) {
  for (const Unit unit : {Unit::kBatches, Unit::kRecords, Unit::kEpochs}) {
    const std::string name(UnitName(unit));
    if (json.contains(name)) return {json.at(name).get<std::int64_t>(), unit};
  }
  return {};
}

// max_length, or the max_time that stands for it; 0 where a program decides.
Length MaxLength(const Json& searcher) {
  const Json& length = searcher.at("max_length");
  if (!length.is_null()) return ToLength(length);
  if (searcher.at("max_time").is_null()) return {};
  const auto unit = searcher.at("time_metric").get<std::string>();
  return ToLength(Json::object({{unit, searcher.at("max_time")}}));
}

EarlyStopping BuildEarlyStopping(const Json& json) {
  return {.metric = json.at("metric").get<std::string>(),
          .smaller_is_better = json.at("smaller_is_better").get<bool>(),
          .patience = json.at("patience").get<std::int64_t>(),
          .min_delta = json.at("min_delta").get<double>()};
}

// A key that is auto, true or false.
std::string Switch(const Json& json) {
  if (!json.is_boolean()) return "auto";
  return json.get<bool>() ? "on" : "off";
}

TrainerSettings BuildTraining(const Json& json) {
  TrainerSettings training;
  training.scheduling_unit = json.at("scheduling_unit").get<std::int64_t>();
  training.min_validation_period = ToLength(json.at("min_validation_period"));
  training.min_checkpoint_period = ToLength(json.at("min_checkpoint_period"));
  training.checkpoint_policy = json.at("checkpoint_policy").get<std::string>();
  training.perform_initial_validation =
      json.at("perform_initial_validation").get<bool>();
  training.records_per_epoch = json.at("records_per_epoch").get<std::int64_t>();
  const Json& steps = json.at("optimizations");
  training.aggregation_frequency =
      steps.at("aggregation_frequency").get<std::int64_t>();
  training.average_aggregated_gradients =
      steps.at("average_aggregated_gradients").get<bool>();
  training.average_training_metrics =
      steps.at("average_training_metrics").get<bool>();
  training.mixed_precision = steps.at("mixed_precision").get<std::string>();
  const Json& scale = steps.at("loss_scale");
  if (scale.is_number()) training.loss_scale = scale.get<double>();
  training.channels_last = Switch(steps.at("channels_last"));
  training.cuda_graphs = Switch(steps.at("cuda_graphs"));
  // Configurations that were recorded earlier have no such key.
  training.deterministic =
      json.at("reproducibility").value("deterministic", false);
  training.update_in_backward = steps.at("update_in_backward").get<bool>();
  // Configurations that were recorded earlier have no such key.
  if (steps.value("dataset_sink_mode", true)) {
    training.sink_size = steps.at("sink_size").get<std::int64_t>();
  }
  const Json& clip = steps.at("clip_gradients");
  if (!clip.is_null()) {
    training.clip_norm = Optional<double>(clip.at("norm"));
    training.clip_value = Optional<double>(clip.at("value"));
  }
  const Json& early = json.at("early_stopping");
  if (!early.is_null()) training.early_stopping = BuildEarlyStopping(early);
  const Json& searcher = json.at("searcher");
  training.searcher_metric = searcher.at("metric").get<std::string>();
  training.smaller_is_better = searcher.at("smaller_is_better").get<bool>();
  training.profile = json.at("profiling").at("enabled").get<bool>();
  return training;
}

SlotChoice BuildSlots(const Json& json) {
  if (json.is_array()) {
    return {.kind = SlotChoice::Kind::kIds,
            .gpus = json.get<std::vector<std::int64_t>>()};
  }
  const auto text = json.get<std::string>();
  if (text == "none") return {.kind = SlotChoice::Kind::kNone};
  if (text == "most_free") return {.kind = SlotChoice::Kind::kMostFree};
  if (text.starts_with("gpu:")) {
    return {.kind = SlotChoice::Kind::kGpu,
            .gpu_slots = std::stoll(text.substr(4))};
  }
  if (text.substr(0, 3) != "cpu") return {};
  SlotChoice slots{.kind = SlotChoice::Kind::kCpu};
  if (text.size() > 4) slots.cpu_slots = std::stoll(text.substr(4));
  return slots;
}

ResourcesConfig BuildResources(const Json& json) {
  ResourcesConfig resources;
  const Json& per_trial = json.at("slots_per_trial");
  resources.all_slots = per_trial == "all";
  if (!resources.all_slots) resources.slots_per_trial = per_trial.get<double>();
  resources.max_slots = Optional<std::int64_t>(json.at("max_slots"));
  resources.slots = BuildSlots(json.at("slots"));
  return resources;
}

CheckpointConfig BuildCheckpoints(const Json& json) {
  const Json& storage = json.at("checkpoint_storage");
  const auto count = [&](const char* name) {
    return storage.at(name).get<std::int64_t>();
  };
  return {.policy = json.at("checkpoint_policy").get<std::string>(),
          .save_experiment_best = count("save_experiment_best"),
          .save_trial_best = count("save_trial_best"),
          .save_trial_latest = count("save_trial_latest"),
          .path = TextOrEmpty(storage.at("path"))};
}

}  // namespace

SearcherConfig BuildSearcher(const Json& json) {
  SearcherConfig searcher;
  searcher.name = json.at("name").get<std::string>();
  searcher.metric = json.at("metric").get<std::string>();
  searcher.smaller_is_better = json.at("smaller_is_better").get<bool>();
  searcher.max_length = MaxLength(json).count;
  searcher.max_trials = json.value("max_trials", searcher.max_trials);
  searcher.max_concurrent_trials =
      json.value("max_concurrent_trials", searcher.max_concurrent_trials);
  if (json.contains("num_rungs")) {
    searcher.num_rungs =
        Optional<std::int64_t>(json.at("num_rungs")).value_or(0);
  }
  searcher.divisor = json.value("divisor", searcher.divisor);
  searcher.stop_once = json.value("stop_once", searcher.stop_once);
  searcher.mode = json.value("mode", searcher.mode);
  searcher.max_rungs = json.value("max_rungs", searcher.max_rungs);
  searcher.bracket_rungs = json.value("bracket_rungs", searcher.bracket_rungs);
  searcher.points = json.value("points", searcher.points);
  searcher.stops = json.value("stops", searcher.stops);
  return searcher;
}

ExperimentConfig BuildConfig(nlohmann::json effective) {
  ExperimentConfig config;
  config.name = effective.at("name").get<std::string>();
  config.description = TextOrEmpty(effective.at("description"));
  config.labels = effective.at("labels").get<std::vector<std::string>>();
  const Json& entrypoint = effective.at("entrypoint");
  if (entrypoint.is_string()) {
    config.entrypoint = entrypoint.get<std::string>();
  } else {
    config.entrypoint = entrypoint.get<std::vector<std::string>>();
  }
  config.hyperparameters = effective.at("hyperparameters");
  config.data = effective.at("data");
  const Json& searcher = effective.at("searcher");
  config.searcher = BuildSearcher(searcher);
  config.length_unit = MaxLength(searcher).unit;
  config.source_trial_id = TextOrEmpty(searcher.at("source_trial_id"));
  config.source_checkpoint_uuid =
      TextOrEmpty(searcher.at("source_checkpoint_uuid"));
  config.training = BuildTraining(effective);
  config.resources = BuildResources(effective.at("resources"));
  config.checkpoints = BuildCheckpoints(effective);
  config.max_restarts = effective.at("max_restarts").get<std::int64_t>();
  config.experiment_seed = Optional<std::uint32_t>(
      effective.at("reproducibility").at("experiment_seed"));
  config.trial_seed =
      Optional<std::uint32_t>(effective.at("reproducibility").at("trial_seed"));
  config.time_limit = Optional<double>(effective.at("time_limit"));
  config.hang_timeout = effective.at("hang_timeout").get<double>();
  config.effective = std::move(effective);
  return config;
}

}  // namespace dtrain
