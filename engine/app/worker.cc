// `dtrain worker`: reads the command line and Slurm's variables, and calls
// Work() of engine/nodes/worker.h.

#include "engine/app/worker.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "engine/app/config_file.h"
#include "engine/app/notices.h"
#include "engine/app/provenance.h"
#include "engine/app/run_experiment.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/nodes/worker.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "engine/process/local_launcher.h"
#include "engine/ranks/shared_memory.h"
#include "engine/slots/slot_directory.h"

namespace dtrain {
namespace {

constexpr Duration kGpuSearchLimit = std::chrono::seconds(10);
// A larger number is a time in seconds since 1970, as Slurm has it.
constexpr std::int64_t kLongestSeconds = 1'000'000'000;

std::optional<std::int64_t> IntegerOf(std::string_view text) {
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
      colon == text.npos ? std::nullopt : IntegerOf(text.substr(colon + 1));
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
std::optional<Timestamp> ParseUntil(const std::string& given) {
  const std::string what = given.empty() ? "SLURM_JOB_END_TIME" : "--until";
  const std::string text =
      given.empty() ? VariableText("SLURM_JOB_END_TIME") : given;
  if (text.empty()) return std::nullopt;
  if (const auto time = ParseTimestamp(text)) return time;
  const auto number = IntegerOf(text);
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

DrainLimits LimitsOf(const WorkerRequest& request) {
  DrainLimits limits{.until = ParseUntil(request.until)};
  if (!request.grace.empty()) {
    limits.grace = ParseDuration(request.grace, "--grace");
  }
  if (!request.idle_timeout.empty()) {
    limits.idle_timeout = ParseDuration(request.idle_timeout, "--idle-timeout");
  }
  return limits;
}

// The key of the named experiment in the store, or DTRAIN_SECRET_FILE.
SecretFile SecretOf(const WorkerRequest& request, const StoreLayout& store) {
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
    return SecretFile::At(store.WorkerKey(*request.experiment));
  }
  if (VariableText(kSecretVariable).empty()) {
    throw Error(ErrorKind::kUsage,
                "--experiment is missing: name the experiment that runs there, "
                "or set DTRAIN_SECRET_FILE to the file of its key");
  }
  return SecretFile::Of(store, ProcessVariable);
}

// Returns what `--slots` asks for if only GPUs will do; otherwise empty.
std::string WantedGpus(const SlotChoice& choice) {
  using enum SlotChoice::Kind;
  switch (choice.kind) {
    case kAuto:
    case kNone:
    case kCpu:
      return "";
    case kGpu:
      return std::to_string(choice.gpu_slots) +
             (choice.gpu_slots == 1 ? " GPU" : " GPUs");
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
  const std::string wanted = WantedGpus(choice);
  const std::string trials =
      "the trials of experiment " + std::to_string(task.experiment);
  if (task.gpus == std::optional(false)) {
    if (wanted.empty()) return {};
    throw Error(ErrorKind::kResources,
                "--slots asks for " + wanted + ", and " + trials +
                    " run on CPUs, as on the runner's machine; set "
                    "resources.local: false there, or offer CPU slots");
  }
  GpuSearch search = FindGpus(kGpuSearchLimit);
  if (!search.problem.empty()) {
    throw Error(ErrorKind::kResources, search.problem);
  }
  if (!search.gpus.empty()) return std::move(search.gpus);
  if (!wanted.empty()) {
    throw Error(ErrorKind::kResources,
                "--slots asks for " + wanted +
                    ", and this machine has none that CUDA can use; see what "
                    "nvidia-smi prints there, or offer CPU slots");
  }
  if (task.gpus == std::optional(true)) {
    throw Error(ErrorKind::kResources,
                trials + " need GPUs, and this machine has none");
  }
  return {};
}

// Plans the slots of this machine. A CPU slot has as many threads as one of the
// runner's machine, since results depend on it.
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
  if (plan.gpus.empty()) plan.threads = task.threads;
  return plan;
}

// Slurm's name of a node may differ from that of the machine.
std::string NameOf(const WorkerRequest& request) {
  if (!request.name.empty()) return request.name;
  return ProcessVariable("SLURMD_NODENAME").value_or(HostName());
}

// Removes what srun says about this task: a trial is not one of several, and
// programs would take it for that.
void LeaveStep() {
  for (const char* const name :
       {"SLURM_LOCALID", "SLURM_NODEID", "SLURM_NPROCS", "SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_STEP_ID",
        "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEPID"}) {
    ::unsetenv(name);
  }
}

// Removes the slots of a job that a runner has submitted to Slurm from this
// machine. Nothing else uses them; see JobRequest.
void RemoveSlotsOf(const std::string& job) {
  const std::string name =
      "dtrain-" + std::to_string(::geteuid()) + "-" + job + "-";
  const std::filesystem::path directory = SlotDirectory::Path();
  if (!directory.filename().string().starts_with(name)) return;
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace

int RunWorker(const WorkerRequest& request, const GlobalOptions& globals) {
  const StoreLayout store = FindStore(globals);
  const SlotChoice slots = ParseSlotChoice(request.slots);
  HostPort runner = ParseConnect(request.connect);
  const DrainLimits limits = LimitsOf(request);
  WorkerOptions options{
      .runner = std::move(runner),
      .secret = SecretOf(request, store),
      .version = LibraryVersions().front().second,
      .name = NameOf(request),
      .job = request.job.empty() ? VariableText("SLURM_JOB_ID") : request.job,
      .roots = TrialRoots(store),
      .limits = limits,
      .plan = [&](const WorkerTask& task) { return PlanFor(slots, task); },
      .find_host =
          [](bool command) {
            return command ? FindCommandHost() : FindTrialHost();
          },
      .at_end = [] { RemoveSlotsOf(VariableText("SLURM_JOB_ID")); },
      .notice = [&](const std::string& line) { Say(globals, line); }};
  if (!request.patience.empty()) {
    options.patience = ParseDuration(request.patience, "--connect-timeout");
  }
  LeaveStep();
  return Work(std::move(options));
}

}  // namespace dtrain
