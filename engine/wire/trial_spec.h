#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

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
  std::string mixed_precision = "none";  // none, tf32, bf16, fp16
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
  // False: a validation may lack searcher_metric, since nothing is searched.
  bool requires_metric = true;
  bool smaller_is_better = true;
  // Metric of a program that gives its count (searcher.time_metric), or "".
  std::string time_metric;
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
    field("requires_metric", m.requires_metric);
    field("smaller_is_better", m.smaller_is_better);
    field("time_metric", m.time_metric);
    field("profile", m.profile);
  }
};

/// Location of the metrics of a program that does not report them itself (key
/// `metrics` of the YAML).
struct MetricSource {
  // A file of rows or a directory of event files, relative to the program's
  // working directory; at most one. Neither: what the program prints.
  std::string file;
  std::string tensorboard;
  // By the metric: the regular expression (RE2) whose group captures its value,
  // its column or its tag. Empty: every column of the file.
  std::map<std::string, std::string> names;
  // Expression for the lines that begin a step, or for those that end one; or
  // the step's column.
  std::string step;
  std::string step_end;
  // The first step of training, 0 or 1; empty: steps are lengths as printed.
  std::optional<std::int64_t> first_step;
  // The first values of a step are its result, not the last ones.
  bool first_value = false;

  bool is_printed() const { return file.empty() && tensorboard.empty(); }

  static void Fields(auto& field, auto& m) {
    field("file", m.file);
    field("tensorboard", m.tensorboard);
    field("names", m.names);
    field("step", m.step);
    field("step_end", m.step_end);
    field("first_step", m.first_step, 0, 1);
    field("first_value", m.first_value);
  }
};

/// A trial as users name it: experiment 3, trial 7 is "3.7".
struct TrialId {
  std::int64_t experiment = 0;
  std::int64_t number = 0;  // from 1

  friend auto operator<=>(const TrialId&, const TrialId&) = default;

  static void Fields(auto& field, auto& m) {
    field("experiment", m.experiment, 1);
    field("trial", m.number, 1);
  }
};

/// "EXP.N".
inline std::string ToString(TrialId id) {
  return std::to_string(id.experiment) + "." + std::to_string(id.number);
}

/// Environment variable of a rank of several: the number of the descriptor that
/// it opens its process group with, see engine/ranks/process_group.h: the
/// memory that it shares with the others or, in rank 0 of a trial on several
/// machines, the socket that the others connect to.
inline constexpr const char* kRankFdVariable = "DTRAIN_RANK_FD";

/// Environment variable of a trial's process that has GPUs: their indices and
/// UUIDs, "GPU 3 (GPU-4f1c…)", for messages. The process itself sees them as 0,
/// 1, and so on.
inline constexpr const char* kGpuNamesVariable = "DTRAIN_GPU_NAMES";

/// Address at which the ranks of a trial on several machines meet.
struct RankAddress {
  std::string host;  // of rank 0
  int port = 0;      // in the order to start rank 0, 0: any
  // Their secret. Between machines, a random text that the secret is made from.
  std::string token;
  int ranks_here = 1;  // on this machine, from the specification's rank on

  static void Fields(auto& field, auto& m) {
    field("host", m.host);
    field("port", m.port, 0, 65535);
    field("token", m.token);
    field("ranks_here", m.ranks_here, 1);
  }
};

/// Task of a trial's process.
enum class Task {
  kTrain,
  // Apply the model of `warm_start` to a split. Evaluation sends Progress and
  // one ValidationReport; prediction writes the model's outputs, and features
  // the inputs of its last layer, for each sample.
  kEvaluate,
  kPredict,
  kFeatures,
  // Only check that the model accepts the weights of `warm_start`.
  kLoad,
};

/// Their names, in the order of Task.
inline std::span<const std::string_view> EnumNames(Task) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "train", "evaluate", "predict", "features", "load"};
  return kNames;
}

