// Client of the trial host, the process from which all trials of a run are
// forked (trial_host.cc).
//
// HostClient starts the host with a socket as descriptor 3 and its output in a
// memory file, whose end is shown if the host fails. A request is one packet of
// JSON with the descriptors of the trial attached; the answer has the pid or an
// error.
//
// TrialForker is the state machine around it. A host is starting (not ready_),
// ready, or has a request in flight. One fork is handled at a time. Every
// failure, be it an error, the end of the socket or no answer in time, kills
// the host and starts a new one with the same request; after three failures in
// a row the fork has failed. Once a request is in flight it cannot be canceled:
// a child may exist whose pid is not known yet.
//
// The environment of the host is that of this process without the variables by
// which a launcher numbers its processes, so that a trial under `srun` or
// `torchrun` does not take itself for one of their ranks.

#include "engine/process/trial_forker.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/os/line_reader.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "engine/os/spawn.h"
#include "engine/os/system_error.h"
#include "engine/process/trial_host.h"

namespace dtrain {
namespace {

using nlohmann::json;

// Number of the socket in the host.
constexpr int kHostSocket = 3;
constexpr std::size_t kShownOutput = 2000;

// Removes the levels of log lines, such as "<4>", with which lines begin, and
// the line breaks before them.
std::string WithoutLevels(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || text[i - 1] == '\n';
    if (text[i] == kLineBreak.front()) {
      if (begins && i + 1 < text.size() && text[i + 1] == '\n') ++i;
      continue;
    }
    if (begins && i + 2 < text.size() && text[i] == '<' && text[i + 1] >= '0' &&
        text[i + 1] <= '7' && text[i + 2] == '>') {
      i += 3;
    }
    if (i < text.size()) plain += text[i];
  }
  return plain;
}

// True for a variable by which a launcher tells a process its number among
// others. A trial is not one of the processes that its runner or worker was
// started with.
bool IsRankVariable(std::string_view name) {
  constexpr std::array<std::string_view, 27> kNames = {
      "GROUP_RANK",
      "GROUP_WORLD_SIZE",
      "LOCAL_RANK",
      "LOCAL_WORLD_SIZE",
      "MPI_LOCALNRANKS",
      "MPI_LOCALRANKID",
      "NODE_RANK",
      "OMPI_UNIVERSE_SIZE",
      "RANK",
      "ROLE_NAME",
      "ROLE_RANK",
      "ROLE_WORLD_SIZE",
      "SLURM_LOCALID",
      "SLURM_NODEID",
      "SLURM_NPROCS",
      "SLURM_NTASKS",
      "SLURM_NTASKS_PER_NODE",
      "SLURM_PROCID",
      "SLURM_STEPID",
      "SLURM_STEP_ID",
      "SLURM_STEP_NODELIST",
      "SLURM_STEP_NUM_NODES",
      "SLURM_STEP_NUM_TASKS",
      "SLURM_STEP_TASKS_PER_NODE",
      "TORCHELASTIC_RESTART_COUNT",
      "TORCHELASTIC_RUN_ID",
      "WORLD_SIZE"};
  // Settings of these libraries, OMPI_MCA_… and PMIX_MCA_…, are the user's.
  constexpr std::array<std::string_view, 4> kPrefixes = {
      "MV2_COMM_WORLD_", "OMPI_COMM_WORLD_", "PMIX_", "PMI_"};
  return std::ranges::find(kNames, name) != kNames.end() ||
         (!name.starts_with("PMIX_MCA_") &&
          std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
            return name.starts_with(prefix);
          }));
}

// Returns the environment of a host, each entry as NAME=value: that of this
// process without its rank, and what the experiment sets.
std::vector<std::string> HostEnvironment(const HostOptions& options,
                                         const std::string& token) {
  auto changes = options.environment;
  changes.emplace(changes.begin(), kExperimentVariable,
                  std::to_string(options.experiment));
  changes.emplace(changes.begin(), kTokenVariable, token);
  // Threads that spin while waiting for work take the cores from other trials,
  // which can make these ten times slower on a busy machine. libgomp reads this
  // when it is loaded, so it must be in the host's environment.
  if (::getenv("OMP_WAIT_POLICY") == nullptr &&
      ::getenv("GOMP_SPINCOUNT") == nullptr) {
    changes.emplace_back("GOMP_SPINCOUNT", "1000");
  }
  std::vector<std::string> environment = EnvironmentWith(changes);
  std::erase_if(environment, [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('='));
    return IsRankVariable(name) &&
           std::ranges::none_of(changes, [&](const auto& change) {
             return change.first == name;
           });
  });
  return environment;
}

}  // namespace

HostClient::HostClient(HostOptions options)
    : options_(std::move(options)), token_(RandomHex(16)) {}

HostClient::~HostClient() { Stop(); }

void HostClient::Start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
      0) {
    ThrowSystemError("make a socket for the trial host");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  UniqueFd output(::memfd_create("trial-host-output", MFD_CLOEXEC));
  if (!output) ThrowSystemError("make a file for the trial host's output");
  std::vector<std::string> arguments = {options_.program.string(),
                                        std::to_string(kHostSocket)};
  if (options_.cuda) arguments.emplace_back("--cuda");
  const pid_t pid = Spawn()
                        .Open(0, "/dev/null", O_RDONLY)
                        .Duplicate(output.get(), 1)
                        .Duplicate(output.get(), 2)
                        .Duplicate(theirs.get(), kHostSocket)
                        // The host must hold no descriptor of the runner: a
                        // lock or pipe that it kept would outlive the runner.
                        .CloseFrom(kHostSocket + 1)
                        .ResetSignals()
                        .NewSession()
                        .Environment(HostEnvironment(options_, token_))
                        .Run(options_.program, std::move(arguments));
  if (pid < 0) ThrowSystemError("execute " + options_.program.string());
  pid_ = pid;
  exit_fd_ = OpenExitFd(pid);
  if (!exit_fd_) {
    const int error = errno;
    ::kill(static_cast<pid_t>(pid_), SIGKILL);
    ::waitpid(static_cast<pid_t>(pid_), nullptr, 0);
    ThrowSystemError("watch the trial host", error);
  }
  socket_ = std::move(ours);
  output_ = std::move(output);
}

