// Workers from Slurm: what the runner knows of its workers becomes the demand
// for jobs, and what becomes of the jobs is told to the runner.
//
// Workers come from one of two sources. JobSource submits jobs as there is work
// for them; in an allocation that exists already, StepSource starts one worker
// on each of its nodes. Slots of workers that someone else has started are
// deducted from the demand.

#include "engine/app/slurm_workers.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/nodes/distributed_env.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "engine/slurm/job_request.h"
#include "engine/slurm/slurm_jobs.h"
#include "engine/slurm/worker_step.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

// In the directory of an experiment: the script and the output of its jobs.
constexpr const char* kSlurmDirectory = "slurm";

using Notice = std::function<void(const std::string& line)>;

// Returns the argument of `dtrain worker --slots`: workers have the slots that
// the experiment names, or all GPUs of the job, or its CPUs.
std::string SlotsArgument(const ExperimentConfig& config) {
  using enum SlotChoice::Kind;
  const SlotChoice& slots = config.resources.slots;
  if (slots.kind == kCpu && slots.cpu_slots > 0) {
    return "cpu:" + std::to_string(slots.cpu_slots);
  }
  if (slots.kind == kGpu) return "gpu:" + std::to_string(slots.gpu_slots);
  if (slots.kind == kAuto && config.slurm.gpus_per_node) {
    return "gpu:" + std::to_string(*config.slurm.gpus_per_node);
  }
  const bool named = config.slurm.cpus_per_task || slots.kind == kNone;
  if (slots.kind == kMaxFree || slots.kind == kIds) return "auto";
  if (InAllocation() && !named) return "auto";
  return "cpu:" + std::to_string(config.slurm.cpus_per_task.value_or(1));
}

// Returns the number of slots of a worker, if the configuration has it.
std::optional<std::int64_t> NamedSlots(const ExperimentConfig& config) {
  const std::string slots = SlotsArgument(config);
  const std::size_t colon = slots.find(':');
  if (colon == slots.npos) return std::nullopt;
  return std::max<std::int64_t>(std::stoll(slots.substr(colon + 1)), 1);
}

std::int64_t NodesOfAllocation() {
  const auto nodes = ProcessVariable("SLURM_JOB_NUM_NODES").value_or("1");
  return std::max(std::atoll(nodes.c_str()), 1LL);
}

// Returns the slots of a job as the runner counts them: those that whole trials
// fill, or all on nodes that are smaller than a trial. Used before workers have
// said how many they have.
std::int64_t SlotsPerJob(const ExperimentConfig& config) {
  const std::int64_t count =
      NamedSlots(config).value_or(config.slurm.gpus_per_node.value_or(1));
  const double per_trial = config.resources.slots_per_trial;
  const auto trials =
      static_cast<std::int64_t>(static_cast<double>(count) / per_trial);
  if (trials == 0) return count * config.slurm.nodes;
  const auto each =
      std::max<std::int64_t>(static_cast<std::int64_t>(per_trial), 1);
  return trials * each * config.slurm.nodes;
}

// Slurm's number of the allocation that this process is in, or empty.
std::string AllocationId() {
  return ProcessVariable("SLURM_JOB_ID").value_or("");
}

// Returns the number of slots of an allocation's node, which has GPUs or CPUs,
// as far as Slurm's variables tell.
std::int64_t SlotsOfAllocatedNode() {
  // "2", "a100:2", and CPUs of groups of nodes such as "16(x3),8".
  for (const char* const name :
       {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_CPUS_ON_NODE",
        "SLURM_JOB_CPUS_PER_NODE"}) {
    const std::string text = ProcessVariable(name).value_or("");
    const std::size_t colon = text.rfind(':');
    const std::int64_t count = std::atoll(
        text.c_str() + (colon == text.npos ? std::size_t{0} : colon + 1));
    if (count > 0) return count;
  }
  return 1;
}

// Returns `config` with the slots that Slurm can give it: those of its jobs, or
// those of this allocation as one job.
ExperimentConfig WithNodesOfSlurm(ExperimentConfig config) {
  if (!InAllocation()) return config;
  config.slurm.max_jobs = 1;
  config.slurm.min_jobs = 0;
  config.slurm.nodes = NodesOfAllocation();
  if (!NamedSlots(config)) {
    config.resources.slots = SlotChoice{.kind = SlotChoice::Kind::kCpu,
                                        .cpu_slots = SlotsOfAllocatedNode()};
  }
  return config;
}

