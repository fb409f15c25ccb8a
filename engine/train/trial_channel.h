#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The trainer's interface to its runner: the functions of a TrialChannel in a
/// trial process, by way of RankedLink if the trial has several ranks; others
/// in tests. All are called from the trial's main thread.
struct TrialLink {
  /// Sends a message, with a sequence number if its kind is acknowledged. May
  /// wait until the runner has recorded earlier messages.
  std::function<void(TrialMessage message)> send;
  /// Waits for the next instruction; never returns an Acknowledge.
  std::function<RunnerMessage()> next;
  /// True if the trial was asked to checkpoint and exit. Costs an atomic load.
  std::function<bool()> stop_requested;
  /// Messages sent but not yet acknowledged, oldest first.
  std::function<std::vector<TrialMessage>()> unacknowledged;
};

/// Link of one of the ranks of a trial: rank 0 talks to the runner and forwards
/// its instructions to the others, whose own messages are dropped. `next` and
/// `stop_requested` are collective and return the same on every rank. `Ranks`
/// is RankGroup, whose header needs Torch, as trials that are programs do not.
/// REQUIRES: `ranks` outlives it.
template <typename Ranks>
TrialLink RankedLink(TrialLink link, Ranks& ranks) {
  if (ranks.is_alone()) return link;
  const bool first = ranks.is_first();
  TrialLink ranked;
  ranked.send = [first, send = link.send](TrialMessage message) {
    if (first) send(std::move(message));
  };
  ranked.next = [first, &ranks, next = link.next] {
    const std::string line = ranks.FromFirst(first ? Encode(next()) : "");
    return DecodeRunnerMessage(line.substr(0, line.size() - 1));
  };
  // Another rank that receives a stop signal learns it from rank 0, which
  // received it too.
  ranked.stop_requested = [first, &ranks, stop = link.stop_requested] {
    return ranks.Any(first && stop());
  };
  ranked.unacknowledged = link.unacknowledged;
  return ranked;
}

/// Limits of a TrialChannel; tests use smaller ones.
struct ChannelLimits {
  std::size_t messages = 2'000;  // unacknowledged; beyond that, Send waits
  std::size_t values = 20'000;   // metric values in those messages
  // Time until the trial exits after its runner has exited.
  std::chrono::milliseconds orphan_life{1'000};
  // Maximum time that Drain waits for the runner.
  std::chrono::milliseconds drain{5'000};
};

/// The trial's end of its control socket. A thread of this object reads the
/// socket; all members are called from the trial's main thread.
///
/// A runner that exits closes the socket. Then a stop is requested, messages
/// are no longer sent (but kept as unacknowledged, for the checkpoint), and
/// after `orphan_life` the process exits with code 75, whatever it is doing.
class TrialChannel {
 public:
  explicit TrialChannel(UniqueFd socket, ChannelLimits limits = {});
  TrialChannel(const TrialChannel&) = delete;
  TrialChannel& operator=(const TrialChannel&) = delete;
  ~TrialChannel();

  /// Reads the first line. Throws Error(kFailed) if it is not a specification.
  /// REQUIRES: called once, before Start.
  TrialSpec ReadSpec();
  /// Starts the reading thread. From here on, SIGTERM requests a stop.
  void Start();

  /// See TrialLink.
  void Send(TrialMessage message);
  RunnerMessage Next();
  /// Result of `Next`, or empty if it would wait.
  std::optional<RunnerMessage> TryNext();
  /// File descriptor that is readable while `TryNext` has a result.
  int news() const { return news_.get(); }
  bool stop_requested() const { return stop_.load(std::memory_order_relaxed); }
  /// True once the runner has exited.
  bool closed() const;
  std::vector<TrialMessage> Unacknowledged() const;
  /// Waits until everything sent is acknowledged, at most ChannelLimits::drain.
  void Drain();

  /// Returns the functions above. REQUIRES: the channel outlives them.
  TrialLink Link();

 private:
  // A sent message that is not acknowledged yet.
  struct Sent {
    std::int64_t seq;
    TrialMessage message;
    std::size_t values;
  };

  void Listen();
  void HandleMessage(RunnerMessage message);
  void RequestStop();
  void HangUp();
  void AwaitRoom(std::unique_lock<std::mutex>& lock);
  void Write(const std::string& line);

  const UniqueFd socket_;
  const ChannelLimits limits_;
  LineReader reader_;
  UniqueFd news_;  // an eventfd, like `wake_`
  UniqueFd wake_;  // written to by SIGTERM and by the destructor
  std::thread listener_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> quit_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunnerMessage> instructions_;  // for Next
  std::deque<Sent> sent_;
  std::size_t values_ = 0;  // in sent_
  std::string progress_;    // its last line
  std::int64_t seq_ = 0;
  bool closed_ = false;
};

}  // namespace dtrain
