#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/wire/message.h"
#include "engine/wire/system_sample.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

struct SlotWait;

/// A trial has its slots and its processes.
struct TrialStarted {
  TrialId trial;
  std::int64_t pid = 0;            // of rank 0
  std::int64_t start_ticks = 0;    // field 22 of /proc/PID/stat
  std::vector<std::string> slots;  // "gpu:0", "cpu:1"
};

/// A trial has sent a message; rank 0 sends for all ranks. `Finished` is held
/// back until all its processes have ended.
struct MessageReceived {
  TrialId trial;
  TrialMessage message;
};

/// A fault of GPUs, or of the driver, that failed a trial.
struct GpuFault {
  std::string gpus;  // "GPU 3 (GPU-4f1c…)", of the trial's that may be faulty
  std::string reason;  // error or line of the log that reports it
  /// The launcher starts no trials on them until a probe has succeeded. Not so
  /// for a trial that MPS has ended because another one faulted.
  bool set_aside = true;
  bool none_left = false;  // too few GPUs are left to start a trial

  static void Fields(auto& field, auto& m) {
    field("gpus", m.gpus);
    field("reason", m.reason);
    field("set_aside", m.set_aside);
    field("none_left", m.none_left);
  }
};

/// All processes of a trial and those that they started have ended, and its
/// slots are free. Follows each Start once, after all messages of the trial.
struct TrialExited {
  TrialId trial;
  int exit_code = 0;  // of the first rank that failed; −1: ended by `signal`
  int signal = 0;
  int rank = -1;              // that rank; −1 if the trial had only one
  bool killed_by_us = false;  // by Kill, Abort or the end of a grace period
  bool preempted = false;  // it was stopped because its machine is taken away
  bool out_of_memory = false;
  std::string lost;                     // why its machine was lost, or empty
  std::string not_started;              // reason why it never ran, or empty
  double seconds = 0;                   // since TrialStarted
  std::vector<std::string> last_lines;  // of that rank's log, oldest first
  std::string last_error_line;          // that rank's last line on stderr
  std::optional<GpuFault> gpu_fault;    // the cause of its failure
};

/// A GPU that was set aside has passed a probe, and trials may use it.
struct GpuRestored {
  std::string gpu;  // "GPU 3 (GPU-4f1c…)"
};

/// No more workers can be had, so trials would wait for slots for ever.
struct WorkersFailed {
  std::string why;
};

/// The process was asked to end: SIGINT, SIGTERM or SIGHUP.
struct Interrupted {
  int signal = 0;
};

/// No event occurred before the timeout of `Wait`.
struct Idle {};

using LaunchEvent =
    std::variant<TrialStarted, MessageReceived, TrialExited, SystemSampled,
                 GpuRestored, WorkersFailed, Interrupted, Idle>;

/// Interface to processes and GPUs; tests use FakeLauncher. One thread.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Number of further trials that may be started now. If other experiments
  /// hold the machine's slots, a started trial is queued for its turn.
  virtual std::size_t FreeSlots() const = 0;
  /// Number of trials that can run at once on the slots that there are now.
  virtual std::size_t Capacity() const = 0;
  /// Sets the number of trials that run or would be started now if there were
  /// slots, for a launcher that can get more.
  virtual void SetDemand(std::size_t /*trials*/) {}
  /// Queues the trial, of `world_size` ranks. TrialStarted follows once it has
  /// slots, TrialExited in any case. REQUIRES: it is not started.
  virtual void Start(const TrialSpec& spec) = 0;
  /// Sends a message to rank 0; dropped if the trial has ended.
  virtual void Send(TrialId trial, const RunnerMessage& message) = 0;
  /// Asks the trial to checkpoint and exit. Sends SIGTERM after the grace
  /// period, then SIGKILL to its session. A queued trial exits at once.
  virtual void RequestStop(TrialId trial) = 0;
  /// Sends SIGKILL to the trial's session and the processes it started.
  virtual void Kill(TrialId trial) = 0;
  /// Describes the wait of the first queued trial for a slot, if that has
  /// lasted longer than `kShownSlotWait`.
  virtual std::optional<SlotWait> LongWait() = 0;
  /// Returns the next event, waiting up to `timeout`. The only blocking call.
  virtual LaunchEvent Wait(Duration timeout) = 0;
  /// Kills every trial and the processes they started, and waits until all have
  /// ended. TrialExited events follow from Wait.
  virtual void Abort() = 0;
};

}  // namespace dtrain
