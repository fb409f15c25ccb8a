#include "tests/bench/search_store.h"

#include <string>
#include <utility>

#include "engine/run/experiment.h"
#include "engine/run/runner.h"
#include "tests/support/fake_launcher.h"
#include "tests/support/scripted_trials.h"

namespace dtrain {
namespace {

using nlohmann::json;

// As `digits_asha.yaml`: a metric, and a few hyperparameters.
std::string Yaml(std::int64_t trials) {
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

json Play(const std::filesystem::path& root, std::int64_t trials,
          Outbox::Sync sync) {
  const Clock clock = Clock::System();
  const std::string yaml = Yaml(trials);
  const ConfigResult read = ReadConfig(yaml, {.file_name = "bench.yaml"});
  Store store = Store::OpenForWriting(StoreLayout(root));
  const std::int64_t id =
      CreateExperiment(store, read.config.value(), yaml, json::object(), clock);
  FakeLauncher launcher(/*slots=*/2);
  // Each message by itself, as if none came while another was handled.
  launcher.one_at_a_time = true;
  launcher.notes_calls = false;
  ScriptedTrials scripted(launcher);
  scripted.reports = 10;
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

}  // namespace

json SearchStore(const std::filesystem::path& scratch, std::int64_t trials) {
  using Sync = Outbox::Sync;
  return {{"trials", trials},
          {"normal", Play(scratch / "normal", trials, Sync::kNever)},
          {"full_where_durable",
           Play(scratch / "durable", trials, Sync::kWhereDurable)},
          {"full_always", Play(scratch / "full", trials, Sync::kAlways)}};
}

}  // namespace dtrain