// Returns the slots of a trial as SlotsPerJob counts them: 1 for a share of a
// GPU.
std::int64_t SlotsPerTrial(const ExperimentConfig& config) {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(config.resources.slots_per_trial), 1);
}

// Workers of jobs that are submitted as there is work.
class JobSource final : public WorkerSource {
 public:
  JobSource(SlurmJobsOptions options, std::int64_t nodes, Notice notice)
      : nodes_(nodes), notice_(std::move(notice)), jobs_(std::move(options)) {}
  ~JobSource() override {
    if (const std::string problem = jobs_.End(); !problem.empty()) {
      notice_(problem);
    }
  }

  std::vector<JobRow> Jobs() override;
  std::vector<int> Update(const WorkerTable& table) override;
  std::string Failure() override { return std::exchange(failure_, {}); }

 private:
  std::vector<JobWorkers> WorkersOfJobs(const WorkerTable& table) const;

  const std::int64_t nodes_;  // of each job
  const Notice notice_;
  const Clock clock_ = Clock::System();
  std::set<std::string> served_;  // jobs that have had a worker
  std::string failure_;
  SlurmJobs jobs_;
};

std::vector<JobWorkers> JobSource::WorkersOfJobs(
    const WorkerTable& table) const {
  const Duration now = clock_.monotonic();
  const Timestamp time = clock_.now();
  std::map<std::string, std::pair<JobWorkers, std::int64_t>> jobs;
  for (const WorkerRow& row : table.workers) {
    if (row.job.empty() || row.state == WorkerState::kJoining) continue;
    auto& [workers, count] = jobs[row.job];
    workers.job = row.job;
    workers.slots += row.slots;
    workers.used += row.used;
    if (row.idle_since) {
      workers.idle_since = std::max<Duration>(workers.idle_since,
                                              now - (time - *row.idle_since));
    }
    ++count;
  }
  std::vector<JobWorkers> list;
  for (auto& [id, job] : jobs) {
    job.first.complete = job.second == nodes_;
    list.push_back(std::move(job.first));
  }
  return list;
}

std::vector<JobRow> JobSource::Jobs() {
  std::vector<JobRow> rows;
  for (const SlurmJob& job : jobs_.Jobs()) {
    const bool pending = job.phase == SlurmJob::Phase::kPending;
    rows.push_back({.id = job.id,
                    .pending = pending,
                    .reason = pending ? job.reason : "",
                    .nodes = job.nodes,
                    .served = served_.contains(job.id)});
  }
  return rows;
}

std::vector<int> JobSource::Update(const WorkerTable& table) {
  std::int64_t others = 0;  // slots of workers that Slurm has not started
  for (const WorkerRow& row : table.workers) {
    if (row.job.empty()) {
      others += row.slots;
    } else if (row.state != WorkerState::kJoining) {
      served_.insert(row.job);
    }
  }
  jobs_.Update(std::max<std::int64_t>(table.demand - others, 0),
               WorkersOfJobs(table));
  const SlurmJobs::News news = jobs_.Drain();
  for (const std::string& line : news.notices) notice_(line);
  if (!news.failure.empty()) failure_ = news.failure;
  std::vector<int> released;
  for (const WorkerRow& row : table.workers) {
    const bool listed =
        std::ranges::find(news.release, row.job) != news.release.end();
    if (listed) released.push_back(row.id);
  }
  return released;
}

// Workers on the nodes of an allocation.
class StepSource final : public WorkerSource {
 public:
  explicit StepSource(const JobRequest& request)
      : end_(request.allocation_end),
        grace_(request.config.grace),
        step_(request) {}

  std::vector<int> Update(const WorkerTable&) override { return {}; }
  std::string Failure() override;

 private:
  const std::optional<Timestamp> end_;  // of the allocation
  const Duration grace_;
  WorkerStep step_;
};

