#pragma once

#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/nodes/nodes.h"
#include "engine/nodes/shared_trial.h"
#include "engine/process/local_launcher.h"

namespace dtrain {

/// Runs trials whose ranks are on this machine and on those of its followers.
/// To the experiment they are as LocalLauncher's: a trial takes its slots
/// machine by machine, in the order of Nodes, starts when it has all, ends as a
/// whole, and a machine that is lost is a failure of its ranks. A trial that
/// finds a follower missing waits some minutes for it to be started again.
class NodesLauncher : public Launcher {
 public:
  /// `spec.world_size` of what is started counts this machine's ranks only.
  /// REQUIRES: `nodes` outlives it.
  NodesLauncher(Nodes& nodes, LocalLauncherOptions options);
  ~NodesLauncher() override;

  std::size_t FreeSlots() const override;
  void Start(const TrialSpec& spec) override;
  void Send(TrialId trial, const RunnerMessage& message) override;
  void RequestStop(TrialId trial) override;
  void Kill(TrialId trial) override;
  std::optional<SlotWait> LongWait() override { return local_.LongWait(); }
  LaunchEvent Wait(Duration timeout) override;
  void Abort() override;

 private:
  // A trial that waits for a follower, or for one before it to have its slots.
  struct Waiting {
    TrialSpec spec;
    // When it has waited too long for a follower.
    Duration until{0};
    std::vector<RunnerMessage> messages;
  };
  struct Running {
    SharedTrial trial;
    RankAddress address;
    // Of this machine's part, the first two until it begins.
    UniqueFd listener;
    std::vector<RunnerMessage> messages;
    std::optional<Finished> word;
  };

  LocalLauncherOptions LocalOptions(LocalLauncherOptions options);
  Running* Find(TrialId trial);
  std::list<Waiting>::iterator FindWaiting(TrialId trial);
  // Ends a trial that has not begun; false if there is none.
  bool EndWaiting(TrialId trial, bool killed);
  void BeginWaiting();
  struct Prepared;
  // None if that cannot be, which is told.
  std::optional<Prepared> Prepare(const TrialSpec& spec);
  void Begin(Waiting waiting);
  void BeginNext(Running& running);
  void NotStarted(TrialId trial, const std::string& why);

  void Step(Duration timeout);
  std::optional<Duration> Deadline() const;
  void On(const LaunchEvent& event);
  void On(const NodeEvent& event);
  void OnReport(int node, const NodeReport& report);
  void DoWhatIsDue();

  Nodes& nodes_;
  StoreLayout layout_;
  Clock clock_;
  std::int64_t experiment_;
  std::list<Waiting> waiting_;
  std::list<Running> running_;
  std::deque<LaunchEvent> events_;
  bool interrupted_ = false;
  LocalLauncher local_;
};

}  // namespace dtrain
