// `dtrain workers`: the table that the runner keeps in a file of the
// experiment.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/stores.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"
#include "engine/nodes/worker_table.h"
#include "engine/report/format.h"
#include "engine/run/runner_lock.h"

namespace dtrain {
namespace {

struct WorkersOptions : TableOptions {
  std::string experiment;
};

std::optional<std::int64_t> SecondsLeft(const WorkerRow& row, Timestamp now) {
  if (!row.until) return std::nullopt;
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(
      std::max(*row.until - now, Timestamp(0)));
  return left.count();
}

nlohmann::json WorkerJson(const WorkerRow& row, Timestamp now) {
  using nlohmann::json;
  const auto left = SecondsLeft(row, now);
  return {{"id", row.id},
          {"name", row.name.empty() ? json(nullptr) : json(row.name)},
          {"host", row.host},
          {"job", row.job.empty() ? json(nullptr) : json(row.job)},
          {"state", StateName(row.state)},
          {"gpus", row.gpus},
          {"slots", row.slots},
          {"used", row.used},
          {"trials", row.trials},
          {"joined", FormatTimestamp(row.joined)},
          {"seconds_left", left ? json(*left) : json(nullptr)}};
}

// Slurm is asked for the states every few seconds, and a worker may be faster.
nlohmann::json JobJson(const JobRow& job, bool has_worker) {
  using nlohmann::json;
  const bool pending = job.pending && !has_worker && !job.served;
  const bool reason = pending && !job.reason.empty();
  return {{"id", job.id},
          {"state", pending ? "pending" : "running"},
          {"reason", reason ? json(job.reason) : json(nullptr)},
          {"nodes", job.nodes.empty() ? json(nullptr) : json(job.nodes)}};
}

Table WorkersTable(const WorkerTable& workers, Timestamp now) {
  Table table({{.name = "id", .right = true},
               {.name = "name", .elastic = true},
               {.name = "host", .elastic = true},
               {.name = "job"},
               {.name = "state"},
               {.name = "slots", .right = true},
               {.name = "used", .right = true},
               {.name = "time left", .right = true},
               {.name = "trials", .elastic = true}});
  for (const WorkerRow& row : workers.workers) {
    const auto left = SecondsLeft(row, now);
    table.AddRow({std::to_string(row.id), row.id == 0 ? "(runner)" : row.name,
                  row.host, row.job, std::string(StateName(row.state)),
                  std::to_string(row.slots), std::to_string(row.used),
                  left ? FormatElapsed(std::chrono::seconds(*left)) : "",
                  Join(row.trials, ", ")});
  }
  for (const JobRow& job : workers.JobsWithoutWorkers()) {
    table.AddRow({"", "", job.nodes, job.id, job.StateText(), "", "", "", ""});
  }
  return table;
}

int Workers(const WorkersOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const std::int64_t id = ResolveExperiment(store, options.experiment);
  const ExperimentDetail detail = FindExperimentDetail(store, id);
  const StoreLayout& layout = store.layout();
  const bool running = RunnerLock::Holder(layout.RunnerLock(id)).has_value();
  std::optional<WorkerTable> workers;
  if (running) workers = ReadWorkers(layout.WorkerTable(id));
  if (!workers) {
    const bool accepts =
        ConfigFromJson(detail.config).resources.listen.has_value();
    PrintNotice(globals,
                "experiment " + std::to_string(id) +
                    (!running  ? " does not run, so it has no workers"
                     : accepts ? " is starting, so it has no workers yet"
                               : " accepts no workers; see resources.listen"));
  }
  const WorkerTable table = workers.value_or(WorkerTable{});
  const Timestamp now = Clock::System().now();
  if (!options.json) {
    PrintTable(WorkersTable(table, now), options.format(), globals);
    return kExitDone;
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const WorkerRow& row : table.workers) {
    rows.push_back(WorkerJson(row, now));
  }
  nlohmann::json jobs = nlohmann::json::array();
  for (const JobRow& job : table.jobs) {
    jobs.push_back(JobJson(job, table.HasWorker(job)));
  }
  PrintJson({{"experiment", id},
             {"demand", table.demand},
             {"workers", std::move(rows)},
             {"jobs", std::move(jobs)}});
  return kExitDone;
}

}  // namespace

CommandRun SetUpWorkers(CLI::App& app) {
  auto options = std::make_shared<WorkersOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment ID (3)").Required();
  AddTableOptions(app, *options);
  SetHelp(
      app,
      {.exits = {{kExitDone}, {kExitUsage}, {kExitNotFound}, {kExitStore}},
       .examples = {{"Show the machines that run trials", "dtrain workers 3"},
                    {"Print the slots that are in use",
                     "dtrain workers 3 --json | jq '[.workers[].used] | "
                     "add'"}}});
  return RunWith(Workers, options);
}

}  // namespace dtrain
