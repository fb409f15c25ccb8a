#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/node_message.h"
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
  /// `spec.world_size` counts the ranks of one shard; `shards` are in the order
  /// in which they start, and 0 has rank 0.
  SharedTrial(TrialSpec spec, const std::vector<int>& shards,
              TrialOutput output, Clock clock);

  const TrialSpec& spec() const { return spec_; }
  TrialId id() const { return spec_.id; }
  /// Returns the specification of a shard. A single one has no address, since
  /// its ranks communicate within their machine.
  TrialSpec ShardSpec(int shard, const RankAddress& address) const;

  /// Returns the next shard, which the caller must start; none if none is left.
  [[nodiscard]] std::optional<int> PopNext();
  /// True if the shard is still to be started.
  bool is_queued(int shard) const;
  /// Returns a shard that has waited long for its slots, once for each.
  [[nodiscard]] std::optional<int> PopLongWait();

  /// Record who asked for the end. Shards that are queued end at once.
  void OnStopRequested();
  void OnKillRequested();

  /// Record the start of the first shard, or of another one.
  void OnFirstStarted(TrialStarted started, std::deque<LaunchEvent>& events);
  void OnStarted(int shard, std::deque<LaunchEvent>& events);
  /// Emits a message of the first shard; holds it until all shards have
  /// started.
  void OnMessage(TrialMessage message, std::deque<LaunchEvent>& events);
  void OnPrinted(const LogRecord& record) { output_.Append(record); }
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
    bool started = false;
    std::optional<ShardEnded> ended;
    bool late_message = false;  // sent after another shard had failed
  };

  Shard& At(int shard) { return shards_[static_cast<std::size_t>(shard)]; }
  const Shard& At(int shard) const {
    return shards_[static_cast<std::size_t>(shard)];
  }
  int FirstRankOf(int shard) const { return shard * spec_.world_size; }
  void Release(std::deque<LaunchEvent>& events);
  void EndQueued(bool killed);
  RankEnd EndOf(int shard) const;
  std::string NotStarted() const;
  std::optional<GpuFault> GpuFaults() const;

  TrialSpec spec_;
  Clock clock_;
  TrialOutput output_;
  std::vector<Shard> shards_;
  std::deque<int> queue_;
  int last_started_ = 0;                  // the shard that started last
  std::optional<Duration> long_wait_at_;  // when its wait is reported
  // Emitted once all shards have started, with the messages up to then.
  std::optional<TrialStarted> first_;
  std::vector<TrialMessage> held_messages_;
  bool released_ = false;
  std::vector<int> order_;  // shards in the order in which they ended
  std::optional<Duration> kill_at_;
  bool kill_sent_ = false;
  bool stop_requested_ = false;
  bool kill_requested_ = false;
};

}  // namespace dtrain
