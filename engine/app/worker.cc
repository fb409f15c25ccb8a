// `dtrain worker`, and `create` with a RANK above 0: reads the command line and
// Slurm's variables, and calls Work() of engine/nodes/worker.h.
//
// Options come first, Slurm's variables second: the end of a job is the time
// until which a worker takes trials, and its node's name is the worker's. Which
// slots a worker offers is known only once it is connected, because they depend
// on the task: PlanFor is called with that. GPUs that were asked for are never
// replaced by CPUs, and CPUs have the threads that a slot has on the runner's
// machine. A rank of `create` has no such choice, as its slots are those of the
// configuration, which the runner compares with its own (MakeClaim).
//
// A job that Slurm kills leaves the locks of its slots behind. They are in a
// directory named after the job, which the next worker of the same store on
// this machine removes.

#include "engine/app/worker.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "engine/app/config_file.h"
#include "engine/app/notices.h"
#include "engine/app/provenance.h"
#include "engine/app/run_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/nodes/worker.h"
#include "engine/os/file_lock.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "engine/process/local_launcher.h"
#include "engine/ranks/shared_memory.h"
#include "engine/run/runner.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {
namespace {

constexpr Duration kGpuSearchLimit = std::chrono::seconds(10);
// A larger number is a time in seconds since 1970, as Slurm has it.
constexpr std::int64_t kLongestSeconds = 1'000'000'000;

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

// Parses HOST:PORT; an IPv6 address is in brackets.
HostPort ParseConnect(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto port =
      colon == text.npos ? std::nullopt : ParseInteger(text.substr(colon + 1));
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    host.clear();
  }
  if (host.empty() || !port || *port < 1 || *port > 65535) {
    throw Error(ErrorKind::kUsage,
                "--connect: '" + text +
                    "' is not HOST:PORT, such as node1:29600; the runner "
                    "prints it when it starts");
  }
  try {
    RequireAddress(host);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, "--connect: " + std::string(error.what()));
  }
  return {.host = std::move(host), .port = static_cast<int>(*port)};
}

std::string VariableText(const char* variable) {
  return ProcessVariable(variable).value_or("");
}

// Parses a time, or a duration from now.
std::optional<Timestamp> ParseUntil(const std::string& option) {
  const std::string what = option.empty() ? "SLURM_JOB_END_TIME" : "--until";
  const std::string text =
      option.empty() ? VariableText("SLURM_JOB_END_TIME") : option;
  if (text.empty()) return std::nullopt;
  if (const auto time = ParseTimestamp(text)) return time;
  const auto number = ParseInteger(text);
  if (number && *number >= kLongestSeconds) {
    return std::chrono::seconds(*number);
  }
  try {
    const Timestamp now = Clock::System().now();
    return now +
           std::chrono::duration_cast<Timestamp>(ParseDuration(text, what));
  } catch (const Error& error) {
    throw Error(
        ErrorKind::kUsage,
        std::string(error.what()) + ", or a time such as 2026-11-21T07:35:44Z");
  }
}

DrainLimits ParseDrainLimits(const WorkerRequest& request) {
  DrainLimits limits{.until = ParseUntil(request.until)};
  if (!request.grace.empty()) {
    limits.grace = ParseDuration(request.grace, "--grace");
  }
  if (!request.idle_timeout.empty()) {
    limits.idle_timeout = ParseDuration(request.idle_timeout, "--idle-timeout");
  }
  return limits;
}

// DTRAIN_SECRET_FILE, or else the key of the named experiment in the store.
SecretFile FindSecretFile(const WorkerRequest& request,
                          const StoreLayout& store) {
  if (request.experiment) {
    std::error_code ignored;
    if (!std::filesystem::exists(store.Experiment(*request.experiment),
                                 ignored)) {
      throw Error(ErrorKind::kNotFound,
                  "experiment " + std::to_string(*request.experiment) +
                      " does not exist in the store " + store.root().string() +
                      "; name the store of the runner (--store) and its "
                      "experiment");
    }
  }
  if (!VariableText(kSecretVariable).empty()) {
    return SecretFile::Locate(store, ProcessVariable);
  }
  if (!request.experiment) {
    throw Error(ErrorKind::kUsage,
                "--experiment is missing: name the experiment that runs there, "
                "or set DTRAIN_SECRET_FILE to the file of its key");
  }
  return SecretFile::At(store.WorkerKey(*request.experiment));
}

