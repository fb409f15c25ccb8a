#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/nodes/runner_link.h"
#include "engine/process/local_launcher.h"

namespace dtrain {

/// True if `path` is below one of `roots`, with symbolic links resolved.
bool IsBelowOne(const std::filesystem::path& path,
                const std::vector<std::filesystem::path>& roots);

/// Returns why a worker rejects an order to start a trial, or empty. It accepts
/// only training, and only a library, trial directory, checkpoint and initial
/// weights below `roots`, with symbolic links resolved. Only a whole trial may
/// be a program.
std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots);

/// Returns the line that a worker prints about an event of its launcher: a GPU
/// of this machine is set aside or used again. Empty for other events.
std::string FormatNotice(const LaunchEvent& event);

/// Reasons of a worker to drain: to take no more trials and to pause those it
/// has.
struct DrainLimits {
  std::optional<Timestamp> until;              // end of its machine's time
  Duration grace = std::chrono::seconds(120);  // drains so long before `until`
  std::optional<Duration> idle_timeout;  // drains after so long without a trial
};

struct RemoteTrialsOptions {
  std::string name;  // prefix of messages: "RANK=1: ", or empty
  // Directories that trials may read and execute files of: the store, the cache
  // of compiled models.
  std::vector<std::filesystem::path> roots;
  // Options of the launcher; `log` and `wake` are set here.
  LocalLauncherOptions launcher;
  // Until the runner answers a request to end.
  Duration answer_patience = std::chrono::seconds(10);
  DrainLimits drain;
  // Prints a line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// The trials, or ranks of trials, that a runner on another machine runs on
/// this one. Records nothing. One thread.
class RemoteTrials {
 public:
  /// REQUIRES: `link` outlives this.
  RemoteTrials(RunnerLink& link, RemoteTrialsOptions options);

  /// Obeys the runner until it sends ShutdownNode, and returns 0. At the first
  /// signal, of which SIGUSR2 is one, it drains: it asks its trials to save a
  /// checkpoint and end, and returns 0 once they have. The same signal again
  /// ends them at once. Of trials that only the runner can stop, another signal
  /// does that, too, as does a runner that does not answer; it then returns 128
  /// + the signal.
  /// Throws Error(kFailed) if the runner is lost; its trials have been asked to
  /// save a checkpoint before. Throws Error(kUsage) if it rejects this process.
  int Run();

 private:
  LocalLauncherOptions Launcher(LocalLauncherOptions options);
  void Send(const NodeReport& report);
  bool ReceiveOrders();
  void Apply(const NodeOrder& order);
  void Start(const StartShard& order);
  void NotStarted(const TrialSpec& spec, const std::string& why);
  void On(const LaunchEvent& event);
  std::optional<int> OnSignal(int signal);
  void Drain(const std::string& reason, int signal = 0);
  void StopAfterLoss();
  Duration TimeLeft() const;
  Duration AnswerEnd() const;
  // True if this process can stop none of its trials; true without any.
  bool NeedsRunner() const { return led_by_runner_.size() == trials_.size(); }

  RunnerLink& link_;
  Clock clock_;
  const std::string name_;
  const std::string secret_;
  const std::vector<std::filesystem::path> roots_;
  const Duration answer_patience_;
  const DrainLimits drain_;
  const std::int64_t gpu_threads_;  // of each rank; 0 on CPU slots
  const std::function<void(const std::string& line)> notice_;
  std::set<TrialId> trials_;         // that have not ended
  std::set<TrialId> led_by_runner_;  // of them, see StartShard
  std::map<TrialId, Finished> finished_;
  std::map<TrialId, int> ports_;  // where a rank 0 listens; until it starts
  Duration idle_since_;
  bool draining_ = false;
  std::optional<Error> lost_;  // the runner
  int signal_ = 0;
  // When the runner was asked to dismiss this process, or to stop the trials
  // that only it can stop.
  std::optional<Duration> asked_at_;
  std::unique_ptr<LocalLauncher> launcher_;
};

}  // namespace dtrain
