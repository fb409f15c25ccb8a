// LocalLauncher: a poll loop over the signals, the trial host, the slots and
// the trials' sockets, pipes and ends. A trial is queued until the machine's
// slots are free, then its ranks are forked one by one, then it runs until its
// last rank was reaped. TrialExited is sent only after a sweep over all
// children of this process has killed the orphans, because the slots are free
// then. A sweep must not run while a fork is in flight, since the new child
// would be taken for an orphan.
//
// One turn (Poll) waits for descriptors or the next deadline, handles what is
// ready, and then does what is due by time, always in this order: trials,
// forks, orphans, ends, GPUs, and last the next trial that has slots. Events
// are collected and returned one by one by Wait. Only one fork is in flight,
// and only one trial is being forked: ranks of a trial start together.
//
// A trial has a range of poller tokens, so that the token of a descriptor leads
// to its trial by one look-up (upper_bound).

#include "engine/process/local_launcher.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/poller.h"
#include "engine/os/process.h"
#include "engine/os/signals.h"
#include "engine/process/launched_trial.h"
#include "engine/process/mps.h"
#include "engine/process/system_monitor.h"
#include "engine/process/trial_forker.h"
#include "engine/slots/cgroup.h"
#include "engine/slots/slot_pool.h"
#include "engine/store/trial_log.h"

namespace dtrain {
namespace {

// Poller tokens: those of descriptors that belong to no trial, and the first
// one that a trial may have.
constexpr std::uint64_t kSignals = 0;
constexpr std::uint64_t kHost = 1;
constexpr std::uint64_t kWake = 3;
constexpr std::uint64_t kMonitor = 4;
constexpr std::uint64_t kFirstTrial = 5;

constexpr Duration kSweepPause = std::chrono::milliseconds(2);

// Time within which MPS ends all clients of a GPU after a fault, and they exit.
constexpr Duration kMpsFaultSpread = std::chrono::seconds(10);

// Maximum length of the text of a GPU's fault.
constexpr std::size_t kMaxReason = 300;
constexpr Duration kGiveUpAfter = std::chrono::seconds(10);

// Kills the processes that dead trials leave behind. Both a trial and this
// process are subreapers, so a child that this process did not start itself is
// an orphan of a trial, or a child of one. One thread, one object in a process.
class Orphans {
 public:
  // Makes this process a subreaper. Its present children are exempt.
  explicit Orphans(Clock clock);

  // Kills and reaps every child except `others`; true if none is left. Ignores
  // a child that does not die within 10 s, because it hangs in the kernel.
  [[nodiscard]] bool Sweep(const std::set<std::int64_t>& others);