// Returns what `--slots` asks for if only GPUs will do; otherwise empty.
std::string RequestedGpus(const SlotChoice& choice) {
  using enum SlotChoice::Kind;
  switch (choice.kind) {
    case kAuto:
    case kNone:
    case kCpu:
      return "";
    case kGpu:
      return CountText(choice.gpu_slots, "GPU");
    case kMaxFree:
    case kIds:
      return "GPUs";
  }
  return "";
}

// Throws Error(kResources) rather than let CPUs replace GPUs that were asked
// for.
std::vector<Gpu> GpusFor(const SlotChoice& choice, const WorkerTask& task) {
  using enum SlotChoice::Kind;
  if (choice.kind == kNone || choice.kind == kCpu) return {};
  const std::string requested_gpus = RequestedGpus(choice);
  const std::string trials =
      "the trials of experiment " + std::to_string(task.experiment);
  if (task.gpus == std::optional(false)) {
    if (requested_gpus.empty()) return {};
    throw Error(ErrorKind::kResources,
                "--slots asks for " + requested_gpus + ", and " + trials +
                    " run on CPUs, as on the runner's machine; set "
                    "resources.local: false there, or offer CPU slots");
  }
  GpuSearch search = FindGpus(kGpuSearchLimit);
  if (!task.command) search = ForModels(std::move(search));
  if (!search.problem.empty()) {
    throw Error(ErrorKind::kResources, search.problem);
  }
  if (!search.gpus.empty()) return std::move(search.gpus);
  if (!requested_gpus.empty()) {
    throw Error(ErrorKind::kResources,
                "--slots asks for " + requested_gpus +
                    ", and this machine has none that CUDA can use; see what "
                    "nvidia-smi prints there, or offer CPU slots");
  }
  if (task.gpus == std::optional(true)) {
    throw Error(ErrorKind::kResources,
                trials + " need GPUs, and this machine has none");
  }
  return {};
}

// Plans the slots of this machine. Without a number, there are as many CPU
// slots as have the threads of one on the runner's machine.
SlotPlan PlanFor(const SlotChoice& choice, const WorkerTask& task) {
  ResourcesConfig resources{.slots_per_trial = task.slots_per_trial,
                            .slots = choice};
  std::vector<Gpu> gpus = GpusFor(choice, task);
  const std::int64_t cpus = UsableCpus();
  if (gpus.empty() && choice.cpu_slots == 0) {
    resources.slots = {
        .kind = SlotChoice::Kind::kCpu,
        .cpu_slots = std::max<std::int64_t>(cpus / task.threads, 1)};
  }
  // A program is one process, and a trial of a model has a rank on each slot.
  const bool has_ranks = !task.command;
  SlotPlan plan = PlanSlots(resources, std::move(gpus), cpus,
                            /*trials_at_once=*/0, /*in_parts=*/has_ranks);
  if (has_ranks && plan.count > 0 && plan.slots_per_trial > kMaxRanks) {
    throw Error(ErrorKind::kResources,
                "a trial of " + std::to_string(plan.slots_per_trial) +
                    " ranks can have " + std::to_string(kMaxRanks) +
                    " of them on a machine; offer fewer slots (--slots)");
  }
  return plan;
}

// Slurm's name of a node may differ from that of the machine.
std::string WorkerName(const WorkerRequest& request) {
  if (!request.name.empty()) return request.name;
  return ProcessVariable("SLURMD_NODENAME").value_or(HostName());
}

