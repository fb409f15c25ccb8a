#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/os/poller.h"
#include "engine/process/launched_trial.h"
#include "engine/process/local_launcher.h"
#include "engine/process/orphans.h"
#include "engine/process/signal_watch.h"
#include "engine/process/trial_forker.h"
#include "engine/slots/cgroup.h"
#include "engine/slots/slot_pool.h"

namespace dtrain {

/// The event loop behind LocalLauncher, whose contract it fulfils: gives slots
/// and processes to the trials that wait, and passes on what happens to them.
class LaunchLoop {
 public:
  explicit LaunchLoop(LocalLauncherOptions options);
  ~LaunchLoop();

  std::size_t FreeSlots() const;
  void Start(const TrialSpec& spec, UniqueFd listener);
  void Send(TrialId trial, const RunnerMessage& message);
  void RequestStop(TrialId trial);
  void Kill(TrialId trial);
  std::optional<SlotWait> LongWait();
  LaunchEvent Wait(Duration timeout);
  void Abort();

 private:
  // A trial that waits for its slot.
  struct Waiting {
    TrialSpec spec;
    UniqueFd listener;
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    std::unique_ptr<LaunchedTrial> trial;
    std::int64_t oom_kills = 0;  // when it started
  };
  // What the poller calls the descriptor that tells of free slots.
  static constexpr std::uint64_t kSlotsToken = 2;
  using Trials = std::map<std::uint64_t, Running>;  // by first token

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

}  // namespace dtrain