bool HostClient::Request(const ForkOrder& order) {
  json variables = json::object();
  for (const auto& [name, value] : order.variables) variables[name] = value;
  std::vector<int> fds = order.fds;
  const bool has_rendezvous = order.rendezvous >= 0;
  if (has_rendezvous) fds.push_back(order.rendezvous);
  const json request = {{"env", std::move(variables)},
                        {"meeting", has_rendezvous}};
  return SendPacket(socket_.get(), request.dump(), fds);
}

std::optional<HostReply> HostClient::ReadReply() {
  const std::optional<Packet> packet = ReceivePacket(socket_.get());
  if (!packet) return std::nullopt;
  const json reply = json::parse(packet->text, nullptr,
                                 /*allow_exceptions=*/false);
  if (!reply.is_object()) return HostReply{.error = "it gave no JSON"};
  const json pid = reply.value("pid", json());
  const json error = reply.value("error", json());
  if (pid.is_number_integer()) return HostReply{.pid = pid};
  if (reply.contains("ready")) return HostReply{.ready = true};
  return HostReply{.error = error.is_string() ? error.get<std::string>()
                                              : "it gave no reason"};
}

std::string HostClient::Stop() {
  if (!running()) return "";
  // This has no effect if it has ended by itself.
  ::kill(static_cast<pid_t>(pid_), SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 &&
         errno == EINTR) {
  }
  std::string text =
      info.si_code == CLD_EXITED
          ? "ended with exit code " + std::to_string(info.si_status)
      : info.si_pid == 0
          ? "ended in an unknown way"
          : "was killed by signal " + std::to_string(info.si_status) + " (" +
                ::strsignal(info.si_status) + ")";
  // The last output of the host, in one line.
  const off_t size = ::lseek(output_.get(), 0, SEEK_END);
  std::string output(kShownOutput, '\0');
  const off_t start =
      std::max<off_t>(size - static_cast<off_t>(kShownOutput), 0);
  const ssize_t count =
      ::pread(output_.get(), output.data(), output.size(), start);
  output.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!output.empty() && output.back() == '\n') output.pop_back();
  if (!output.empty()) text += ": " + EscapeForTerminal(WithoutLevels(output));
  exit_fd_.reset();
  socket_.reset();
  output_.reset();
  return text;
}

namespace {

constexpr int kMaxFailures = 3;
// Loading libraries from a network file system may take long; a fork does not.
constexpr Duration kWarmUp = std::chrono::seconds(120);
constexpr Duration kAnswer = std::chrono::seconds(10);

}  // namespace

TrialForker::TrialForker(const HostOptions& options, Clock clock,
                         Poller& poller, std::uint64_t token)
    : host_(options), clock_(std::move(clock)), poller_(poller), token_(token) {
  if (options.warm) StartHost();
}

void TrialForker::StartHost() {
  ready_ = false;
  try {
    host_.Start();
    poller_.Add(host_.socket(), token_);
    answer_by_ = clock_.monotonic() + kWarmUp;
  } catch (const Error& error) {
    OnFailure(error.what());
  }
}

void TrialForker::Fork(ForkOrder order) {
  request_ = std::move(order);
  if (ready_) {
    SendRequest();
  } else if (!host_.running()) {
    failures_ = 0;
    StartHost();
  }
}

void TrialForker::SendRequest() {
  in_flight_ = true;
  answer_by_ = clock_.monotonic() + kAnswer;
  try {
    // If the host has ended, its socket becomes readable.
    [[maybe_unused]] const bool sent = host_.Request(*request_);
  } catch (const Error& error) {
    OnFailure(error.what());
  }
}

void TrialForker::OnReady() {
  if (!host_.running()) return;
  std::optional<HostReply> reply;
  try {
    reply = host_.ReadReply();
  } catch (const Error& error) {
    OnFailure(error.what());
    return;
  }
  if (!reply) {
    OnFailure("");
  } else if (reply->ready) {
    ready_ = true;
    answer_by_.reset();
    if (request_) SendRequest();
  } else if (reply->pid != 0) {
    failures_ = 0;
    in_flight_ = false;
    answer_by_.reset();
    request_.reset();
    outcome_ = Outcome{.pid = reply->pid};
  } else {
    // This host cannot fork any more; a new one may.
    OnFailure(reply->error);
  }
}

void TrialForker::OnTime() {
  if (!answer_by_ || clock_.monotonic() < *answer_by_) return;
  OnFailure("it does not answer");
}

void TrialForker::OnFailure(const std::string& reason) {
  if (host_.running()) poller_.Remove(host_.socket());
  const std::string end = host_.Stop();
  ready_ = false;
  in_flight_ = false;
  answer_by_.reset();
  ++failures_;
  if (failures_ < kMaxFailures) {
    StartHost();
    return;
  }
  if (!request_) return;  // The next fork tries again.
  request_.reset();
  outcome_ =
      Outcome{.error = "the trial host failed " + std::to_string(failures_) +
                       " times: " + (reason.empty() ? "it " + end : reason)};
}

}  // namespace dtrain
