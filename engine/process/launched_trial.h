#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
#include "engine/os/unique_fd.h"
#include "engine/process/launcher.h"
#include "engine/process/rank_process.h"
#include "engine/process/trial_end.h"
#include "engine/process/trial_forker.h"
#include "engine/process/trial_output.h"
#include "engine/slots/slot_pool.h"

namespace dtrain {

/// One trial of the local launcher, all ranks of it on this machine, from the
/// forking of the first until nothing of them is left. What becomes of one rank
/// becomes of the trial: when one has ended, the others have to, soon. One
/// thread.
class LaunchedTrial {
 public:
  /// Makes the ends that the ranks are to have: one that has all of the lease
  /// or `RanksHere(spec)` with a slot each. `listener` is what rank 0 meets
  /// those of other machines by, or none. Throws Error(kFailed).
  LaunchedTrial(TrialSpec spec, SlotLease lease, TrialOutput output,
                Clock clock, Poller& poller, std::uint64_t token,
                UniqueFd listener = {});
  LaunchedTrial(const LaunchedTrial&) = delete;
  LaunchedTrial& operator=(const LaunchedTrial&) = delete;

  /// Whether there is a rank to be forked now.
  bool wants_fork() const;
  /// What that rank is to be forked with. Its outcome, by `OnForked`,
  /// `FailToStart` or `CancelFork`, is to follow. REQUIRES: wants_fork().
  ForkOrder NextFork();
  /// The rank lives, as a child of this process. With the last of them, the
  /// trial begins. Throws Error(kFailed).
  std::optional<TrialStarted> OnForked(std::int64_t pid,
                                       const std::string& store);
  /// A rank has no process and never will: kills those that live.
  void FailToStart(const std::string& reason);
  /// The rank will not be forked. REQUIRES: the trial is killed.
  void CancelFork() { forking_ = false; }

  /// To rank 0; kept until the trial begins, dropped once that rank is gone.
  void Send(const RunnerMessage& message);
  /// Asks; SIGTERM after `grace`, then SIGKILL.
  void RequestStop(Duration grace);
  void Kill();

  /// Takes in what a descriptor has to say; messages go to `events`.
  void OnReady(const Poller::Ready& ready, std::deque<LaunchEvent>& events);
  /// Does what is due.
  void OnTime();
  /// When `OnTime` is to be called next; none if nothing is to come.
  std::optional<Duration> Deadline() const;

  /// There is, or was, a process of it.
  bool forked() const { return next_ > 0; }
  /// No process of it lives, or will.
  bool dead() const;
  /// It is dead and all that it wrote is read, or has had its time.
  bool drained() const;
  /// Its last word, if it had one, and its end. REQUIRES: drained().
  void TellEnd(bool out_of_memory, std::deque<LaunchEvent>& events);

  TrialId id() const { return id_; }
  /// How many tokens of the poller it uses, from its first.
  std::uint64_t tokens() const {
    return ranks_.size() * RankProcess::kChannels;
  }
  /// Adds the pids of its ranks that live.
  void AddPids(std::set<std::int64_t>& pids) const;

 private:
  enum class StopStep { kNone, kAsked, kTerminated, kKilled };
  struct Rank {
    std::unique_ptr<RankProcess> process;
    std::vector<Gpu> gpus;
    RankEnd end;
  };

  int RankToFork() const;
  bool living() const;
  void Begin();
  void Punish(Rank& rank, const std::string& reason);
  void SignalAll(int signal);
  void KillAll();
  void ReadMessages(Rank& rank, std::deque<LaunchEvent>& events);
  void Take(Rank& rank, TrialMessage message, std::deque<LaunchEvent>& events);
  void OnExit(std::size_t number);
  void EndStragglers();
  TrialEnd End() const;

  TrialId id_;
  // Held until the trial is reaped, and by the trial itself: a process that
  // ends closes its files one by one, its slot's lock maybe before its GPU.
  SlotLease lease_;
  Clock clock_;
  std::uint64_t token_;
  TrialOutput output_;
  std::vector<Rank> ranks_;
  const bool several_;    // ranks, here or elsewhere
  UniqueFd memory_;       // until all are forked; none for one rank
  UniqueFd listener_;     // likewise, for the first
  std::size_t next_ = 0;  // the rank that is forked, or to be forked next
  bool forking_ = false;  // its outcome is not known yet
  std::vector<std::size_t> dead_;  // of `ranks_`, in the order of their deaths
  std::string not_started_;
  Duration started_at_{0};
  StopStep stop_ = StopStep::kNone;
  std::optional<Duration> next_stop_at_;
  std::optional<Duration> others_until_;  // one has ended, the others have to
  bool killed_by_us_ = false;
  const Rank* punished_ = nullptr;  // it broke the protocol
  double seconds_ = 0;
};

}  // namespace dtrain
