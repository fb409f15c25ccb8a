#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
#include "engine/os/signals.h"
#include "engine/os/unique_fd.h"
#include "engine/process/launched_trial.h"
#include "engine/process/launcher.h"
#include "engine/process/trial_forker.h"
#include "engine/process/trial_host.h"
#include "engine/slots/cgroup.h"
#include "engine/slots/slot_pool.h"
#include "engine/slots/slots.h"
#include "engine/store/layout.h"
#include "engine/store/trial_log.h"

namespace dtrain {

/// Kills the processes that dead trials leave behind. A trial is the subreaper
/// of its own processes, and this process of the trial; so every child that it
/// did not start itself is an orphan of a trial, or a child of one. One thread,
/// one object in a process.
class Orphans {
 public:
  /// Makes this process a subreaper. Its present children are exempt.
  explicit Orphans(Clock clock);

  /// Kills and reaps every child except `others`; true if none is left. Ignores
  /// a child that does not die within 10 s, because it hangs in the kernel.
  [[nodiscard]] bool Sweep(const std::set<std::int64_t>& others);

 private:
  Clock clock_;
  std::set<std::int64_t> known_;
  std::map<std::int64_t, Duration> killed_at_;  // by pid, if not dead
};

struct LocalLauncherOptions {
  std::int64_t experiment = 0;
  SlotPlan slots;
  StoreLayout layout;          // for the logs
  std::filesystem::path host;  // the trial-host program
  std::vector<std::pair<std::string, std::string>> environment;  // of trials
  int inherited = -1;  // descriptor that every trial inherits, or −1
  Duration grace = StopGrace();  // from stop to SIGTERM
  Clock clock = Clock::System();
  bool ignore_hangup = false;  // SIGHUP is not reported (detached)
  // Receives the trials' logs; empty: the files of the layout. With it, the
  // directories of a trial are not made here either.
  std::function<void(TrialId, const LogRecord&)> log;
  int wake = -1;  // descriptor; while it is readable, Wait returns Idle
};

/// Runs trials as processes of this machine, forked in milliseconds from a
/// trial host that has loaded their libraries. Takes slots of the machine,
/// which all runners of this user share, writes the trials' output to their
/// logs, and leaves no process behind. While it lives, SIGINT, SIGTERM and
/// SIGHUP are reported as events. A trial that violates the protocol is killed,
/// and the last line of its log says why. REQUIRES: one at a time in a process,
/// which starts no other children in the background.
class LocalLauncher : public Launcher {
 public:
  /// Throws Error(kResources) if there can be no slot directory.
  explicit LocalLauncher(LocalLauncherOptions options);
  ~LocalLauncher() override;

  std::size_t FreeSlots() const override;
  void Start(const TrialSpec& spec) override;
  /// Starts this machine's ranks of a trial on several machines, as given by
  /// `spec.address`. Rank 0 gets `listener`, to which the others connect.
  void StartPart(const TrialSpec& spec, UniqueFd listener);
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

  void StartWith(const TrialSpec& spec, UniqueFd listener);
  Trials::iterator Find(TrialId trial);
  std::deque<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial without a process; false if it has or may have one.
  bool EndWithoutProcess(TrialId trial, bool killed);
  // Drops a fork that was not requested from the host yet.
  void CancelFork(Trials::iterator trial);

  void Poll(Duration timeout);
  Duration TimeToNextDeadline(Duration most) const;
  void Dispatch(const Poller::Ready& ready);
  void OnTrialReady(const Poller::Ready& ready);
  void OnSignal();
  void OnTime();
  void StartWaiting();
  SlotWaiter Waiter() const;
  void StartTrial(Waiting waiting, SlotLease lease);
  TrialOutput OutputOf(const TrialSpec& spec);
  void ForkNext(Trials::iterator trial);
  void TakeForkOutcomes();
  void TakeForkOutcome(const TrialForker::Outcome& outcome);
  void SweepOrphans();
  void ReportEnds();

  LocalLauncherOptions options_;
  Orphans orphans_;
  SignalWatch signals_;
  Poller poller_;
  SlotPool pool_;
  TrialForker forker_;
  OutOfMemoryCounter oom_counter_;
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

/// Path of this installation's trial-host program, relative to the running
/// `dtrain` (../libexec/dtrain/trial-host). Throws Error(kFailed) if missing.
std::filesystem::path FindTrialHost();

/// Path of the program that runs commands (command-host). Throws likewise.
std::filesystem::path FindCommandHost();

}  // namespace dtrain
