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
#include <vector>

#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The trainer's only door to its runner; a test gives its own functions, a
/// trial process those of a TrialChannel. All are called from the trial's
/// thread.
struct TrialLink {
  /// Sends a message, numbering it if its kind is acknowledged. May wait until
  /// the runner has recorded what was sent before.
  std::function<void(TrialMessage message)> send;
  /// Waits for what to do next: never an Acknowledge.
  std::function<RunnerMessage()> next;
  /// Whether the trial was asked to checkpoint and exit. Costs an atomic load.
  std::function<bool()> stop_requested;
  /// What was sent and not yet acknowledged, oldest first.
  std::function<std::vector<TrialMessage>()> unacknowledged;
};

/// What a TrialChannel allows; a test has smaller numbers.
struct ChannelLimits {
  std::size_t messages = 2'000;  // unacknowledged, until Send waits
  std::size_t values = 20'000;   // metric values in those messages
  // How long the trial lives on when its runner is gone.
  std::chrono::milliseconds orphan_life{1'000};
  // How long Drain waits for the runner.
  std::chrono::milliseconds drain{5'000};
};

/// The trial's end of its control socket. One thread of its own reads it; all
/// members are called from the trial's main thread.
///
/// A runner that dies closes the socket: then a stop is requested, what is sent
/// goes nowhere (but is kept as unacknowledged, for the checkpoint), and after
/// `orphan_life` the process exits with code 75 whatever it does.
class TrialChannel {
 public:
  explicit TrialChannel(UniqueFd socket, ChannelLimits limits = {});
  TrialChannel(const TrialChannel&) = delete;
  TrialChannel& operator=(const TrialChannel&) = delete;
  ~TrialChannel();

  /// Reads the first line. Throws Error(kFailed) if it is no specification.
  /// REQUIRES: called once, before Start.
  TrialSpec ReadSpec();
  /// Begins to listen; from here SIGTERM asks for a stop.
  void Start();

  /// See TrialLink.
  void Send(TrialMessage message);
  RunnerMessage Next();
  /// What `Next` would give, or none yet.
  std::optional<RunnerMessage> TryNext();
  /// Readable once there is news for `TryNext`; `TryNext` makes it unreadable.
  int news() const { return news_.get(); }
  bool stop_requested() const { return stop_.load(std::memory_order_relaxed); }
  std::vector<TrialMessage> Unacknowledged() const;
  /// Waits, but not for long, until all that was sent is acknowledged.
  void Drain();

  /// The functions above. REQUIRES: the channel outlives them.
  TrialLink Link();

 private:
  // A message as it was sent, until it is acknowledged.
  struct Sent {
    std::int64_t seq;
    TrialMessage message;
    std::size_t values;
  };

  void Listen();
  void Take(RunnerMessage message);
  void RequestStop();
  void HangUp();
  void AwaitRoom(std::unique_lock<std::mutex>& lock);

  const UniqueFd socket_;
  const ChannelLimits limits_;
  LineReader reader_;
  UniqueFd news_;  // an eventfd, as `wake_` is
  UniqueFd wake_;  // written to by SIGTERM and by the destructor
  std::thread listener_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> quit_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunnerMessage> instructions_;  // what Next gives
  std::deque<Sent> sent_;
  std::size_t values_ = 0;  // in sent_
  std::string progress_;    // the last line of it
  std::int64_t seq_ = 0;
  bool closed_ = false;
};

}  // namespace dtrain
