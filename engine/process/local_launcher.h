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

/// Ends what dead trials leave behind. A trial adopts the orphans of its own
/// processes, and this process adopts them when the trial dies; so every child
/// that this process did not make itself is such an orphan, or the child of
/// one. One thread, one object in a process.
class Orphans {
 public:
  /// Makes this process adopt orphans. Its present children are exempt.
  explicit Orphans(Clock clock);

  /// Kills and reaps every child except `others`; true if none is left. A
  /// child that does not die (it hangs in the kernel) is given up after 10 s.
  [[nodiscard]] bool Sweep(const std::set<std::int64_t>& others);

 private:
  Clock clock_;
  std::set<std::int64_t> known_;
  std::map<std::int64_t, Duration> killed_at_;  // by pid, for those not dead
};

struct LocalLauncherOptions {
  std::int64_t experiment = 0;
  SlotPlan slots;
  StoreLayout layout;          // for the logs
  std::filesystem::path host;  // the trial-host program
  std::vector<std::pair<std::string, std::string>> environment;  // of trials
  int inherited = -1;  // a descriptor that every trial keeps open, or -1
  Duration grace = StopGrace();  // from stop to SIGTERM
  Clock clock = Clock::System();
  bool ignore_hangup = false;  // detached: SIGHUP is no Interrupted
  // Where the trials' logs go; empty: to the layout's files. With it, the
  // directories of a trial are not made here either.
  std::function<void(TrialId, const LogRecord&)> log;
  int wake = -1;  // a descriptor; while it is readable, Wait gives Idle
};

/// Runs trials as processes of this machine, forked from a warm trial host so
/// that one starts in milliseconds. Takes the machine's slots, shared with all
/// runners of this user, drains the trials' output into their logs, learns of
/// deaths by pidfd, and leaves no process behind. While it lives, SIGINT,
/// SIGTERM and SIGHUP are its events. A trial that breaks the protocol is
/// killed, and its last line says why. REQUIRES: one at a time in a process,
/// which starts no other children in the background.
class LocalLauncher : public Launcher {
 public:
  /// Throws Error(kResources) if there can be no slot directory.
  explicit LocalLauncher(LocalLauncherOptions options);
  ~LocalLauncher() override;

  std::size_t FreeSlots() const override;
  void Start(const TrialSpec& spec) override;
  /// The same for this machine's ranks of a trial on several, which
  /// `spec.address` says; rank 0 gets `listener`, which the others connect to.
  void StartPart(const TrialSpec& spec, UniqueFd listener);
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  std::optional<SlotWait> LongWait() override;
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

 private:
  // A pending trial: it has no slot yet.
  struct Waiting {
    TrialSpec spec;
    UniqueFd listener;
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    std::unique_ptr<LaunchedTrial> trial;
    std::int64_t oom_kills = 0;  // when it started
  };
  // Token of the descriptor that becomes readable when slots are freed.
  static constexpr std::uint64_t kSlotsToken = 2;
  using Trials = std::map<std::uint64_t, Running>;  // by first token

  void StartWith(const TrialSpec& spec, UniqueFd listener);
  Trials::iterator Find(TrialId trial);
  std::deque<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial that has no process; false if it has one, or may have.
  bool EndWithoutProcess(TrialId trial, bool killed);
  // Forgets a fork of it that the host was not asked for yet.
  void CancelFork(Trials::iterator trial);

  void Poll(Duration timeout);
  Duration TimeToNextDeadline(Duration most) const;
  void Dispatch(const Poller::Ready& ready);
  void OnTrialReady(const Poller::Ready& ready);
  void OnSignal();
  void DoWhatIsDue();
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
  std::optional<SlotWait> long_wait_;  // as of `looked_at_`
  Duration looked_at_{0};
  bool woken_ = false;
  std::int64_t swept_host_ = 0;
  std::optional<Duration> sweep_at_;
  std::deque<LaunchEvent> events_;
};

/// Where the trial-host program of this installation is: beside the running
/// `dtrain` (../libexec/dtrain/trial-host). Throws Error(kFailed) if missing.
std::filesystem::path FindTrialHost();

/// The program that runs commands, beside it (command-host). Throws likewise.
std::filesystem::path FindCommandHost();

}  // namespace dtrain