// True if no process holds a lock on the directory or on a file in it.
bool IsUnused(const std::filesystem::path& directory) {
  FileLock lock(UniqueFd(::open(
      directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  if (!lock || !lock.TryLock()) return false;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, error)) {
    FileLock file(UniqueFd(::open(
        entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)));
    if (!file || !file.TryLock() || file.IsRecordLocked()) return false;
  }
  return !error;
}

// The slots on this machine of a job that a runner has submitted to Slurm, see
// JobRequest: removed at the end, and those that killed jobs of the same store
// have left at the beginning.
class JobSlots {
 public:
  explicit JobSlots(const std::string& job)
      : directory_(SlotDirectory::Path()) {
    const std::string all = "dtrain-" + std::to_string(::geteuid()) + "-";
    const std::string own = directory_.filename().string();
    if (job.empty() || !own.starts_with(all + job + "-")) {
      directory_.clear();
      return;
    }
    const std::string store = own.substr((all + job).size());
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(
             directory_.parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (name == own || !name.starts_with(all) || !name.ends_with(store)) {
        continue;
      }
      if (IsUnused(entry.path())) {
        std::filesystem::remove_all(entry.path(), ignored);
      }
    }
    static_cast<void>(SlotDirectory::Open());
    lock_ = FileLock(UniqueFd(
        ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    if (lock_) static_cast<void>(lock_.TryLock(FileLock::Mode::kShared));
  }
  ~JobSlots() { Remove(); }
  JobSlots(const JobSlots&) = delete;
  JobSlots& operator=(const JobSlots&) = delete;

  void Remove() const {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

 private:
  std::filesystem::path directory_;  // empty: they are not of a job
  FileLock lock_;
};

// Asks the Python that starts the task's trials here.
std::vector<std::string> FindPythonDifferences(const WorkerTask& task,
                                               bool gpus) {
  if (task.python.empty()) return {};
  const auto& variables = gpus ? task.gpu_environment : task.cpu_environment;
  ExperimentConfig config;
  config.entrypoint = task.words;
  config.environment.everywhere = {variables.begin(), variables.end()};
  nlohmann::json found;
  PythonQuery(config, task.context).Record(found);
  return PythonDifferences(
      nlohmann::json::parse(task.python, nullptr, /*allow_exceptions=*/false),
      found["python"]);
}

}  // namespace

int RunWorker(const WorkerRequest& request, const GlobalOptions& globals) {
  CheckVariables();
  const StoreLayout store = FindStore(globals);
  const SlotChoice slots = ParseSlotChoice(request.slots);
  HostPort runner = ParseConnect(request.connect);
  const DrainLimits limits = ParseDrainLimits(request);
  const JobSlots job_slots(VariableText("SLURM_JOB_ID"));
  WorkerOptions options{
      .runner = std::move(runner),
      .secret = FindSecretFile(request, store),
      .version = BuildVersion(),
      .name = WorkerName(request),
      .job = request.job.empty() ? VariableText("SLURM_JOB_ID") : request.job,
      .roots = TrialRoots(store),
      .limits = limits,
      .plan = [&](const WorkerTask& task) { return PlanFor(slots, task); },
      .find_host =
          [](bool command) {
            return command ? FindCommandHost() : FindTrialHost();
          },
      .find_differences = FindPythonDifferences,
      .at_end = [&] { job_slots.Remove(); },
      .notice = [&](const std::string& line) { PrintNotice(globals, line); }};
  if (!request.patience.empty()) {
    options.patience = ParseDuration(request.patience, "--connect-timeout");
  }
  return Work(std::move(options));
}

int RunRank(const DistributedEnv& place, const ExperimentConfig& config,
            const GlobalOptions& globals) {
  const StoreLayout store = FindStore(globals);
  const SlotPlan slots = PlanExperimentSlots(config);
  return Work(
      {.runner = place.runner,
       .secret = SecretFile::Locate(store, ProcessVariable),
       .version = BuildVersion(),
       .name = HostName(),
       .claim = MakeClaim(place, config, slots),
       .roots = TrialRoots(store),
       .plan = [&](const WorkerTask&) { return slots; },
       .find_host = [](bool) { return FindTrialHost(); },
       .notice = [&](const std::string& line) { PrintNotice(globals, line); }});
}

}  // namespace dtrain
