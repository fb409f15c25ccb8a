#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/process/launcher.h"
#include "engine/process/poller.h"
#include "engine/process/rank_process.h"
#include "engine/process/trial_output.h"
#include "engine/slots/slot_pool.h"

namespace dtrain {

/// One trial of the local launcher from the forking of its process until
/// nothing of that is left. One thread.
class LaunchedTrial {
 public:
  /// Makes the ends that the process is to have. Throws Error(kFailed).
  LaunchedTrial(TrialSpec spec, SlotLease lease, std::filesystem::path log,
                Clock clock, Poller& poller, std::uint64_t token);
  LaunchedTrial(const LaunchedTrial&) = delete;
  LaunchedTrial& operator=(const LaunchedTrial&) = delete;

  /// What is to be handed to the process.
  std::vector<int> HandedFds() const;
  /// It lives, as a child of this process: closes what was handed to it and
  /// sends its specification. Throws Error(kFailed).
  TrialStarted OnForked(std::int64_t pid, const std::string& store);

  /// Kept until the process lives, dropped once it is gone.
  void Send(const RunnerMessage& message);
  /// Asks; SIGTERM after `grace`, then SIGKILL.
  void RequestStop(Duration grace);
  void Kill();
  /// It has no process and never will: `Result` says why.
  void FailToStart(const std::string& reason);

  /// Takes in what a descriptor has to say; messages go to `events`.
  void OnReady(const Poller::Ready& ready, std::deque<LaunchEvent>& events);
  /// Does what is due.
  void OnTime();
  /// When `OnTime` is to be called next; none if nothing is to come.
  std::optional<Duration> Deadline() const;

  /// The process is dead and reaped.
  bool dead() const { return rank_.dead(); }
  /// It is dead and all that it wrote is read, or has had its time.
  bool drained() const { return rank_.drained(); }
  TrialExited Result(bool out_of_memory);

  TrialId id() const { return id_; }
  std::int64_t pid() const { return rank_.pid(); }

 private:
  enum class StopStep { kNone, kAsked, kTerminated, kKilled };

  void Write(const std::string& lines);
  void Punish(const std::string& reason);
  void OnExit();
  void ReadMessages(std::deque<LaunchEvent>& events);

  TrialId id_;
  // Held until the trial is reaped, and by the trial itself: a process that
  // ends closes its files one by one, its slot's lock maybe before its GPU.
  SlotLease lease_;
  Clock clock_;
  std::uint64_t token_;
  TrialOutput output_;
  RankProcess rank_;
  std::string not_started_;
  Duration started_at_{0};
  StopStep stop_ = StopStep::kNone;
  std::optional<Duration> next_stop_at_;
  bool killed_by_us_ = false;
  bool punished_ = false;
  double seconds_ = 0;
};

}  // namespace dtrain