std::string StepSource::Failure() {
  // The clocks of the nodes may differ.
  constexpr Duration kMargin = std::chrono::seconds(5);
  const auto why = step_.Failure();
  if (!why) return "";
  const Timestamp now = Clock::System().now();
  const auto early = std::chrono::duration_cast<Timestamp>(grace_ + kMargin);
  if (!end_ || *end_ - now > early) return *why;
  return "the time of allocation " + AllocationId() + " ends";
}

// The experiment of a job, and the address of its runner.
struct JobPlace {
  std::string experiment;
  std::string owner;
  std::filesystem::path store;
  std::filesystem::path directory;
  std::filesystem::path key;
  std::string runner;  // HOST:PORT
};

JobRequest MakeJobRequest(const ExperimentConfig& config,
                          const JobPlace& place) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(config.slurm.grace);
  JobRequest request{
      .config = config.slurm,
      .name = "dtrain-" + place.experiment,
      .owner = place.owner,
      .worker = {OwnProgram().string(), "worker", "--connect", place.runner,
                 "--slots", SlotsArgument(config), "--grace",
                 std::to_string(seconds.count()) + "s"},
      .variables = {{"DTRAIN_STORE", place.store.string()},
                    {kSecretVariable, place.key.string()}},
      .script = place.directory / "worker.sh",
      .directory = place.directory};
  request.in_allocation = InAllocation();
  if (request.in_allocation) request.config.nodes = NodesOfAllocation();
  return request;
}

// Returns the end of the allocation that this process is in, if Slurm lists
// one. Throws Error(kResources) if the job of SLURM_JOB_ID has ended, as in a
// shell that has outlived its allocation.
std::optional<Timestamp> RequireAllocation() {
  const Slurm slurm;
  const auto answer = slurm.Jobs();
  if (const auto* failure = std::get_if<SlurmFailure>(&answer)) {
    throw Error(ErrorKind::kResources, "Slurm: " + failure->text);
  }
  const auto& jobs = std::get<std::vector<SlurmJob>>(answer);
  const std::string id = AllocationId();
  const auto own = std::ranges::find(jobs, id, &SlurmJob::id);
  const bool listed = own != jobs.end();
  // Another user's job is not listed.
  const std::string state = listed ? own->state : slurm.FindState(id);
  if (state.empty() || ParsePhase(state) == SlurmJob::Phase::kEnded) {
    throw Error(
        ErrorKind::kResources,
        "SLURM_JOB_ID=" + EscapeForTerminal(id) +
            ": there is no such allocation of Slurm any more" +
            (state.empty() ? "" : " (" + EscapeForTerminal(state) + ")") +
            "; unset SLURM_JOB_ID to submit jobs, or use another "
            "allocation");
  }
  if (!listed || !own->left) return std::nullopt;
  return Clock::System().now() +
         std::chrono::duration_cast<Timestamp>(*own->left);
}

}  // namespace

Duration SlurmInterval() {
  constexpr const char* kVariable = "DTRAIN_SLURM_INTERVAL";
  const std::string text = ProcessVariable(kVariable).value_or("");
  if (text.empty()) return SlurmJobsOptions().interval;
  const Duration interval = ParseDuration(text, kVariable);
  if (interval < std::chrono::milliseconds(100)) {
    throw Error(ErrorKind::kUsage, std::string(kVariable) + ": '" + text +
                                       "' is less than 100ms; use 5s or more "
                                       "on a cluster with other users");
  }
  return interval;
}

namespace {

SlurmJobsOptions MakeJobsOptions(const ExperimentConfig& config,
                                 JobRequest request) {
  const Duration interval = SlurmInterval();
  return {
      .request = std::move(request),
      .plan = JobPlanOptions{.max_jobs = config.slurm.max_jobs,
                             .min_jobs = config.slurm.min_jobs,
                             .slots_per_job = SlotsPerJob(config),
                             .idle_timeout = config.slurm.idle_timeout,
                             .first_pause = interval},
      .interval = interval,
      .max_interval = std::max<Duration>(interval, std::chrono::minutes(1))};
}

}  // namespace

bool RunsOnSlurm(const ExperimentConfig& config) {
  return config.resources.executor == "slurm";
}

bool InAllocation() { return !AllocationId().empty(); }

