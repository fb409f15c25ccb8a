// The loop of a worker: orders of the runner go to a LocalLauncher, and what
// the launcher reports goes back.
//
// The runner is authenticated, but its orders are checked all the same: a trial
// may use files only below the directories of this process (ObjectionTo). The
// result of a trial is held back until its process has ended, and sent with its
// exit. Draining asks all trials to save a checkpoint and end. A rank that is
// led by the runner can be stopped only by it, so draining then waits for its
// answer. If the runner is lost, trials save a checkpoint for the resumed
// experiment before the error is thrown.

#include "engine/nodes/remote_trials.h"

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include "engine/base/text.h"
#include "engine/context/context_links.h"
#include "engine/os/signals.h"
#include "engine/os/socket.h"

namespace dtrain {
namespace {

// A checkpoint after the loss of the runner may take this long.
constexpr Duration kLastCheckpoint = std::chrono::seconds(45);
// Between two looks at the trials in that time.
constexpr Duration kLastPause = std::chrono::milliseconds(20);
// Left of the time before a worker's end when its trials must have ended.
constexpr Duration kBeforeEnd = std::chrono::seconds(15);

bool IsBelow(const std::filesystem::path& path,
             const std::filesystem::path& root) {
  const auto [at, rest] =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at == root.end() && rest != path.end();
}

// None if the path cannot be resolved.
std::optional<std::filesystem::path> Resolved(
    const std::filesystem::path& path) {
  std::error_code error;
  auto resolved = std::filesystem::weakly_canonical(path, error);
  if (error || !resolved.is_absolute()) return std::nullopt;
  return resolved;
}

// Returns which file that the trial needs does not exist here, and what to do;
// empty if all exist.
std::string MissingFile(const TrialSpec& spec) try {
  namespace fs = std::filesystem;
  std::vector<fs::path> needed;
  if (!spec.restore.empty())
    needed.emplace_back(spec.CheckpointPath(spec.restore));
  if (!spec.checkpoints.empty()) {
    needed.push_back(fs::path(spec.checkpoints).parent_path());
  }
  for (const std::string* path : {&spec.warm_start, &spec.library}) {
    if (!path->empty()) needed.emplace_back(*path);
  }
  // A program's own copy of the context is made from the stored one.
  if (!spec.command.empty()) {
    needed.emplace_back(spec.master.empty() ? spec.context : spec.master);
  }
  std::error_code error;
  for (const fs::path& path : needed) {
    if (fs::exists(path, error)) continue;
    return path.string() +
           ": does not exist on this machine; keep the store (--store) on a "
           "file system that all machines mount at the same path";
  }
  if (spec.master.empty()) return "";
  const auto link = FindMissingLink(spec.master);
  if (!link) return "";
  return link->target.string() + ": is not a directory on this machine, but '" +
         link->path +
         "' of each trial is a link to it; make it or mount it at this path";
} catch (const Error& error) {
  return error.what();
}

}  // namespace

bool IsBelowOne(const std::filesystem::path& path,
                const std::vector<std::filesystem::path>& roots) {
  const auto resolved = Resolved(path);
  return resolved && std::ranges::any_of(roots, [&](const auto& root) {
           const auto real = Resolved(root);
           return real && IsBelow(*resolved, *real);
         });
}

std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots) {
  const bool is_divided_program = spec.address && !spec.command.empty();
  if (spec.task != Task::kTrain || !spec.images.empty() || is_divided_program) {
    return "the runner ordered something other than training";
  }
  std::vector<std::pair<const char*, std::filesystem::path>> taken = {
      {"the directory of the trial", spec.directory}};
  if (!spec.master.empty()) taken.emplace_back("the context", spec.master);
  if (!spec.library.empty()) taken.emplace_back("the model", spec.library);
  if (!spec.checkpoints.empty()) {
    taken.emplace_back("the directory of checkpoints", spec.checkpoints);
  }
  if (!spec.restore.empty()) {
    taken.emplace_back("the checkpoint", spec.CheckpointPath(spec.restore));
  }
  if (!spec.warm_start.empty()) {
    taken.emplace_back("the checkpoint to start from", spec.warm_start);
  }
  for (const auto& [what, path] : taken) {
    if (IsBelowOne(path, roots)) continue;
    std::vector<std::string> places;
    for (const auto& root : roots) places.push_back(root.string());
    return std::string(what) + ", " +
           Truncate(EscapeForTerminal(path.string()), 500) +
           ", is outside the directories that this process may use (" +
           EscapeForTerminal(Join(places, ", ")) +
           "); give all processes the same store (--store)";
  }
  return "";
}

std::string FormatNotice(const LaunchEvent& event) {
  if (const auto* restored = std::get_if<GpuRestored>(&event)) {
    return restored->gpu + " passed a test and is used again";
  }
  const auto* exited = std::get_if<TrialExited>(&event);
  if (exited == nullptr || !exited->gpu_fault) return "";
  const GpuFault& fault = *exited->gpu_fault;
  if (!fault.set_aside) return "";
  return "warning: " + EscapeForTerminal(fault.gpus + ": " + fault.reason) +
         "; it is set aside, and tested again every minute";
}

