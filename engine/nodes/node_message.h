#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/process/control_channel.h"
#include "engine/process/launcher.h"
#include "engine/ranks/peer_proof.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

// What the runner and those who follow it on other machines say to each other:
// a line of JSON each. Texts of trials that are no UTF-8 are made it.

/// Said now and then by both, so that silence means that the other is gone.
struct Alive {};

/// What two processes must have in common to train one model together.
struct NodeIdentity {
  std::string version;        // of dtrain
  std::string configuration;  // a hash of the effective one
  int ranks = 1;              // that it brings to each trial
  bool gpus = false;          // or CPU slots

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

/// What a follower claims to be, see PeerProof.
struct NodeHello {
  int rank = 0;
  int world_size = 1;
  NodeIdentity identity;
  std::int64_t trials = 1;  // that it can have at one time
  std::string host;         // the name of its machine
};
/// Its ranks of a trial have their slots and processes.
struct PartStarted {
  TrialId trial;
};
struct PartPrinted {
  TrialId trial;
  LogRecord record;
};
/// None of its ranks of a trial lives any more.
struct PartEnded {
  TrialExited exited;
  std::optional<Finished> word;
};
/// It was asked to end by a signal.
struct NodeInterrupted {
  int signal = 0;
};
using NodeReport = std::variant<Alive, NodeHello, PartStarted, PartPrinted,
                                PartEnded, NodeInterrupted>;

/// The answer to a hello that cannot be: why not.
struct NodeRefused {
  std::string reason;
};
/// The answer to one that can.
struct NodeWelcomed {};
/// The experiment that is run.
struct ExperimentBegun {
  std::int64_t experiment = 0;
};
struct StartPart {
  TrialSpec spec;
};
struct StopPart {
  TrialId trial;
};
struct KillPart {
  TrialId trial;
};
/// The experiment is over, or paused.
struct Goodbye {};
using NodeOrder =
    std::variant<Alive, NodeRefused, NodeWelcomed, ExperimentBegun, StartPart,
                 StopPart, KillPart, Goodbye>;

/// What the ranks of a trial prove to each other: made of the secret of all
/// processes and of the token of the specification as it is sent, which is no
/// secret. REQUIRES: spec.address.
std::string RankSecret(const std::string& secret, const TrialSpec& spec);

/// A line, newline included.
std::string EncodeReport(const NodeReport& report);
std::string EncodeOrder(const NodeOrder& order);
/// Throw Error(kFailed) for what is none.
NodeReport DecodeReport(const std::string& line);
NodeOrder DecodeOrder(const std::string& line);

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
