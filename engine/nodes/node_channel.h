#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/process/control_channel.h"
#include "engine/ranks/peer_proof.h"

namespace dtrain {

/// How long the other end may be silent, and how often an end that has nothing
/// to say says that it is there.
inline constexpr Duration kNodeSilence = std::chrono::seconds(30);
inline constexpr Duration kNodeBeat = std::chrono::seconds(5);
/// How long the runner may be: while it records an experiment, compiles a model
/// or waits for its disk it says nothing. That its machine is gone the kernel
/// finds out in 30 s.
inline constexpr Duration kRunnerSilence = std::chrono::minutes(10);

/// A proved connection between the runner and a follower: lines that nobody
/// else has a hand in, and whether the other end still lives. One thread.
class NodeChannel {
 public:
  /// `peer` names the other end. REQUIRES: `socket` does not block.
  NodeChannel(UniqueFd socket, PeerSession session, std::string peer,
              std::size_t max_line, Clock clock,
              Duration silence = kNodeSilence);

  int fd() const { return lines_.fd(); }
  const std::string& peer() const { return peer_; }

  /// Writes a line, now or later. Throws Error(kFailed) if far too much waits.
  void Write(const std::string& line);
  void Flush() { lines_.Flush(); }
  bool wants_write() const { return lines_.wants_write(); }

  /// Reads once what is there; false at the end of the stream.
  [[nodiscard]] bool Fill() { return lines_.Fill(); }
  /// The next line, or none yet. Throws Error(kFailed) if it is too long, or
  /// not what the other end said.
  std::optional<std::string> Next();

  /// Says `alive` if nothing was said for a while. Throws Error(kFailed) if
  /// nothing was heard for `silence`.
  void OnTime(const std::string& alive);
  /// When the last line came.
  Duration heard_at() const { return heard_at_; }
  /// When `OnTime` is to be called next.
  Duration Deadline() const;

 private:
  std::string peer_;
  PeerSession session_;
  Clock clock_;
  ControlChannel lines_;
  const Duration silence_;
  Duration heard_at_;
  Duration said_at_;
};

}  // namespace dtrain