 private:
  Clock clock_;
  std::set<std::int64_t> known_;
  std::map<std::int64_t, Duration> killed_at_;  // by pid, if not dead
};

Orphans::Orphans(Clock clock) : clock_(std::move(clock)) {
  for (const Process& process : ReadProcesses()) {
    if (process.parent == ::getpid()) known_.insert(process.pid);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

bool Orphans::Sweep(const std::set<std::int64_t>& others) {
  bool clean = true;
  for (const Process& process : ReadProcesses()) {
    if (process.parent != ::getpid() || known_.count(process.pid) > 0 ||
        others.count(process.pid) > 0) {
      continue;
    }
    const auto pid = static_cast<pid_t>(process.pid);
    ::kill(pid, SIGKILL);
    if (::waitpid(pid, nullptr, WNOHANG) == pid) {
      killed_at_.erase(process.pid);
      clean = false;  // Its children, if any, are now ours.
      continue;
    }
    const Duration now = clock_.monotonic();
    const auto [first, added] = killed_at_.emplace(process.pid, now);
    if (now - first->second < kGiveUpAfter) clean = false;
  }
  return clean;
}

// The implementation of LocalLauncher.
class ProcessLauncher final : public LocalLauncher {
 public:
  explicit ProcessLauncher(LocalLauncherOptions options);
  ~ProcessLauncher() override;

  std::size_t FreeSlots() const override;
  std::size_t Capacity() const override;
  void Start(const TrialSpec& spec) override;
  void StartShard(const TrialSpec& spec, UniqueFd listener) override;
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  std::optional<SlotWait> LongWait() override;
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

 private:
  // A pending trial, without a slot.
  struct Waiting {
    TrialSpec spec;
    UniqueFd listener;
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    std::unique_ptr<LaunchedTrial> trial;
    std::int64_t oom_kills = 0;  // when it started
  };
  // Poller token of the descriptor that becomes readable when slots are freed.
  static constexpr std::uint64_t kSlotsToken = 2;
  using Trials = std::map<std::uint64_t, Running>;  // by first token

  Trials::iterator Find(TrialId trial);
  std::deque<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial without a process; false if it has or may have one.
  bool EndWithoutProcess(TrialId trial, bool killed);
  // Drops a fork that was not requested from the host yet.
  void CancelFork(Trials::iterator trial);

  void Poll(Duration timeout);
  void Dispatch(const Poller::Ready& ready);
  void OnSignal();
  void OnTime();
  void StartWaiting();
  SlotWaiter Waiter() const;
  void StartTrial(Waiting waiting, SlotLease lease);
  void ForkNext(Trials::iterator trial);
  void DrainForkOutcomes();
  void ReportEnds();
  std::optional<GpuFault> SetAsideGpus(const LaunchedTrial& trial);
  std::optional<GpuFault> FaultOfMpsNeighbor(const LaunchedTrial& trial);

  LocalLauncherOptions options_;
  Orphans orphans_;
  SignalWatch signals_;
  Poller poller_;
  SlotPool pool_;
  GpuQuarantine quarantine_;
  std::map<std::int64_t, Duration> mps_faults_;  // last ones, by GPU
  TrialForker forker_;
  OutOfMemoryCounter oom_counter_;
  std::optional<SystemMonitor> monitor_;
  std::deque<Waiting> waiting_;
  Trials trials_;
  std::optional<std::uint64_t> forking_;  // first token of the trial
  std::uint64_t next_token_;
  bool watching_slots_ = false;
  std::optional<SlotWait> long_wait_;  // as of `polled_at_`
  Duration polled_at_{0};
  bool woken_ = false;
  std::int64_t swept_host_ = 0;
  std::optional<Duration> sweep_at_;
  std::deque<LaunchEvent> events_;
};

ProcessLauncher::ProcessLauncher(LocalLauncherOptions options)
    : options_(std::move(options)),
      orphans_(options_.clock),
      signals_(options_.handles_usr2 ? SignalWatch({SIGUSR2}) : SignalWatch()),
      pool_(options_.slots, options_.clock),
      quarantine_(options_.quarantine, options_.clock),
      forker_({.program = options_.host,
               .experiment = options_.experiment,
               .cuda = !options_.slots.gpus.empty(),
               .warm = options_.slots.slots() > 0,
               .environment = options_.environment},
              options_.clock, poller_, kHost),
      next_token_(kFirstTrial),
      swept_host_(forker_.host_pid()) {
  poller_.Add(signals_.fd(), kSignals);
  if (options_.wake >= 0) poller_.Add(options_.wake, kWake);
  if (options_.system_period) {
    monitor_.emplace(*options_.system_period, options_.clock, poller_,
                     kMonitor);
  }
}

ProcessLauncher::~ProcessLauncher() { Abort(); }

std::size_t ProcessLauncher::FreeSlots() const {
  const std::size_t used = waiting_.size() + trials_.size();
  return Capacity() > used ? Capacity() - used : 0;
}

std::size_t ProcessLauncher::Capacity() const {
  return static_cast<std::size_t>(pool_.trials());
}

ProcessLauncher::Trials::iterator ProcessLauncher::Find(TrialId trial) {
  return std::ranges::find(trials_, trial, [](const auto& entry) {
    return entry.second.trial->id();
  });
}

std::deque<ProcessLauncher::Waiting>::iterator ProcessLauncher::FindWaiting(
    TrialId trial) {
  return std::ranges::find(waiting_, trial,
                           [](const Waiting& it) { return it.spec.id; });
}

void ProcessLauncher::Start(const TrialSpec& spec) { StartShard(spec, {}); }

void ProcessLauncher::StartShard(const TrialSpec& spec, UniqueFd listener) {
  waiting_.push_back({.spec = spec, .listener = std::move(listener)});
  waiting_.back().spec.gpu_share = options_.slots.gpu_share;
  StartWaiting();
}

void ProcessLauncher::Send(TrialId trial, const RunnerMessage& message) {
  if (const auto found = Find(trial); found != trials_.end()) {
    found->second.trial->Send(message);
  } else if (const auto queued = FindWaiting(trial); queued != waiting_.end()) {
    queued->messages.push_back(message);
  }
}

void ProcessLauncher::RequestStop(TrialId trial) {
  if (EndWithoutProcess(trial, /*killed=*/false)) return;
  const auto found = Find(trial);
  if (found != trials_.end()) found->second.trial->RequestStop(options_.grace);
}

void ProcessLauncher::Kill(TrialId trial) {
  if (EndWithoutProcess(trial, /*killed=*/true)) return;
  const auto found = Find(trial);
  if (found == trials_.end()) return;
  found->second.trial->Kill();
  // A fork that the host has begun cannot be canceled. Its process is killed
  // when its pid is known.
  if (forking_ == found->first && !forker_.in_flight()) CancelFork(found);
}

void ProcessLauncher::CancelFork(Trials::iterator trial) {
  forker_.Cancel();
  forking_.reset();
  trial->second.trial->CancelFork();
  sweep_at_ = options_.clock.monotonic();  // Its other ranks may be dead.
}

bool ProcessLauncher::EndWithoutProcess(TrialId trial, bool killed) {
  const auto queued = FindWaiting(trial);
  const auto found = Find(trial);
  if (queued != waiting_.end()) {
    waiting_.erase(queued);
    if (waiting_.empty()) {
      pool_.StopWaiting();
      watching_slots_ = false;
    }
  } else if (found != trials_.end() && forking_ == found->first &&
             !forker_.in_flight() && !found->second.trial->forked()) {
    forker_.Cancel();
    forking_.reset();
    trials_.erase(found);
  } else {
    return false;
  }
  events_.push_back(TrialExited{.trial = trial, .killed_by_us = killed});
  return true;
}

void ProcessLauncher::Abort() {
  while (!waiting_.empty()) Kill(waiting_.front().spec.id);
  std::vector<TrialId> ids;
  for (const auto& [token, running] : trials_) {
    ids.push_back(running.trial->id());
  }
  for (const TrialId id : ids) Kill(id);
  // Until all processes are reaped: their slots must be free, and their logs
  // complete, when this returns.
  while (!trials_.empty()) Poll(std::chrono::seconds(1));
}

LaunchEvent ProcessLauncher::Wait(Duration timeout) {
  const Duration deadline = options_.clock.monotonic() + timeout;
  woken_ = false;
  if (events_.empty()) Poll(timeout);
  while (events_.empty()) {
    const Duration left = deadline - options_.clock.monotonic();
    if (left <= Duration(0) || woken_) return Idle{};
    Poll(left);
  }
  LaunchEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void ProcessLauncher::Poll(Duration timeout) {
  const Duration now = options_.clock.monotonic();
  Duration earliest = now + timeout;
  const auto add = [&earliest](std::optional<Duration> time) {
    if (time) earliest = std::min(earliest, *time);
  };
  for (const auto& [token, running] : trials_) add(running.trial->Deadline());
  add(forker_.Deadline());
  add(quarantine_.Deadline());
  if (monitor_) add(monitor_->Deadline());
  if (!forker_.in_flight()) add(sweep_at_);
  if (pool_.waiting() && !forker_.busy()) add(pool_.retry_at());
  for (const Poller::Ready& ready :
       poller_.Wait(std::max(earliest - now, Duration(0)))) {
    Dispatch(ready);
  }
  OnTime();
}

void ProcessLauncher::Dispatch(const Poller::Ready& ready) {
  if (ready.token == kSignals) {
    OnSignal();
  } else if (ready.token == kHost) {
    forker_.OnReady();
    DrainForkOutcomes();
  } else if (ready.token == kSlotsToken) {
    if (pool_.waiting()) pool_.OnWake();
  } else if (ready.token == kWake) {
    woken_ = true;
  } else if (ready.token == kMonitor) {
    if (monitor_) monitor_->OnReady(events_);
  } else {
    auto found = trials_.upper_bound(ready.token);
    if (found == trials_.begin()) return;
    --found;
    LaunchedTrial& trial = *found->second.trial;
    if (ready.token >= found->first + trial.tokens()) return;
    const bool was_dead = trial.dead();
    trial.OnReady(ready, events_);
    if (!was_dead && trial.dead()) sweep_at_ = options_.clock.monotonic();
  }
}

void ProcessLauncher::OnSignal() {
  while (const int signal = signals_.Read()) {
    if (signal == SIGHUP && options_.ignore_hangup) continue;
    events_.push_back(Interrupted{.signal = signal});
  }
}

void ProcessLauncher::OnTime() {
  for (auto& [token, running] : trials_) running.trial->OnTime();
  if (monitor_) monitor_->OnTime();
  forker_.OnTime();
  DrainForkOutcomes();
  // A host that died may have forked a trial without reporting it.
  if (std::exchange(swept_host_, forker_.host_pid()) != forker_.host_pid()) {
    sweep_at_ = options_.clock.monotonic();
  }
  // A fork in flight has a child of unknown pid.
  if (sweep_at_ && *sweep_at_ <= options_.clock.monotonic() &&
      !forker_.in_flight()) {
    // Everything that this process has started and that lives; all others are
    // orphans.
    std::set<std::int64_t> ours = {forker_.host_pid(), quarantine_.child()};
    if (monitor_) ours.insert(monitor_->child());
    for (const auto& [token, running] : trials_) running.trial->AddPids(ours);
    if (orphans_.Sweep(ours)) {
      sweep_at_.reset();
    } else {
      sweep_at_ = options_.clock.monotonic() + kSweepPause;
    }
  }
  ReportEnds();
  if (const std::optional<Gpu> gpu = quarantine_.OnTime()) {
    pool_.Restore(gpu->index);
    events_.push_back(GpuRestored{ToString(*gpu)});
  }
  StartWaiting();
}

void ProcessLauncher::ReportEnds() {
  if (sweep_at_) return;
  std::erase_if(trials_, [this](const auto& entry) {
    const Running& running = entry.second;
    if (!running.trial->drained()) return false;
    if (monitor_) {
      monitor_->Remove(running.trial->id(), running.trial->Used(), events_);
    }
    const bool out_of_memory = oom_counter_.Read() > running.oom_kills;
    running.trial->ReportEnd(out_of_memory, events_);
    auto& exited = std::get<TrialExited>(events_.back());
    exited.gpu_fault = SetAsideGpus(*running.trial);
    if (!exited.gpu_fault) {
      exited.gpu_fault = FaultOfMpsNeighbor(*running.trial);
    }
    return true;
  });
}

// Sets the GPUs aside that have failed this trial.
std::optional<GpuFault> ProcessLauncher::SetAsideGpus(
    const LaunchedTrial& trial) {
  GpuFault fault;
  const std::vector<Gpu> gpus =
      trial.GpusOfFailure(ReportsGpuFault, &fault.reason);
  if (gpus.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) {
    names.push_back(ToString(gpu));
    quarantine_.Add(gpu);
    pool_.SetAside(gpu.index);
  }
  fault.gpus = Join(names, ", ");
  fault.reason = Truncate(fault.reason, kMaxReason);
  fault.none_left = !pool_.usable();
  return fault;
}

// MPS ends all its clients on a GPU when one of them faults, and tells them
// that or CUDA's error of the fault. The first to end within a short time
// counts as the one that faulted.
std::optional<GpuFault> ProcessLauncher::FaultOfMpsNeighbor(
    const LaunchedTrial& trial) {
  if (options_.slots.gpu_share >= 1 ||
      !MpsRuns(VariablesWith(options_.environment))) {
    return std::nullopt;
  }
  GpuFault fault{.set_aside = false};
  const auto reports_cuda_error = [](std::string_view line) {
    return ReportsMpsFault(line) || line.find("CUDA error") != line.npos;
  };
  const std::vector<Gpu> gpus =
      trial.GpusOfFailure(reports_cuda_error, &fault.reason);
  if (gpus.empty()) return std::nullopt;
  const Duration now = options_.clock.monotonic();
  const auto [last, first] = mps_faults_.emplace(gpus.front().index, now);
  const bool is_neighbor = !first && now - last->second < kMpsFaultSpread;
  if (!is_neighbor) last->second = now;
  if (!is_neighbor && !ReportsMpsFault(fault.reason)) return std::nullopt;
  fault.gpus = ToString(gpus.front());
  fault.reason = Truncate(fault.reason, kMaxReason);
  return fault;
}

void ProcessLauncher::StartWaiting() {
  if (waiting_.empty() || forker_.busy()) return;
  // With GPUs set aside, more trials may run than the pool has room for.
  if (trials_.size() >= static_cast<std::size_t>(pool_.trials())) return;
  if (pool_.waiting() && options_.clock.monotonic() < pool_.retry_at()) return;
  std::optional<SlotLease> lease = pool_.TryTake(Waiter());
  if (lease) {
    long_wait_.reset();
    watching_slots_ = false;
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    StartTrial(std::move(waiting), *std::move(lease));
  } else if (!watching_slots_ && pool_.wake_fd() >= 0) {
    poller_.Add(pool_.wake_fd(), kSlotsToken);
    watching_slots_ = true;
  }
}

SlotWaiter ProcessLauncher::Waiter() const {
  SlotWaiter waiter{.store = options_.layout.root().string()};
  for (const auto& [spec, listener, messages] : waiting_) {
    if (waiter.trials.empty() && spec.address) waiter.part = RanksHere(spec);
    waiter.trials.push_back(ToString(spec.id));
  }
  return waiter;
}

std::optional<SlotWait> ProcessLauncher::LongWait() {
  if (!pool_.waiting() ||
      options_.clock.now() - pool_.waiting_since() < kShownSlotWait) {
    long_wait_.reset();
    return std::nullopt;
  }
  const Duration now = options_.clock.monotonic();
  if (long_wait_ && now - polled_at_ < std::chrono::seconds(1)) {
    return long_wait_;
  }
  polled_at_ = now;
  const SlotWaiter waiter = Waiter();
  for (SlotWait& wait : SlotWaits()) {
    if (wait.store != waiter.store || wait.trials != waiter.trials) continue;
    long_wait_ = std::move(wait);
  }
  return long_wait_;
}

void ProcessLauncher::StartTrial(Waiting waiting, SlotLease lease) {
  const TrialId id = waiting.spec.id;
  try {
    TrialOutput output =
        options_.log
            ? TrialOutput(
                  [id, this](const LogRecord& record) {
                    options_.log(id, record);
                  },
                  options_.clock)
            : OpenTrialOutput(waiting.spec, options_.layout, options_.clock);
    auto trial = std::make_unique<LaunchedTrial>(
        std::move(waiting.spec), std::move(lease), std::move(output),
        options_.clock, poller_, next_token_, std::move(waiting.listener));
    for (const RunnerMessage& message : waiting.messages) trial->Send(message);
    const std::uint64_t token = next_token_;
    next_token_ += trial->tokens();
    const auto added = trials_.emplace(
        token,
        Running{.trial = std::move(trial), .oom_kills = oom_counter_.Read()});
    ForkNext(added.first);
    DrainForkOutcomes();
  } catch (const Error& error) {
    events_.push_back(
        TrialExited{.trial = id,
                    .exit_code = 1,
                    .not_started = std::string("cannot start trial ") +
                                   ToString(id) + ": " + error.what(),
                    .last_lines = {error.what()}});
  }
}

void ProcessLauncher::ForkNext(Trials::iterator trial) {
  ForkOrder order = trial->second.trial->NextFork();
  for (auto& variable : MpsVariables(options_.slots.gpu_share,
                                     VariablesWith(options_.environment))) {
    order.variables.push_back(std::move(variable));
  }
  if (options_.inherited >= 0) order.fds.push_back(options_.inherited);
  forking_ = trial->first;
  forker_.Fork(std::move(order));
}

void ProcessLauncher::DrainForkOutcomes() {
  while (const auto outcome = forker_.PopOutcome()) {
    const auto found = trials_.find(*std::exchange(forking_, std::nullopt));
    LaunchedTrial& trial = *found->second.trial;
    std::string problem = outcome->error;
    try {
      if (outcome->pid != 0) {
        const auto started =
            trial.OnForked(outcome->pid, options_.layout.root().string());
        if (started) {
          events_.push_back(*started);
          if (monitor_) monitor_->Add(trial.FindProcesses());
        }
        if (trial.wants_fork()) ForkNext(found);
        continue;
      }
    } catch (const Error& error) {
      // The next sweep kills the child, which cannot be watched.
      problem = error.what();
    }
    sweep_at_ = options_.clock.monotonic();
    trial.FailToStart(problem);
  }
}

}  // namespace

std::unique_ptr<LocalLauncher> MakeLocalLauncher(LocalLauncherOptions options) {
  return std::make_unique<ProcessLauncher>(std::move(options));
}

}  // namespace dtrain
