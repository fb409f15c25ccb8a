#include "tests/support/sample_store.h"

#include <limits>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

constexpr char kAlphaYaml[] = "name: alpha # as typed\n";

nlohmann::json Config() {
  const ConfigResult result = ReadConfig(
      "name: alpha\n"
      "entrypoint: builtin:FaultTrial\n"
      "hyperparameters:\n"
      "  lr: {type: double, minval: 0, maxval: 1}\n"
      "  batch: 32\n"
      "searcher: {name: random, metric: loss, max_length: 10, max_trials: 2}\n",
      {.file_name = "sample.yaml"});
  return result.config.value().effective;
}

NewExperiment Experiment(const std::string& name) {
  return {.name = name,
          .labels = {"night"},
          .searcher = "random",
          .metric = "loss",
          .seed = 7,
          .yaml = kAlphaYaml,
          .config = Config(),
          .provenance = {{"host", "box"}, {"argv", {"dtrain", "create"}}},
          .created = Timestamp(1'000'000)};
}

void AddTrial(StoreWriter& w, TrialId id, double lr) {
  w.AddTrial({.id = id,
              .request_id = "request",
              .hparams = {{"lr", lr}, {"batch", 32}},
              .created = Timestamp(1'000'000)});
  w.SetTrialState(id, State::kRunning, Timestamp(2'000'000));
}

void Validate(StoreWriter& w, TrialId id, std::int64_t batches, double loss) {
  const Timestamp time(3'000'000 + batches);
  w.AddMetrics(id, MetricKind::kTraining, batches, 0.5, {{"loss", loss + 1}},
               time);
  w.AddMetrics(id, MetricKind::kValidation, batches, 0.5,
               {{"loss", loss}, {"accuracy", 1 - loss}}, time);
  w.AddValidation(id, loss, batches, /*smaller_is_better=*/true);
}

void Checkpoint(StoreWriter& w, TrialId id, const std::string& uuid) {
  w.AddCheckpoint({.uuid = uuid,
                   .trial = id,
                   .state = "COMPLETED",
                   .batches = 100,
                   .epoch = 0.5,
                   .bytes = 12'345'678,
                   .files = {{"state.json", "00"}},
                   .time = Timestamp(4'000'000)});
}

void Profile(StoreWriter& w, TrialId id, std::int64_t batches) {
  w.AddProfile(id, {.batches = batches,
                    .trained = 100,
                    .samples = 6'400,
                    .seconds = {0.1, 0.4, 0.8, 0, 0.2, 0.1, 0.3, 0.1, 0},
                    .minor_faults = 250,
                    .peak_bytes = 12'300'000,
                    .time = Timestamp(4'000'000)});
}

void FillAlpha(StoreWriter& w) {
  const std::int64_t id = w.AddExperiment(Experiment("alpha"));
  w.SetExperimentState(id, State::kRunning, Timestamp(2'000'000));
  AddTrial(w, {id, 1}, 0.5);
  AddTrial(w, {id, 2}, 0.25);
  Validate(w, {id, 1}, 100, 0.75);
  Validate(w, {id, 2}, 100, 0.25);
  w.AddMetrics({id, 2}, MetricKind::kValidation, 200, 1,
               {{"loss", std::numeric_limits<double>::quiet_NaN()}},
               Timestamp(5'000'000));
  Profile(w, {id, 2}, 100);
  Profile(w, {id, 2}, 200);
  Checkpoint(w, {id, 2}, "0a1b2c3d-0000-4000-8000-000000000001");
  w.SetTrialRung({id, 1}, 2);
  w.SetTrialRung({id, 2}, 1);
  w.SetTrialState({id, 1}, State::kError, Timestamp(6'000'000), "exit code 1");
  w.SetTrialState({id, 2}, State::kCompleted, Timestamp(6'000'000));
  w.SetExperimentProgress(id, 1);
  w.AddExperimentSeconds(id, 5);
  w.SetExperimentState(id, State::kCompleted, Timestamp(7'000'000));
}

void Log(const StoreLayout& layout, TrialId id,
         const std::vector<LogRecord>& records) {
  std::filesystem::create_directories(layout.Trial(id));
  TrialLogWriter writer(layout.TrialLog(id));
  for (const LogRecord& record : records) writer.Append(record);
  writer.Flush();
}

