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

/// Returns why a follower or worker rejects an order to start a trial, or
/// empty. It accepts only training, and only a library, trial directory,
/// checkpoint and initial weights below `roots`, with symbolic links resolved.
/// A follower takes shards of trials of models; a worker (`whole`) takes whole
/// trials, which may be programs, too.
std::string ObjectionTo(const TrialSpec& spec,
                        const std::vector<std::filesystem::path>& roots,
                        bool whole = false);

/// Returns the line that a follower or worker prints about an event of its
/// launcher: a GPU of this machine is set aside or used again. Empty for other
/// events.
std::string NoticeOf(const LaunchEvent& event);

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
  // Set for a worker, none for a follower.
  std::optional<DrainLimits> drain;
  // Prints a line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// The trials, or ranks of trials, that a runner on another machine runs on
/// this one. Records nothing. One thread.
class RemoteTrials {
 public:
  /// REQUIRES: `link` outlives this.
  RemoteTrials(RunnerLink& link, RemoteTrialsOptions options);

  /// Obeys the runner until it sends ShutdownNode, and returns 0. While it
  /// lives, signals are handled so:
  /// - A follower asks the runner to end the experiment at the first; a second
  ///   one, or no answer, ends the ranks here and returns 128 + the signal.
  /// - A worker drains at the first, of which SIGUSR2 is one, and returns 0
  ///   once its trials are paused; a second one ends them at once.
  /// Throws Error(kFailed) if the runner is lost; the trials of a worker have
  /// been asked to save a checkpoint before. Throws Error(kUsage) if it rejects
  /// this process.
  int Run();

 private:
  LocalLauncherOptions Launcher(LocalLauncherOptions options);
  void Send(const NodeReport& report);
  bool ReceiveOrders();
  void Apply(const NodeOrder& order);
  void Start(TrialSpec spec);
  void NotStarted(const TrialSpec& spec, const std::string& why);
  void On(const LaunchEvent& event);
  void OnExited(const TrialExited& exited);
  std::optional<int> OnSignal(int signal);
  void ReportSignal();
  std::optional<int> EndWithoutAnswer();
  void Drain(const std::string& reason);
  void CheckLimits();
  void StopAfterLoss();
  Duration TimeLeft() const;
  Duration AnswerEnd() const;
  bool is_worker() const { return drain_.has_value(); }

  RunnerLink& link_;
  Clock clock_;
  const std::string name_;
  const std::string secret_;
  const std::vector<std::filesystem::path> roots_;
  const Duration answer_patience_;
  const std::optional<DrainLimits> drain_;
  const std::int64_t gpu_threads_;  // of each rank; 0 on CPU slots
  const std::function<void(const std::string& line)> notice_;
  std::set<TrialId> trials_;  // that have not ended
  std::map<TrialId, Finished> finished_;
  std::map<TrialId, int> ports_;  // where a rank 0 listens; until it starts
  Duration idle_since_;
  bool draining_ = false;
  std::optional<Error> lost_;  // the runner
  int signal_ = 0;
  std::optional<Duration> report_signal_at_;
  // When the runner was asked for an answer: to a signal of a follower, to the
  // end of the last trial of a draining worker.
  std::optional<Duration> asked_at_;
  std::unique_ptr<LocalLauncher> launcher_;
};

}  // namespace dtrain