RemoteTrials::RemoteTrials(RunnerLink& link, RemoteTrialsOptions options)
    : link_(link),
      clock_(options.launcher.clock),
      name_(std::move(options.name)),
      secret_(link.secret()),
      roots_(std::move(options.roots)),
      answer_patience_(options.answer_patience),
      drain_(options.drain),
      gpu_threads_(options.launcher.slots.gpus.empty()
                       ? 0
                       : options.launcher.slots.threads),
      notice_(std::move(options.notice)),
      idle_since_(clock_.monotonic()),
      launcher_(MakeLocalLauncher(Launcher(std::move(options.launcher)))) {}

LocalLauncherOptions RemoteTrials::Launcher(LocalLauncherOptions options) {
  options.wake = link_.fd();
  options.log = [this](TrialId id, const LogRecord& record) {
    Send(ShardPrinted{id, record});
  };
  options.handles_usr2 = true;
  options.grace = std::max(options.grace, drain_.grace - kBeforeEnd);
  return options;
}

// The launcher calls this too, and must not be left in the middle of its work:
// the loss of the runner is kept for Run.
void RemoteTrials::Send(const NodeReport& report) {
  if (lost_) return;
  try {
    link_.Send(report);
  } catch (const Error& error) {
    lost_ = error;
  }
}

int RemoteTrials::Run() {
  while (true) {
    if (!ReceiveOrders()) return 0;
    if (lost_ || draining_) {
      // nothing ends it early
    } else if (drain_.until && clock_.now() + drain_.grace >= *drain_.until) {
      Drain("its time ends in " +
            FormatDuration(
                std::max<Duration>(*drain_.until - clock_.now(), Duration(0))));
    } else if (drain_.idle_timeout && trials_.empty() &&
               clock_.monotonic() - idle_since_ >= *drain_.idle_timeout) {
      Drain("it had no trial for " + FormatDuration(*drain_.idle_timeout));
    }
    if (lost_) {
      StopAfterLoss();
      throw *lost_;
    }
    const LaunchEvent event = launcher_->Wait(TimeLeft());
    if (const auto* interrupted = std::get_if<Interrupted>(&event)) {
      if (const auto code = OnSignal(interrupted->signal)) return *code;
    } else {
      On(event);
    }
    if (asked_at_ && clock_.monotonic() >= AnswerEnd()) {
      if (notice_) {
        notice_(link_.peer() + " does not answer; ending without it");
      }
      return trials_.empty() || signal_ == 0 ? 0 : 128 + signal_;
    }
  }
}

// False after ShutdownNode.
bool RemoteTrials::ReceiveOrders() {
  try {
    while (const std::optional<NodeOrder> order = link_.Receive()) {
      if (std::holds_alternative<ShutdownNode>(*order)) return false;
      if (const auto* refused = std::get_if<NodeRefused>(&*order)) {
        throw Error(ErrorKind::kUsage, name_ + link_.peer() +
                                           " rejected this process: " +
                                           EscapeForTerminal(refused->reason));
      }
      Apply(*order);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFailed) throw;
    lost_ = error;
  }
  return true;
}

Duration RemoteTrials::TimeLeft() const {
  const Duration now = clock_.monotonic();
  Duration left = link_.TimeLeft();
  if (asked_at_) left = std::min(left, AnswerEnd() - now);
  // CheckLimits compares clock times.
  left = std::min<Duration>(left, std::chrono::seconds(1));
  return std::max(left, Duration(0));
}

// A live runner sends a message every few seconds.
Duration RemoteTrials::AnswerEnd() const {
  return std::max(*asked_at_, link_.last_received()) + answer_patience_;
}

std::optional<int> RemoteTrials::OnSignal(int signal) {
  // A scheduler may send SIGUSR2 and SIGTERM one after the other.
  const bool again = signal_ != 0 && signal_ != SIGUSR2 && signal != SIGUSR2;
  if (again && (signal == signal_ || NeedsRunner())) return 128 + signal;
  signal_ = signal;
  Drain("it received " + SignalName(signal), signal);
  return std::nullopt;
}

void RemoteTrials::Drain(const std::string& reason, int signal) {
  if (std::exchange(draining_, true)) return;
  if (notice_) {
    notice_("taking no more trials: " + reason +
            (trials_.empty() ? "" : "; saving checkpoints"));
  }
  Send(WorkerDraining{reason, signal});
  for (const TrialId trial : trials_) launcher_->RequestStop(trial);
  if (NeedsRunner()) asked_at_ = clock_.monotonic();
}