nlohmann::json AccuracyConfig() {
  const ConfigResult result = ReadConfig(
      "name: delta\n"
      "entrypoint: builtin:FaultTrial\n"
      "hyperparameters:\n"
      "  lr: {type: double, minval: 0, maxval: 1}\n"
      "searcher: {name: random, metric: accuracy, smaller_is_better: false, "
      "max_length: 100, max_trials: 3}\n"
      "checkpoint_storage: {save_experiment_best: 1, save_trial_best: 0, "
      "save_trial_latest: 0}\n",
      {.file_name = "accuracy.yaml"});
  return result.config.value().effective;
}

void AddAccurateTrial(StoreWriter& w, TrialId id, double at_50, double at_100) {
  AddTrial(w, id, 0.5);
  for (const auto& [batches, accuracy] :
       {std::pair<std::int64_t, double>(50, at_50), {100, at_100}}) {
    w.AddMetrics(id, MetricKind::kValidation, batches, 0.5,
                 {{"accuracy", accuracy},
                  {"speed", static_cast<double>(1000 * id.number + batches)}},
                 Timestamp(3'000'000 + batches));
    w.AddValidation(id, accuracy, batches, /*smaller_is_better=*/false);
  }
  w.SetTrialState(id, State::kCompleted, Timestamp(6'000'000));
}

}  // namespace

void AddAccuracySearch(const std::filesystem::path& root) {
  Store store = Store::OpenForWriting(StoreLayout(root));
  store.Write([](StoreWriter& w) {
    const std::int64_t id = w.AddExperiment({.name = "delta",
                                             .labels = {"day", "night"},
                                             .searcher = "random",
                                             .metric = "accuracy",
                                             .smaller_is_better = false,
                                             .seed = 8,
                                             .yaml = kAlphaYaml,
                                             .config = AccuracyConfig(),
                                             .provenance = {{"host", "box"}},
                                             .created = Timestamp(1'000'000)});
    AddAccurateTrial(w, {id, 1}, 0.5, 0.25);
    AddAccurateTrial(w, {id, 2}, 0.9, 0.75);
    AddAccurateTrial(w, {id, 3}, 0.1, 0.6);
    w.SetExperimentState(id, State::kCompleted, Timestamp(7'000'000));
  });
}

void FillSampleStore(const std::filesystem::path& root) {
  const StoreLayout layout(root);
  Store store = Store::OpenForWriting(layout);
  store.Write([](StoreWriter& w) {
    FillAlpha(w);
    const std::int64_t evil =
        w.AddExperiment(Experiment("\x1b]0;owned\x07../../x\n$(touch canary)"));
    w.SetExperimentState(evil, State::kRunning, Timestamp(2'000'000));
    const std::int64_t failed = w.AddExperiment(Experiment("gamma"));
    w.SetExperimentState(failed, State::kError, Timestamp(2'000'000),
                         "every trial failed");
  });
  std::filesystem::create_directories(layout.Experiment(2));
  Log(layout, {1, 1},
      {{.time = Timestamp(2'000'010), .text = "first"},
       {.time = Timestamp(2'000'030),
        .from_stderr = true,
        .level = LogLevel::kError,
        .text = "third \x1b[2J\xff"}});
  Log(layout, {1, 2},
      {{.time = Timestamp(2'000'020),
        .level = LogLevel::kWarning,
        .text = "second"},
       {.time = Timestamp(2'000'040), .rank = 1, .text = "fourth"}});
}

std::string AddCheckpoint(const StoreLayout& layout, TrialId trial,
                          std::int64_t batches, char digit,
                          const std::string& model, const std::string& state) {
  const std::string uuid =
      std::string(8, digit) + "-0000-4000-8000-000000000000";
  std::filesystem::create_directories(layout.Trial(trial));
  CheckpointWriter files(layout.Checkpoint(trial, uuid));
  files.Write("model.safetensors", model);
  files.Write("state.json", state);
  const WrittenCheckpoint written = files.Commit();
  Store store = Store::OpenForWriting(layout);
  store.Write([&](StoreWriter& writer) {
    writer.AddCheckpoint({.uuid = uuid,
                          .trial = trial,
                          .state = "COMPLETED",
                          .batches = batches,
                          .bytes = written.bytes,
                          .files = written.files,
                          .time = Timestamp(1)});
  });
  return uuid;
}

}  // namespace dtrain