std::string AllocationText(const ExperimentConfig& config) {
  const SlurmConfig& slurm = config.slurm;
  const SlurmConfig none;
  std::vector<std::string> unused;
  const auto add = [&unused](const char* key, bool given) {
    if (given) unused.push_back(std::string("slurm.") + key);
  };
  add("partition", slurm.partition != none.partition);
  add("account", slurm.account != none.account);
  add("qos", slurm.qos != none.qos);
  add("time", slurm.time != none.time);
  add("nodes", slurm.nodes != none.nodes);
  add("mem", slurm.mem != none.mem);
  add("constraint", slurm.constraint != none.constraint);
  add("max_jobs", slurm.max_jobs != none.max_jobs);
  add("min_jobs", slurm.min_jobs != none.min_jobs);
  add("idle_timeout", slurm.idle_timeout != none.idle_timeout);
  add("sbatch_args", !slurm.sbatch_args.empty());
  const std::int64_t nodes = NodesOfAllocation();
  return "in allocation " + EscapeForTerminal(AllocationId()) +
         " of Slurm: uses its " +
         (nodes == 1 ? "node" : std::to_string(nodes) + " nodes") +
         " and submits no jobs" +
         (unused.empty()
              ? ""
              : "; " + Join(unused, ", ") +
                    (unused.size() == 1 ? " has" : " have") + " no effect");
}

std::string JobOwner(const Store& store, std::int64_t experiment) {
  return store.uuid() + "." + std::to_string(experiment);
}

JobRequest PlannedJob(const ExperimentConfig& config,
                      const StoreLayout& layout) {
  const auto directory = layout.Experiments() / "EXP";
  return MakeJobRequest(config,
                        {.experiment = "EXP",
                         .owner = "STORE.EXP",
                         .store = layout.root(),
                         .directory = directory / kSlurmDirectory,
                         .key = directory / layout.WorkerKey(1).filename(),
                         .runner = "HOST:PORT"});
}

void RequireSlotsOfNodes(const ExperimentConfig& config) {
  const std::optional<std::int64_t> slots = NamedSlots(config);
  if (!RunsOnSlurm(config) || config.resources.local || !slots) return;
  const bool here = InAllocation();
  const bool one_node =
      std::holds_alternative<std::vector<std::string>>(config.entrypoint);
  const std::int64_t nodes =
      here ? NodesOfAllocation() : config.slurm.max_jobs * config.slurm.nodes;
  const std::int64_t all = *slots * (one_node ? 1 : nodes);
  const double per_trial = config.resources.slots_per_trial;
  if (static_cast<double>(all) >= per_trial) return;
  const std::string product =
      std::to_string(nodes) + " × " + std::to_string(*slots);
  const std::string has = one_node ? "a node has "
                          : here   ? "the nodes of this allocation have "
                                   : "the nodes of all jobs have ";
  const std::string remedy =
      one_node ? "; use nodes with more slots"
      : here   ? " (" + product + "); use a larger allocation"
               : " (" + product + "); raise slurm.max_jobs or slurm.nodes";
  throw Error(ErrorKind::kResources,
              "resources.slots_per_trial: a trial takes " +
                  std::to_string(static_cast<std::int64_t>(per_trial)) +
                  " slots, and " + has + std::to_string(all) + remedy +
                  ", or lower it");
}

std::string CheckSubmission(const ExperimentConfig& config,
                            const StoreLayout& layout) {
  RequireSlotsOfNodes(config);
  if (!RunsOnSlurm(config)) return "";
  if (InAllocation()) {
    RequireAllocation();
    return "";
  }
  return Slurm().CheckSubmission(PlannedJob(config, layout));
}

std::int64_t TrialsOnSlurm(const ExperimentConfig& original) {
  if (!RunsOnSlurm(original)) return 0;
  const ExperimentConfig config = WithNodesOfSlurm(original);
  const std::int64_t trials =
      config.slurm.max_jobs * SlotsPerJob(config) / SlotsPerTrial(config);
  const auto& most = config.resources.max_slots;
  return most ? std::min(trials, std::max<std::int64_t>(
                                     *most / SlotsPerTrial(config), 1))
              : trials;
}

