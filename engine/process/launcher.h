#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/slots/slots.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// A trial got its slots and its processes.
struct TrialStarted {
  TrialId trial;
  std::int64_t pid = 0;            // of rank 0
  std::int64_t start_ticks = 0;    // field 22 of /proc/PID/stat
  std::vector<std::string> slots;  // "gpu:0", "cpu:1"
};

/// A trial sent a message: rank 0 for all of them. Its `Finished` comes when
/// all are dead.
struct TrialSaid {
  TrialId trial;
  TrialMessage message;
};

/// All processes of a trial are gone, with all that they had started, and its
/// slots are free. Comes once for each Start, after every message it sent.
struct TrialExited {
  TrialId trial;
  int exit_code = 0;  // of the first rank that failed; −1: by `signal`
  int signal = 0;
  int rank = -1;              // that rank; −1: the trial had but one
  bool killed_by_us = false;  // after Kill, Abort or a grace that ran out
  bool out_of_memory = false;
  std::string not_started;              // why it never ran, or empty
  double seconds = 0;                   // since TrialStarted
  std::vector<std::string> last_lines;  // of that rank's log, oldest first
};

/// The process was asked to end: SIGINT, SIGTERM or SIGHUP.
struct Interrupted {
  int signal = 0;
};

/// Nothing happened for as long as `Wait` was told to wait.
struct Idle {};

using LaunchEvent =
    std::variant<TrialStarted, TrialSaid, TrialExited, Interrupted, Idle>;

/// The only door to processes and GPUs; tests use FakeLauncher. One thread.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// How many more trials can be given to Start now. Where other experiments
  /// hold the machine's slots, a started trial still waits for its turn.
  virtual std::size_t FreeSlots() const = 0;
  /// Queues the trial, of `world_size` ranks; TrialStarted follows when slots
  /// are had, TrialExited in any case. REQUIRES: it is not started.
  virtual void Start(const TrialSpec& spec) = 0;
  /// Passes a message on to rank 0; dropped if the trial is gone.
  virtual void Send(TrialId trial, const RunnerMessage& message) = 0;
  /// Asks the trial to checkpoint and exit; SIGTERM after the grace, SIGKILL
  /// to its session after that. A trial still queued just exits.
  virtual void RequestStop(TrialId trial) = 0;
  /// SIGKILL to the trial's session and what it started, now.
  virtual void Kill(TrialId trial) = 0;
  /// What the first started trial that has no slot yet has waited for, for
  /// longer than `kShownSlotWait`; none otherwise.
  virtual std::optional<SlotWait> LongWait() { return std::nullopt; }
  /// The next event, waiting up to `timeout`; the only blocking call.
  virtual LaunchEvent Wait(Duration timeout) = 0;
  /// Kills every trial and all that they started, and waits until none lives.
  /// TrialExited events follow from Wait.
  virtual void Abort() = 0;
};

}  // namespace dtrain
