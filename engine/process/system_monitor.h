#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "engine/base/clock.h"
#include "engine/os/line_reader.h"
#include "engine/os/poller.h"
#include "engine/process/launcher.h"

namespace dtrain {

/// A GPU as drivers know it.
struct MonitoredGpu {
  std::int64_t index = 0;  // of its slot
  std::string uuid;

  static void Fields(auto& field, auto& m) {
    field("index", m.index);
    field("uuid", m.uuid);
  }
};

/// The processes and GPUs of a trial on this machine.
struct MonitoredTrial {
  TrialId trial;
  int rank = 0;                    // the first of its ranks here
  std::vector<std::int64_t> pids;  // of its ranks; none: the trial has ended
  std::vector<MonitoredGpu> gpus;
  bool sampled = false;  // by an earlier child; what it used before is recorded

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("rank", m.rank);
    field("pids", m.pids);
    field("gpus", m.gpus);
    field("sampled", m.sampled);
  }
};

/// Returns the time from one sample to the next: 5 s, or the duration in the
/// environment variable DTRAIN_SYSTEM_PERIOD. Throws Error(kUsage) if that is
/// not a duration from 10 ms to a day.
Duration SystemPeriod();

/// Samples what the processes and GPUs of trials use, in a child process of its
/// own, so that neither a driver nor a file of /proc that hangs or crashes does
/// any harm here. If the child ends, another one samples processes only; if
/// that ends, trials have only their last sample, which needs no child. One
/// thread.
class SystemMonitor {
 public:
  /// The child is forked for the first trial. `token` is that of its socket.
  SystemMonitor(Duration period, Clock clock, Poller& poller,
                std::uint64_t token);
  ~SystemMonitor();
  SystemMonitor(const SystemMonitor&) = delete;
  SystemMonitor& operator=(const SystemMonitor&) = delete;

  /// The trial has started.
  void Add(MonitoredTrial trial);
  /// The trial has ended and `used` this since it was added. Appends its last
  /// sample to `events`: what the samples before it lack. It has no GPUs. Does
  /// nothing if the trial is not known.
  void Remove(TrialId trial, const SystemSample& used,
              std::deque<LaunchEvent>& events);

  /// Handles a ready socket; samples are appended to `events`.
  void OnReady(std::deque<LaunchEvent>& events);
  /// Replaces a child that has been silent for too long.
  void OnTime();
  /// Time of the next OnTime; none if nothing is sampled.
  std::optional<Duration> Deadline() const;
  /// Pid of the child; -1 if there is none.
  pid_t child() const { return child_; }

 private:
  struct Watched {
    MonitoredTrial trial;
    std::optional<SystemSample> last = {};
    SystemSample sum;  // of all up to the last
  };

  void Start();
  void Stop();
  void Restart();
  void Write(const std::string& line);

  const Duration period_;
  Clock clock_;
  Poller& poller_;
  const std::uint64_t token_;
  std::map<TrialId, Watched> trials_;
  std::optional<LineSocket> socket_;  // to the child
  pid_t child_ = -1;
  Duration heard_at_{0};  // the last line, or the start
  int failures_ = 0;
};

}  // namespace dtrain