/// The description of a trial's process: the first line on its control socket,
/// see engine/wire/message.h.
struct TrialSpec {
  TrialId id;
  Task task = Task::kTrain;
  // For every task but kTrain: "training", "validation" or "test", and the
  // largest number of its samples to use; 0: all.
  std::string split;
  std::int64_t limit = 0;
  // Images to predict on instead of a split: a file that holds their paths,
  // each ended by a zero byte. Or empty.
  std::string images;
  std::int64_t run = 0;  // 0 in the trial's first process; restarts count up
  std::string entrypoint;
  // The library that has the entrypoint, absolute; empty: a built-in model.
  std::string library;
  // A program and its arguments instead of a model, and the directory to
  // execute it in.
  std::vector<std::string> command;
  // The command's words have placeholders, see engine/base/placeholders.h.
  bool placeholders = false;
  std::int64_t rules = 2;  // version, see kCurrentRules
  // Empty: the program reports them.
  std::optional<MetricSource> metrics;
  std::string context;
  // The stored context that `context`, the trial's own copy, is made from if it
  // does not exist; empty: `context` is a directory of the user's.
  std::string master;
  nlohmann::json hparams = nlohmann::json::object();
  // For a program: the values that its searched hyperparameters choose from,
  // see Alternatives().
  nlohmann::json alternatives = nlohmann::json::object();
  nlohmann::json data = nlohmann::json::object();
  std::uint32_t seed = 0;
  // A trial of several ranks has that many processes, each with its own rank.
  int rank = 0;
  int world_size = 1;
  std::optional<RankAddress> address;  // empty: all ranks are on this machine
  // Seconds that an exchange between ranks on GPUs may take; empty: NCCL's
  // default.
  std::optional<double> nccl_timeout;
  int threads = 1;        // intra-op threads
  std::vector<int> gpus;  // ordinals of this rank's devices; empty: CPU
  double gpu_share = 1;   // of its one GPU, which other trials may share
  std::string directory;  // the trial's own, absolute
  // Directory of its checkpoints, absolute; empty: checkpoints/ in `directory`.
  std::string checkpoints;
  std::string restore;  // UUID of the checkpoint to resume from, or empty
  // Directory of a checkpoint whose weights to start from with counters at 0,
  // or empty.
  std::string warm_start;
  // Completed operations, ascending. Those beyond `restore` are repeated
  // without reports, because the checkpoints after it are lost.
  std::vector<Length> completed;
  // The first operation: train to this absolute length.
  std::optional<Length> until;
  // The longest length that the search can ask a program for.
  std::optional<Length> max_length;
  // The search stops trials instead of pausing and promoting them.
  bool stops_trials = false;
  TrainerSettings settings;

  /// The directory of its checkpoint `uuid`.
  std::string CheckpointPath(const std::string& uuid) const {
    return (checkpoints.empty() ? directory + "/checkpoints" : checkpoints) +
           "/" + uuid;
  }

  static void Fields(auto& field, auto& m) {
    TrialId::Fields(field, m.id);
    field("task", m.task);
    field("split", m.split);
    field("limit", m.limit);
    field("images", m.images);
    field("run", m.run);
    field("entrypoint", m.entrypoint);
    field("library", m.library);
    field("command", m.command);
    field("placeholders", m.placeholders);
    field("rules", m.rules);
    field("metrics", m.metrics);
    field("context", m.context);
    field("master", m.master);
    field("hparams", m.hparams);
    field("alternatives", m.alternatives);
    field("data", m.data);
    field("seed", m.seed);
    field("rank", m.rank);
    field("world_size", m.world_size, 1);
    field("address", m.address);
    field("nccl_timeout", m.nccl_timeout);
    field("threads", m.threads, 1);
    field("gpus", m.gpus);
    field("gpu_share", m.gpu_share, 0.25, 1.0);
    field("directory", m.directory);
    field("checkpoints", m.checkpoints);
    field("restore", m.restore);
    field("warm_start", m.warm_start);
    field("completed", m.completed);
    field("until", m.until);
    field("max_length", m.max_length);
    field("stops_trials", m.stops_trials);
    field("settings", m.settings);
  }
};

}  // namespace dtrain
