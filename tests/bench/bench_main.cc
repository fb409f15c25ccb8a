// dtrain-bench: measurements of scripts/bench that call the engine directly.
// Each mode prints one JSON object, except serve-task, which answers lines.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/os/installation.h"
#include "engine/process/local_launcher.h"
#include "engine/ranks/shared_memory.h"
#include "engine/run/experiment.h"
#include "engine/run/runner.h"
#include "tests/bench/compute_bench.h"
#include "tests/bench/learning_curves.h"
#include "tests/bench/scale_bench.h"
#include "tests/bench/search_bench.h"
#include "tests/support/fake_launcher.h"

namespace dtrain {
namespace {

using nlohmann::json;
using std::chrono::seconds;

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Milliseconds from Launcher::Start until the trial was constructed and until
// it had finished its first step.
struct StartTimes {
  double constructed = 0;
  double first_step = 0;
};

StartTimes StartOnce(Launcher& launcher, const TrialSpec& spec,
                     const Clock& clock) {
  StartTimes times;
  const Duration start = clock.monotonic();
  launcher.Start(spec);
  while (true) {
    const LaunchEvent event = launcher.Wait(seconds(10));
    const double now = Milliseconds(clock.monotonic() - start);
    if (std::get_if<TrialExited>(&event)) return times;
    const auto* said = std::get_if<MessageReceived>(&event);
    if (said == nullptr) continue;
    if (std::get_if<Ready>(&said->message)) times.constructed = now;
    const auto* report = std::get_if<TrainingReport>(&said->message);
    if (report != nullptr && times.first_step == 0) {
      times.first_step = now;
      launcher.Kill(spec.id);
    }
  }
}

json StartLatency(const std::filesystem::path& scratch) {
  const Clock clock = Clock::System();
  ResourcesConfig resources;
  resources.slots.kind = SlotChoice::Kind::kCpu;
  const auto launcher = MakeLocalLauncher(
      {.experiment = 1,
       .slots = PlanSlots(resources, {}, UsableCpus(), /*trials_at_once=*/1),
       .layout = StoreLayout(scratch),
       .host = FindTrialHost()});
  std::vector<double> constructed;
  std::vector<double> first_step;
  constexpr int kStarts = 31;  // besides the first, which waits for the host
  for (int i = 0; i <= kStarts; ++i) {
    TrialSpec spec;
    spec.id = {1, i + 1};
    spec.entrypoint = "digits:LeNetTrial";
    spec.hparams = {{"global_batch_size", 32},
                    {"train_samples", 256},
                    {"validation_samples", 64},
                    {"data", ""}};
    const StoreLayout layout(scratch);
    std::filesystem::create_directories(layout.Experiment(spec.id.experiment));
    spec.directory = layout.Trial(spec.id).string();
    spec.until = Length{.count = 1000};
    spec.settings.scheduling_unit = 1;
    const StartTimes times = StartOnce(*launcher, spec, clock);
    if (i == 0) continue;
    constructed.push_back(times.constructed);
    first_step.push_back(times.first_step);
  }
  return {{"starts", kStarts},
          {"start_to_constructor_ms_median", Median(constructed)},
          {"start_to_first_step_ms_median", Median(first_step)}};
}

json MetricRows(const std::filesystem::path& scratch) {
  const std::string yaml =
      "name: metric rows\n"
      "entrypoint: builtin:FaultTrial\n"
      "hyperparameters: {metrics: 6}\n"
      "scheduling_unit: 1\n"
      "searcher: {name: single, metric: loss, max_length: 50000}\n"
      "max_restarts: 0\n";
  const Clock clock = Clock::System();
  const ConfigResult read = ReadConfig(yaml, {.file_name = "bench.yaml"});
  Store store = Store::OpenForWriting(StoreLayout(scratch));
  const std::int64_t id =
      CreateExperiment(store, read.config.value(), yaml, json::object(), clock);
  Reporter quiet;
  ExperimentRunner runner(store, id, *read.config, clock);
  const auto launcher = MakeLocalLauncher({.experiment = id,
                                           .slots = runner.slots(),
                                           .layout = store.layout(),
                                           .host = FindTrialHost(),
                                           .inherited = runner.trials_lock(),
                                           .clock = clock});
  const RunResult result = runner.Run(*launcher, {}, quiet);
  std::int64_t rows = 0;
  store.ForEachMetric({.experiment = id}, [&](const MetricRow&) { ++rows; });
  const double trial_seconds = store.Trials(id).at(0).seconds;
  return {{"state", StateName(result.state)},
          {"metric_rows", rows},
          {"seconds", trial_seconds},
          {"metric_rows_per_second", rows / trial_seconds}};
}

// A search like that of configs/digits_asha.yaml.
std::string SearchYaml(std::int64_t trials) {
  return "name: search and store\n"
         "entrypoint: builtin:FaultTrial\n"
         "hyperparameters:\n"
         "  x: {type: double, minval: 0, maxval: 1}\n"
         "  lr: {type: log, base: 10, minval: -5, maxval: -1}\n"
         "  layers: {type: int, minval: 1, maxval: 8}\n"
         "searcher: {name: asha, metric: loss, max_length: 16, num_rungs: 3,\n"
         "  divisor: 4, max_trials: " +
         std::to_string(trials) +
         ", max_concurrent_trials: 2}\n"
         "scheduling_unit: 1\n"
         "max_restarts: 0\n";
}

// Runs a search without processes; its trials send `reports` training reports
// in each operation.
json RunSearch(Store& store, const std::string& yaml, std::int64_t trials,
               int reports, Outbox::Sync sync) {
  const Clock clock = Clock::System();
  const ConfigResult read = ReadConfig(yaml, {.file_name = "bench.yaml"});
  const std::int64_t id =
      CreateExperiment(store, read.config.value(), yaml, json::object(), clock);
  FakeLauncher launcher(/*slots=*/2);
  // One message at a time, as if none arrived while another was handled.
  launcher.one_at_a_time = true;
  launcher.notes_calls = false;
  ScriptedTrials scripted(launcher);
  scripted.reports = reports;
  scripted.loss = ScriptedTrials::Hash;
  Reporter quiet;
  Experiment experiment(
      {.id = id, .config = *read.config, .seed = 1, .slots = 2, .sync = sync},
      {.store = store,
       .launcher = launcher,
       .reporter = quiet,
       .clock = clock});
  const Duration start = clock.monotonic();
  const RunResult result = experiment.Run();
  const std::chrono::duration<double, std::milli> spent =
      clock.monotonic() - start;
  const auto count = static_cast<double>(trials);
  return {{"state", StateName(result.state)},
          {"events", store.SearcherEvents(id, 0).size()},
          {"transactions_per_trial",
           static_cast<double>(experiment.transactions()) / count},
          {"ms_per_trial", spent.count() / count}};
}

// Measures the search and the store alone: runs ASHA over `trials` trivial
// trials (10 reports, 1 step) without processes on a store on disk in
// `scratch`, once with every transaction in synchronous NORMAL, once with FULL
// where dtrain asks for it, and once with FULL always.
json SearchStore(const std::filesystem::path& scratch, std::int64_t trials) {
  using Sync = Outbox::Sync;
  const auto run = [&](const char* directory, Sync sync) {
    Store store = Store::OpenForWriting(StoreLayout(scratch / directory));
    return RunSearch(store, SearchYaml(trials), trials, /*reports=*/10, sync);
  };
  return {{"trials", trials},
          {"normal", run("normal", Sync::kNever)},
          {"full_where_durable", run("durable", Sync::kWhereDurable)},
          {"full_always", run("full", Sync::kAlways)}};
}

// A random search over `axes` hyperparameters of all types.
std::string RandomSearchYaml(std::int64_t trials, int axes, int reports) {
  constexpr std::array<const char*, 4> kTypes = {
      "{type: double, minval: 0, maxval: 1}",
      "{type: log, base: 10, minval: -5, maxval: -1}",
      "{type: int, minval: 1, maxval: 64}",
      "{type: categorical, vals: [sgd, adam, adamw]}"};
  std::string space;
  for (int axis = 0; axis < axes; ++axis) {
    space += "  x" + std::to_string(axis) + ": " +
             kTypes[static_cast<std::size_t>(axis) % kTypes.size()] + "\n";
  }
  return "name: " + std::to_string(trials) + " trials\n" +
         "entrypoint: builtin:FaultTrial\nhyperparameters:\n" + space +
         "searcher: {name: random, metric: loss, max_length: " +
         std::to_string(reports) + ", max_trials: " + std::to_string(trials) +
         "}\nscheduling_unit: 1\nmax_restarts: 0\n";
}

// Fills a store with searches to look at. Trials of experiment 1 (200) and 2
// (10,000) have 100 rows of metrics, 3 (10,000) searches 32 hyperparameters, 4
// to 13 are searches of 500 trials with 20 rows.
json FillSearches(const std::filesystem::path& root) {
  Store store = Store::OpenForWriting(StoreLayout(root));
  const auto run = [&](std::int64_t trials, int axes, int rows) {
    const int reports = rows - 1;  // and a validation
    RunSearch(store, RandomSearchYaml(trials, axes, reports), trials, reports,
              Outbox::Sync::kNever);
  };
  run(200, 4, 100);
  run(10'000, 4, 100);
  run(10'000, 32, 2);
  for (int i = 0; i < 10; ++i) run(500, 4, 20);
  return {{"experiments", 13}, {"trials", 25'200}, {"metric_rows", 1'140'000}};
}

// Fills a store with 1,000 experiments of 10 trials with 100 metric rows each.
json FillStore(const std::filesystem::path& root) {
  Store store = Store::OpenForWriting(StoreLayout(root));
  for (int e = 0; e < 1000; ++e) {
    store.Write(
        [&](StoreWriter& writer) {
          const std::int64_t id = writer.AddExperiment(
              {.name = "experiment number " + std::to_string(e),
               .searcher = "random",
               .metric = "loss",
               .config = json::object(),
               .provenance = json::object(),
               .created = Timestamp(1'700'000'000'000'000 + e)});
          for (int t = 1; t <= 10; ++t) {
            const TrialId trial{id, t};
            writer.AddTrial({.id = trial, .hparams = {{"lr", 0.1 / t}}});
            for (int b = 1; b <= 50; ++b) {
              writer.AddMetrics(trial, MetricKind::kTraining, b * 100, b,
                                {{"loss", 1.0 / b}, {"lr", 0.1}}, Timestamp(b));
            }
            writer.AddValidation(trial, 1.0 / t, 5000, true);
            writer.SetTrialState(trial, State::kCompleted, Timestamp(e + t));
          }
          writer.SetExperimentState(id, State::kCompleted, Timestamp(e + 100));
        },
        /*durable=*/false);
  }
  return {{"experiments", 1000}, {"trials", 10000}, {"metric_rows", 1000000}};
}

// Runs `all-reduce [--ranks N] [--bytes B]`; returns null if `words` is
// different.
json AllReduce(const std::vector<std::string>& words) {
  std::int64_t ranks = 2;
  std::int64_t bytes = 46'800'000;  // the gradients of a ResNet-18
  for (std::size_t i = 1; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return nullptr;
    const std::int64_t number = std::atoll(words[i + 1].c_str());
    if (words[i] == "--ranks" && number >= 1 && number <= kMaxRanks) {
      ranks = number;
    } else if (words[i] == "--bytes" && number >= 4) {
      bytes = number;
    } else {
      return nullptr;
    }
  }
  return AllReduceTime(static_cast<int>(ranks), bytes);
}

// Runs `scale DIRECTORY [OPTION...]`; returns null if `words` is different.
json Scale(const std::vector<std::string>& words) {
  if (words.size() < 2) return nullptr;
  ScaleOptions options{.directory = std::filesystem::absolute(words[1])};
  std::map<std::string, std::int64_t*> numbers = {
      {"--slots", &options.slots},
      {"--trials", &options.trials},
      {"--seconds", &options.seconds}};
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--cpu-time") {
      options.cpu_time = true;
      continue;
    }
    const auto number = numbers.find(words[i]);
    if (number == numbers.end() || ++i == words.size()) return nullptr;
    *number->second = std::atoll(words[i].c_str());
    if (*number->second < 1 || *number->second > 1'000'000) return nullptr;
  }
  return SearchAtScale(options);
}

// Applies an option of simulate-search; false if it is invalid.
bool SetSimulation(const std::string& name, const std::string& value,
                   SearchSimulations& options) {
  double number = 0;
  const char* end = value.data() + value.size();
  const bool is_number =
      std::from_chars(value.data(), end, number).ptr == end && number <= 1e6;
  const bool is_count =
      is_number && number >= 1 && number == std::floor(number);
  if (name == "--reference") {
    options.reference = value;
  } else if (name == "--space") {
    options.space = value;
  } else if (name == "--seeds" && is_count) {
    options.seeds = static_cast<std::uint32_t>(number);
  } else if (name == "--workers" && is_count) {
    options.workers = static_cast<int>(number);
  } else if (name == "--budget" && is_number && number > 0) {
    options.budget = number;
  } else {
    return false;
  }
  return true;
}

// Runs `simulate-search TASK SEARCHER... [OPTION...]`; returns null if `words`
// is different.
json SimulateSearch(const std::vector<std::string>& words) {
  if (words.size() < 3) return nullptr;
  SearchSimulations options;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--trajectories") {
      options.trajectories = true;
    } else if (!words[i].starts_with("--")) {
      options.searchers.push_back(words[i]);
    } else if (i + 1 == words.size() ||
               !SetSimulation(words[i], words[i + 1], options)) {
      return nullptr;
    } else {
      ++i;
    }
  }
  if (options.searchers.empty()) return nullptr;
  json result = SimulateSearches(*OpenSearchTask(words[1]), options);
  result["task"] = words[1];
  return result;
}

// Runs the mode that the arguments name; returns null if they are invalid.
json Measure(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "simulate-search") {
    return SimulateSearch(words);
  }
  if (!words.empty() && words[0] == "scale") return Scale(words);
  if (!words.empty() && words[0] == "all-reduce") return AllReduce(words);
  if (words == std::vector<std::string>{"conv"}) return ConvTimes();
  if (words.size() == 2 && words[0] == "images") return ImageTimes(words[1]);
  if (words.size() == 2 && words[0] == "cached-images") {
    return CachedImageTimes(words[1]);
  }
  const bool search = !words.empty() && words[0] == "search-store";
  const bool counted =
      search && words.size() == 3 && std::atoll(words[2].c_str()) > 0;
  if (words.size() != 2 && !counted) return nullptr;
  const std::filesystem::path directory = std::filesystem::absolute(words[1]);
  const std::int64_t trials = counted ? std::atoll(words[2].c_str()) : 1000;
  return search                        ? SearchStore(directory, trials)
         : words[0] == "start-latency" ? StartLatency(directory)
         : words[0] == "metric-rows"   ? MetricRows(directory)
         : words[0] == "fill-searches" ? FillSearches(directory)
                                       : FillStore(directory);
}

int Main(const std::vector<std::string>& words) {
  try {
    if (words.size() >= 2 && words.size() <= 3 && words[0] == "serve-task") {
      ServeTask(*OpenSearchTask(words[1]), words.size() == 3 ? words[2] : "",
                std::cin, std::cout);
      return 0;
    }
    const json result = Measure(words);
    if (result.is_null()) {
      std::cerr << "usage: dtrain-bench start-latency|metric-rows|fill-store|"
                   "fill-searches EMPTY_DIRECTORY\n"
                   "       dtrain-bench search-store EMPTY_DIRECTORY [TRIALS]\n"
                   "       dtrain-bench all-reduce [--ranks N] [--bytes B]\n"
                   "       dtrain-bench conv\n"
                   "       dtrain-bench images DIRECTORY_OF_CLASSES\n"
                   "       dtrain-bench cached-images DIRECTORY_OF_CLASSES\n"
                   "       dtrain-bench simulate-search TASK SEARCHER... "
                   "[--seeds N] [--workers N]\n"
                   "                    [--budget N] [--reference FILE] "
                   "[--space FLOW_MAP]\n"
                   "                    [--trajectories]\n"
                   "       dtrain-bench scale EMPTY_DIRECTORY "
                   "[--slots N] [--trials N]\n"
                   "                    [--seconds N] [--cpu-time]\n"
                   "       dtrain-bench serve-task TASK [REFERENCE_FILE]\n";
      return 2;
    }
    std::cout << result.dump(2) << "\n";
    return 0;
  } catch (const Error& error) {
    std::cerr << "dtrain-bench: " << error.what() << "\n";
    return error.kind() == ErrorKind::kUsage ? 2 : 1;
  }
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  return dtrain::Main({argv + 1, argv + argc});
}
