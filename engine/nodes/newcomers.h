#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/nodes/node_channel.h"
#include "engine/nodes/node_message.h"
#include "engine/process/poller.h"

namespace dtrain {

/// Those who have connected to the runner and not yet said who they are. Who
/// says nonsense, or nothing for 10 s, is turned away. One thread.
class Newcomers {
 public:
  /// Watches by tokens from `first_token` on.
  Newcomers(Poller& poller, std::uint64_t first_token, Clock clock);
  ~Newcomers();
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  /// Takes in who waits at `listener`.
  void Accept(int listener);
  /// Reads what the one of this token says: its hello, once it is whole, and
  /// its channel, which is then no longer watched.
  std::optional<std::pair<NodeHello, std::unique_ptr<NodeChannel>>> OnReady(
      std::uint64_t token);
  /// Turns away who has had its time.
  void OnTime();
  /// When `OnTime` is to be called next; none if there is nobody.
  std::optional<Duration> Deadline() const;

 private:
  struct Newcomer {
    std::unique_ptr<NodeChannel> channel;
    Duration until{0};
  };
  using Waiting = std::map<std::uint64_t, Newcomer>;  // by token

  std::unique_ptr<NodeChannel> Take(Waiting::iterator newcomer);

  Poller& poller_;
  std::uint64_t next_token_;
  Clock clock_;
  Waiting waiting_;
};

}  // namespace dtrain
