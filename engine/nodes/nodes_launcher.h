#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/nodes.h"
#include "engine/process/launcher.h"
#include "engine/process/local_launcher.h"
#include "engine/process/trial_end.h"
#include "engine/process/trial_output.h"

namespace dtrain {

/// One trial whose ranks are on several machines, in a part on each: what
/// becomes of one part becomes of the trial, so when one has ended the others
/// have to, soon. A part begins once the one before it has its slots. Only
/// keeps account of it. One thread.
class SharedTrial {
 public:
  /// `spec` is that of the whole trial, which counts the ranks of one part;
  /// `parts` are in the order in which they begin, and 0 is this machine's.
  SharedTrial(TrialSpec spec, const std::vector<int>& parts, TrialOutput output,
              Clock clock);

  const TrialSpec& spec() const { return spec_; }
  TrialId id() const { return spec_.id; }
  /// What each part is to be started with, at `address`.
  TrialSpec PartOf(int part, const RankAddress& address) const;

  /// The part that is to begin now; none if none is. Whoever calls begins it.
  [[nodiscard]] std::optional<int> TakeNext();
  /// Whether it has not begun and is to.
  bool begins_later(int part) const;
  /// Once for each: the part that has waited long for its slots.
  [[nodiscard]] std::optional<int> TakeLongWait();

  /// Notes for its end who wanted that. What has not begun does not.
  void StopAsked();
  void KillAsked();

  /// The first part has started, as `started` says, or another one.
  void OnFirstStarted(TrialStarted started, std::deque<LaunchEvent>& events);
  void OnStarted(int part, std::deque<LaunchEvent>& events);
  /// The first part says something; kept until all parts have started.
  void OnSaid(TrialMessage message, std::deque<LaunchEvent>& events);
  void OnPrinted(const LogRecord& record) { output_.Append(record); }
  void OnEnded(int part, PartEnded ended);
  /// The machine of a part is gone; nothing if the part has ended before.
  void OnLost(int part, const std::string& why);

  /// True once: the parts that live are to be killed now.
  [[nodiscard]] bool TakeKillDue();
  /// Writes the log.
  void OnTime();
  /// When something of that is due next; none if nothing is.
  std::optional<Duration> Deadline() const;

  /// True until all parts have started.
  bool starting() const { return !released_; }
  bool ended() const { return order_.size() == parts_.size(); }
  bool ended(int part) const { return At(part).ended.has_value(); }
  /// Its last word, if it had one, and its end. REQUIRES: ended().
  void TellEnd(std::deque<LaunchEvent>& events);

 private:
  struct Part {
    bool started = false;
    std::optional<PartEnded> ended;
    bool late_word = false;  // said when another part had failed already
  };

  Part& At(int part) { return parts_[static_cast<std::size_t>(part)]; }
  const Part& At(int part) const {
    return parts_[static_cast<std::size_t>(part)];
  }
  int FirstRankOf(int part) const { return part * spec_.world_size; }
  void Release(std::deque<LaunchEvent>& events);
  void EndUnbegun(bool killed);
  RankEnd EndOf(int part) const;
  std::string NotStarted() const;

  TrialSpec spec_;
  Clock clock_;
  TrialOutput output_;
  std::vector<Part> parts_;
  std::deque<int> to_begin_;
  int begun_ = 0;                      // the part that began last
  std::optional<Duration> wait_told_;  // when its wait is a long one
  // Told once all have started, with what was said by then.
  std::optional<TrialStarted> first_;
  std::vector<TrialMessage> held_;
  bool released_ = false;
  std::vector<int> order_;  // parts, as they ended
  std::optional<Duration> others_until_;
  bool others_killed_ = false;
  bool stop_asked_ = false;
  bool kill_asked_ = false;
};

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
