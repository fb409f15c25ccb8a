#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/unique_fd.h"
#include "engine/process/launcher.h"
#include "engine/slots/slots.h"
#include "engine/store/layout.h"
#include "engine/store/log_record.h"

namespace dtrain {

class LaunchLoop;

struct LocalLauncherOptions {
  std::int64_t experiment = 0;
  SlotPlan slots;
  StoreLayout layout;          // for the logs
  std::filesystem::path host;  // the trial-host program
  std::vector<std::pair<std::string, std::string>> environment;  // of trials
  int inherited = -1;  // a descriptor that every trial keeps open, or -1
  Duration grace = std::chrono::seconds(30);  // from stop to SIGTERM
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
  std::unique_ptr<LaunchLoop> loop_;
};

/// Where the trial-host program of this installation is: beside the running
/// `dtrain` (../libexec/dtrain/trial-host). Throws Error(kFailed) if missing.
std::filesystem::path FindTrialHost();

/// The program that runs commands, beside it (command-host). Throws likewise.
std::filesystem::path FindCommandHost();

}  // namespace dtrain
