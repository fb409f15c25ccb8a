#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
#include "engine/os/unique_fd.h"
#include "engine/process/launcher.h"
#include "engine/process/system_monitor.h"
#include "engine/process/trial_forker.h"
#include "engine/process/trial_output.h"
#include "engine/slots/slot_pool.h"

namespace dtrain {

struct TrialEnd;

/// Number of the trial's ranks on this machine, from `trial.rank` on.
int RanksHere(const TrialSpec& trial);

/// One trial of the local launcher with all its ranks on this machine, from the
/// fork of the first until no process is left. Ranks end together: when one has
/// ended, the others are killed unless they end soon. One thread.
class LaunchedTrial {
 public:
  /// Makes the pipes and sockets of the ranks: one rank that has all slots of
  /// the lease, or `RanksHere(spec)` ranks with a slot each. `listener` is the
  /// socket to which ranks of other machines connect, or none. Throws
  /// Error(kFailed).
  LaunchedTrial(TrialSpec spec, SlotLease lease, TrialOutput output,
                Clock clock, Poller& poller, std::uint64_t token,
                UniqueFd listener = {});
  ~LaunchedTrial();
  LaunchedTrial(const LaunchedTrial&) = delete;
  LaunchedTrial& operator=(const LaunchedTrial&) = delete;

  /// True if a rank is to be forked now.
  bool wants_fork() const;
  /// Returns the request to fork that rank. `OnForked`, `FailToStart` or
  /// `CancelFork` must follow. REQUIRES: wants_fork().
  ForkOrder NextFork();
  /// The rank was forked as a child of this process. Starts the trial if it was
  /// the last one. Throws Error(kFailed).
  std::optional<TrialStarted> OnForked(std::int64_t pid,
                                       const std::string& store);
  /// A rank could not be forked: kills the others.
  void FailToStart(const std::string& reason);
  /// The rank will not be forked. REQUIRES: the trial is killed.
  void CancelFork() { forking_ = false; }

  /// Sends to rank 0; buffered until the trial starts, dropped if that rank has
  /// ended.
  void Send(const RunnerMessage& message);
  /// Asks the trial to stop; SIGTERM after `grace`, then SIGKILL.
  void RequestStop(Duration grace);
  void Kill();

  /// Handles a ready descriptor; messages are appended to `events`.
  void OnReady(const Poller::Ready& ready, std::deque<LaunchEvent>& events);
  /// Does everything whose time has come.
  void OnTime();
  /// Time at which `OnTime` must be called next, if any.
  std::optional<Duration> Deadline() const;

  /// True if a process was forked.
  bool forked() const { return next_ > 0; }
  /// True if all processes have ended and none will be forked.
  bool dead() const;
  /// True if it is dead and its output was read, or the time for that is over.
  bool drained() const;
  /// Appends its final message, if any, and its end. REQUIRES: drained().
  void ReportEnd(bool out_of_memory, std::deque<LaunchEvent>& events);

  /// Returns the GPUs of the ranks that failed with an error for which
  /// `is_cause` is true; `reason`, if not null, becomes the first such line.
  /// REQUIRES: drained().
  std::vector<Gpu> GpusOfFailure(bool (*is_cause)(std::string_view),
                                 std::string* reason) const;

  TrialId id() const { return id_; }
  /// Number of poller tokens that it uses, from its first.
  std::uint64_t tokens() const;
  /// Returns its processes and GPUs on this machine.
  MonitoredTrial FindProcesses() const;
  /// Returns what its processes used from its start to its end, as one sample:
  /// of the memory the greatest that one process of each rank had. REQUIRES:
  /// dead().
  SystemSample Used() const;
  /// Adds the pids of its living ranks.
  void AddPids(std::set<std::int64_t>& pids) const;

 private:
  enum class StopStep { kNone, kAsked, kTerminated, kKilled };
  struct Rank;

  int RankToFork() const;
  bool living() const;
  void Begin();
  void KillForProtocolError(Rank& rank, const std::string& reason);
  void SignalAll(int signal);
  void KillAll();
  void HandleMessage(Rank& rank, TrialMessage message,
                     std::deque<LaunchEvent>& events);
  void OnExit(std::size_t number);
  TrialEnd End() const;
  std::optional<std::string> FindCause(
      const Rank& rank, bool (*is_cause)(std::string_view)) const;

  TrialId id_;
  // Held by the trial's processes, and here until they are reaped: a process
  // that ends may close the lock of its slot before it releases the GPU.
  SlotLease lease_;
  Clock clock_;
  std::uint64_t token_;
  TrialOutput output_;
  std::vector<Rank> ranks_;
  const bool several_;             // ranks, here or on other machines
  UniqueFd memory_;                // until all are forked; none for one rank
  UniqueFd listener_;              // likewise, for rank 0
  std::size_t next_ = 0;           // rank being forked, or to be forked next
  bool forking_ = false;           // the outcome of that fork is not known yet
  std::vector<std::size_t> dead_;  // of `ranks_`, in the order of their deaths
  std::string not_started_;
  Duration started_at_{0};
  StopStep stop_ = StopStep::kNone;
  std::optional<Duration> next_stop_at_;
  // Time at which remaining ranks are killed, because one has ended.
  std::optional<Duration> others_until_;
  bool killed_by_us_ = false;
  const Rank* violator_ = nullptr;  // rank that violated the protocol
  double seconds_ = 0;
};

}  // namespace dtrain
