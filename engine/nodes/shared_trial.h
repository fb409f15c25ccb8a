#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/node_message.h"
#include "engine/nodes/placement.h"
#include "engine/process/launcher.h"
#include "engine/process/trial_output.h"

namespace dtrain {

struct RankEnd;

/// State of one trial whose ranks are on one or several machines, in one shard
/// on each. The trial ends as a whole: when one shard has ended, the others
/// must end soon. A shard starts once the one before it has its slots. Starts
/// and kills nothing itself. One thread.
class SharedTrial {
 public:
  /// `places` are those of the shards, the first of which has rank 0; `order`
  /// is that in which they start. Each of several shards has a rank on each of
  /// its slots, a single one has `spec.world_size` ranks.
  SharedTrial(TrialSpec spec, std::vector<ShardPlace> places,
              const std::vector<int>& order, TrialOutput output, Clock clock);

  const TrialSpec& spec() const { return spec_; }
  TrialId id() const { return spec_.id; }
  const std::vector<ShardPlace>& places() const { return places_; }
  /// Node of a shard.
  int ShardNode(int shard) const {
    return places_[static_cast<std::size_t>(shard)].node;
  }
  /// Number of the first rank of a shard.
  int FirstRank(int shard) const;
  /// The shard that is on the node, if there is one.
  std::optional<int> ShardOn(int node) const;
  /// Sets where rank 0 listens for the others.
  void SetAddress(RankAddress address) { address_ = std::move(address); }
  void SetPort(int port) { address_.port = port; }
  /// Returns the specification of a shard. A single one has no address, since
  /// its ranks communicate within their machine.
  TrialSpec ShardSpec(int shard) const;

  /// Returns the next shard, which the caller must start; none if none is left.
  [[nodiscard]] std::optional<int> PopNext();
  /// True if the shard is still to be started.
  bool is_queued(int shard) const;
  /// Keeps messages to rank 0 until its shard starts. REQUIRES: is_queued(0).
  void Hold(std::vector<RunnerMessage> messages) {
    held_orders_.insert(held_orders_.end(), messages.begin(), messages.end());
  }
  /// Returns the kept messages, once.
  std::vector<RunnerMessage> DrainHeld() {
    return std::exchange(held_orders_, {});
  }
  /// Returns a shard that has waited long for its slots, once for each.
  [[nodiscard]] std::optional<int> PopLongWait();

  /// Record who asked for the end. Shards that are queued end at once.
  void OnStopRequested();
  void OnKillRequested();
  /// Records that one of its machines is taken away.
  void OnPreempted();

  /// Records the start of a shard. TrialStarted is emitted with the last one,
  /// with the slots of all and the process of rank 0.
  void OnStarted(int shard, TrialStarted started,
                 std::deque<LaunchEvent>& events);
  /// Emits a message of the first shard; holds it until all shards have
  /// started.
  void OnMessage(TrialMessage message, std::deque<LaunchEvent>& events);
  void OnPrinted(const LogRecord& record) { output_.Append(record); }
  /// Records the final message of a shard, whose end follows.
  void OnFinished(int shard, Finished finished);
  void OnEnded(int shard, ShardEnded ended);
  /// Ends a shard whose machine is lost; no effect if it has ended before.
  void OnLost(int shard, const std::string& why);

  /// True once, when the remaining shards are to be killed.
  [[nodiscard]] bool PopKillDue();
  /// Flushes the log if it is due.
  void OnTime();
  /// Time of the next OnTime, PopLongWait or PopKillDue; none if nothing is
  /// due.
  std::optional<Duration> Deadline() const;

  /// True until all shards have started.
  bool starting() const { return !released_; }
  bool ended() const { return order_.size() == shards_.size(); }
  bool ended(int shard) const { return At(shard).ended.has_value(); }
  bool is_single() const { return shards_.size() == 1; }
  /// Emits its final message, if there is one, and its end. REQUIRES: ended().
  void EmitEnd(std::deque<LaunchEvent>& events);

 private:
  struct Shard {
    std::optional<TrialStarted> started;
    std::optional<Finished> finished;
    std::optional<ShardEnded> ended;
    bool late_message = false;  // sent after another shard had failed

    bool has_started() const { return started.has_value(); }
  };

  Shard& At(int shard) { return shards_[static_cast<std::size_t>(shard)]; }
  const Shard& At(int shard) const {
    return shards_[static_cast<std::size_t>(shard)];
  }
  void Release(std::deque<LaunchEvent>& events);
  void EndQueued(bool killed);
  std::string NotStarted() const;

  TrialSpec spec_;
  Clock clock_;
  TrialOutput output_;
  std::vector<ShardPlace> places_;
  RankAddress address_;
  std::vector<Shard> shards_;
  std::deque<int> queue_;
  std::vector<RunnerMessage> held_orders_;   // for rank 0
  int last_started_ = 0;                     // the shard that started last
  std::optional<Duration> long_wait_at_;     // when its wait is reported
  std::vector<TrialMessage> held_messages_;  // until all have started
  bool released_ = false;
  std::vector<int> order_;  // shards in the order in which they ended
  std::optional<Duration> kill_at_;
  bool kill_sent_ = false;
  bool stop_requested_ = false;
  bool kill_requested_ = false;
  bool preempted_ = false;
};

}  // namespace dtrain