std::int64_t MaxJobs(const ExperimentConfig& config) {
  std::int64_t slots = TrialsAtOnce(config.searcher, config.hyperparameters) *
                       SlotsPerTrial(config);
  if (const auto& most = config.resources.max_slots) {
    slots = std::min(slots, *most);
  }
  const std::int64_t each = SlotsPerJob(config);
  return std::min(std::max((slots + each - 1) / each, config.slurm.min_jobs),
                  config.slurm.max_jobs);
}

std::optional<std::string> SlotsWithoutTrials(const ExperimentConfig& config) {
  const SearcherConfig& searcher = config.searcher;
  const std::int64_t at_once = searcher.max_concurrent_trials;
  const std::int64_t trials = TrialsOnSlurm(config);
  const std::int64_t all =
      PlanSearch(searcher, config.hyperparameters).max_trials;
  if (at_once == 0 || std::min(trials, all) <= at_once) return std::nullopt;
  const bool here = InAllocation();
  if (!here && MaxJobs(config) == config.slurm.max_jobs) return std::nullopt;
  return "searcher.max_concurrent_trials: at most " +
         CountText(at_once, "trial runs", "trials run") + " at once, and " +
         (here ? "the nodes of this allocation have"
               : std::to_string(config.slurm.max_jobs) +
                     " jobs (slurm.max_jobs) would have") +
         " slots for " + std::to_string(trials) + "; raise it to use " +
         (here ? "them" : "more than " + CountText(MaxJobs(config), "job"));
}

bool HadJobs(const Store& store, std::int64_t experiment) {
  std::error_code ignored;
  return std::filesystem::exists(
      store.layout().Experiment(experiment) / kSlurmDirectory, ignored);
}

std::vector<LeftJob> FindLeftJobs(const Store& store) {
  std::vector<ExperimentRow> rows = ListExperiments(store, /*archived=*/true);
  std::erase_if(rows, [&](const ExperimentRow& row) {
    return row.state == State::kRunning || !HadJobs(store, row.id);
  });
  std::vector<LeftJob> left;
  if (rows.empty()) return left;
  const auto answer = Slurm().Jobs();
  const auto* jobs = std::get_if<std::vector<SlurmJob>>(&answer);
  if (jobs == nullptr) return left;
  for (const ExperimentRow& row : rows) {
    const std::string owner = JobOwner(store, row.id);
    for (const SlurmJob& job : *jobs) {
      if (job.owner == owner && job.phase != SlurmJob::Phase::kEnded) {
        left.push_back({.id = job.id, .experiment = row.id});
      }
    }
  }
  return left;
}

std::vector<std::string> CancelLeftJobs(const Store& store,
                                        std::int64_t experiment) {
  constexpr const char* kLeftJobsAdvice =
      "; jobs of an earlier run could not be canceled: try again when Slurm "
      "answers";
  const Slurm slurm;
  const auto answer = ListJobs(slurm, JobOwner(store, experiment));
  if (const auto* failure = std::get_if<SlurmFailure>(&answer)) {
    throw Error(ErrorKind::kResources, failure->text + kLeftJobsAdvice);
  }
  std::vector<std::string> ids;
  for (const SlurmJob& job : std::get<std::vector<SlurmJob>>(answer)) {
    ids.push_back(job.id);
  }
  if (const auto failure = slurm.Cancel(ids)) {
    throw Error(ErrorKind::kResources, failure->text + kLeftJobsAdvice);
  }
  return ids;
}

std::unique_ptr<WorkerSource> StartSlurmWorkers(const ExperimentConfig& config,
                                                const Store& store,
                                                std::int64_t experiment,
                                                const HostPort& runner,
                                                Notice notice) {
  const StoreLayout& layout = store.layout();
  JobRequest request = MakeJobRequest(
      config, {.experiment = std::to_string(experiment),
               .owner = JobOwner(store, experiment),
               .store = layout.root(),
               .directory = layout.Experiment(experiment) / kSlurmDirectory,
               .key = layout.WorkerKey(experiment),
               .runner = ToString(runner)});
  if (request.in_allocation) request.allocation_end = RequireAllocation();
  MakePrivateDirectories(request.directory);
  WriteFileDurably(request.script, request.Script(), 0700);
  if (InAllocation()) return std::make_unique<StepSource>(request);
  return std::make_unique<JobSource>(MakeJobsOptions(config, request),
                                     config.slurm.nodes, std::move(notice));
}

}  // namespace dtrain
