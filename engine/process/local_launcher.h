#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"
#include "engine/process/launcher.h"
#include "engine/process/trial_host.h"
#include "engine/slots/gpu_quarantine.h"
#include "engine/slots/slots.h"
#include "engine/store/layout.h"

namespace dtrain {

struct LogRecord;

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
  bool handles_usr2 = false;   // SIGUSR2 is reported too
  // Receives the trials' logs; empty: the files of the layout. With it, the
  // directories of a trial are not made here either.
  std::function<void(TrialId, const LogRecord&)> log;
  int wake = -1;  // descriptor; while it is readable, Wait returns Idle
  // From one SystemSampled of a trial to the next; none: it is not sampled.
  std::optional<Duration> system_period = {};
  GpuQuarantineOptions quarantine = {};
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
  /// Starts this machine's shard of a trial on several machines, as given by
  /// `spec.address`. Rank 0 gets `listener`, to which the others connect.
  virtual void StartShard(const TrialSpec& spec, UniqueFd listener) = 0;
};

/// Throws Error(kResources) if there can be no slot directory.
std::unique_ptr<LocalLauncher> MakeLocalLauncher(LocalLauncherOptions options);

}  // namespace dtrain