// Resuming the experiment finds the checkpoints that are saved now.
void RemoteTrials::StopAfterLoss() {
  if (NeedsRunner()) return;
  if (notice_) notice_(std::string(lost_->what()) + "; saving checkpoints");
  for (const TrialId trial : trials_) launcher_->RequestStop(trial);
  const Duration end = clock_.monotonic() + kLastCheckpoint;
  while (!trials_.empty() && clock_.monotonic() < end) {
    const LaunchEvent event = launcher_->Wait(std::chrono::seconds(1));
    if (const auto* exited = std::get_if<TrialExited>(&event)) {
      trials_.erase(exited->trial);
    } else if (std::holds_alternative<Interrupted>(event)) {
      return;
    } else if (std::holds_alternative<Idle>(event)) {
      // The closed connection wakes the launcher at once.
      std::this_thread::sleep_for(kLastPause);
    }
  }
}

void RemoteTrials::Apply(const NodeOrder& order) {
  if (const auto* start = std::get_if<StartShard>(&order)) {
    Start(*start);
  } else if (const auto* tell = std::get_if<TellShard>(&order)) {
    launcher_->Send(tell->trial, DecodeRunnerMessage(tell->line));
  } else if (const auto* stop = std::get_if<StopShard>(&order)) {
    launcher_->RequestStop(stop->trial);
  } else if (const auto* kill = std::get_if<KillShard>(&order)) {
    launcher_->Kill(kill->trial);
  } else if (std::holds_alternative<DrainNode>(order)) {
    Drain("the runner asked for it");
  }
}

void RemoteTrials::Start(const StartShard& order) {
  TrialSpec spec = order.spec;
  // The runner did not know yet.
  if (draining_) {
    return Send(
        ShardEnded{.exited = TrialExited{.trial = spec.id, .preempted = true}});
  }
  if (const std::string why = ObjectionTo(spec, roots_); !why.empty()) {
    return NotStarted(spec, name_ + why);
  }
  if (const std::string missing = MissingFile(spec); !missing.empty()) {
    return NotStarted(spec, name_ + missing);
  }
  // The token came in the clear. Its place takes what only those who share the
  // secret can derive from it.
  if (spec.address) spec.address->token = RankSecret(secret_, spec);
  if (gpu_threads_ > 0) spec.threads = static_cast<int>(gpu_threads_);
  UniqueFd listener;
  if (spec.address && spec.rank == 0) {
    try {
      listener = ListenAt({.host = spec.address->host});
    } catch (const Error& error) {
      return NotStarted(spec, name_ + error.what());
    }
    spec.address->port = GetPort(listener.get());
    ports_[spec.id] = spec.address->port;
  }
  trials_.insert(spec.id);
  if (order.led_by_runner && spec.rank > 0) led_by_runner_.insert(spec.id);
  launcher_->StartShard(spec, std::move(listener));
}

void RemoteTrials::NotStarted(const TrialSpec& spec, const std::string& why) {
  if (notice_) {
    notice_("cannot start trial " + ToString(spec.id) + ": " +
            EscapeForTerminal(why));
  }
  Send(ShardEnded{.exited = TrialExited{.trial = spec.id,
                                        .exit_code = 1,
                                        .rank = spec.rank,
                                        .not_started = why,
                                        .last_lines = {why}}});
}

void RemoteTrials::On(const LaunchEvent& event) {
  if (const std::string line = FormatNotice(event); notice_ && !line.empty()) {
    notice_(line);
  }
  if (const auto* started = std::get_if<TrialStarted>(&event)) {
    // The runner tells the other ranks the port at which the first one listens.
    const auto port = ports_.extract(started->trial);
    Send(
        ShardStarted{started->trial, started->slots, port ? port.mapped() : 0});
  } else if (const auto* said = std::get_if<MessageReceived>(&event)) {
    const auto* finished = std::get_if<Finished>(&said->message);
    if (finished != nullptr) {
      finished_[said->trial] = *finished;
    } else {
      Send(ShardMessage{said->trial, Encode(said->message)});
    }
  } else if (const auto* sampled = std::get_if<SystemSampled>(&event)) {
    Send(*sampled);
  } else if (const auto* exited = std::get_if<TrialExited>(&event)) {
    trials_.erase(exited->trial);
    led_by_runner_.erase(exited->trial);
    ports_.erase(exited->trial);
    if (trials_.empty()) idle_since_ = clock_.monotonic();
    ShardEnded ended{.exited = *exited};
    if (auto finished = finished_.extract(exited->trial)) {
      ended.finished = std::move(finished.mapped());
    }
    ended.exited.preempted = draining_;
    auto& fault = ended.exited.gpu_fault;
    const bool none_left = fault && fault->none_left;
    // Other workers may have GPUs.
    if (none_left) fault->none_left = false;
    Send(ended);
    if (none_left) Drain("too few of its GPUs are left");
    if (draining_ && NeedsRunner()) asked_at_ = clock_.monotonic();
  }
}

}  // namespace dtrain
