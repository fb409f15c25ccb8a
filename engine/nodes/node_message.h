#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/process/control_channel.h"
#include "engine/process/launcher.h"
#include "engine/ranks/peer_proof.h"
#include "engine/store/trial_log.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

// Messages between the runner and its followers on other machines: one line of
// JSON each. `Fields` lists the fields of a message once, see
// engine/wire/json_codec.h. Trial output that is not UTF-8 is made valid.

/// Smallest value of a number that the runner itself judges, so that it can
/// answer with a reason.
inline constexpr int kMinInt = std::numeric_limits<int>::min();

/// Sent now and then by both ends, so that silence means that the other is
/// gone.
struct Alive {
  static constexpr std::string_view kType = "alive";
  static void Fields(auto&, auto&) {}
};

/// Properties that processes must share to train one model together.
struct NodeIdentity {
  std::string version;        // of dtrain
  std::string configuration;  // hash of the effective configuration
  int ranks = 1;              // that this machine runs of each trial
  bool gpus = false;          // or CPU slots

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;

  static void Fields(auto& field, auto& m) {
    field("version", m.version);
    field("configuration", m.configuration);
    field("ranks", m.ranks, kMinInt);
    field("gpus", m.gpus);
  }
};

/// A follower's claims about itself, see PeerProof.
struct NodeHello {
  static constexpr std::string_view kType = "hello";

  int rank = 0;
  int world_size = 1;
  NodeIdentity identity;
  std::int64_t trials = 1;  // that it can run at one time
  std::string host;         // the name of its machine

  static void Fields(auto& field, auto& m) {
    field("rank", m.rank, kMinInt);
    field("world_size", m.world_size, kMinInt);
    NodeIdentity::Fields(field, m.identity);
    field("trials", m.trials, 1);
    field("host", m.host);
  }
};
/// Its ranks of a trial have their slots and processes.
struct PartStarted {
  static constexpr std::string_view kType = "started";
  TrialId trial;
  static void Fields(auto& field, auto& m) { field("trial", m.trial); }
};
struct PartPrinted {
  static constexpr std::string_view kType = "printed";
  TrialId trial;
  LogRecord record;

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("time", m.record.time);
    field("rank", m.record.rank, -1);
    field("stderr", m.record.from_stderr);
    field("level", m.record.level);
    field("partial", m.record.partial);
    field("text", m.record.text);
  }
};
/// All of its ranks of a trial have exited.
struct PartEnded {
  static constexpr std::string_view kType = "ended";
  TrialExited exited;
  std::optional<Finished> word;

  static void Fields(auto& field, auto& m) {
    field("trial", m.exited.trial);
    field("exit_code", m.exited.exit_code, -1, 255);
    field("signal", m.exited.signal, 0, 64);
    field("rank", m.exited.rank, -1);
    field("killed_by_us", m.exited.killed_by_us);
    field("out_of_memory", m.exited.out_of_memory);
    field("not_started", m.exited.not_started);
    field("last_lines", m.exited.last_lines);
    field("finished", m.word);
  }
};
/// It was asked to end by a signal: SIGHUP, SIGINT or SIGTERM.
struct NodeInterrupted {
  static constexpr std::string_view kType = "interrupted";
  int signal = 0;
  static void Fields(auto& field, auto& m) { field("signal", m.signal); }
};
using NodeReport = std::variant<Alive, NodeHello, PartStarted, PartPrinted,
                                PartEnded, NodeInterrupted>;

/// The answer to a hello that is rejected.
struct NodeRefused {
  static constexpr std::string_view kType = "refused";
  std::string reason;
  static void Fields(auto& field, auto& m) { field("reason", m.reason); }
};
/// The answer to a hello that is accepted.
struct NodeWelcomed {
  static constexpr std::string_view kType = "welcomed";
  static void Fields(auto&, auto&) {}
};
/// The experiment that runs.
struct ExperimentBegun {
  static constexpr std::string_view kType = "experiment";
  std::int64_t experiment = 0;
  static void Fields(auto& field, auto& m) {
    field("experiment", m.experiment, 1);
  }
};
struct StartPart {
  static constexpr std::string_view kType = "start";
  TrialSpec spec;
  static void Fields(auto& field, auto& m) { field("spec", m.spec); }
};
struct StopPart {
  static constexpr std::string_view kType = "stop";
  TrialId trial;
  static void Fields(auto& field, auto& m) { field("trial", m.trial); }
};
struct KillPart {
  static constexpr std::string_view kType = "kill";
  TrialId trial;
  static void Fields(auto& field, auto& m) { field("trial", m.trial); }
};
/// The experiment has ended, or is paused.
struct Goodbye {
  static constexpr std::string_view kType = "goodbye";
  static void Fields(auto&, auto&) {}
};
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
/// Throw Error(kFailed) for anything else. Unknown fields are ignored, so that
/// the hello of another version can be read and its version be reported.
NodeReport DecodeReport(std::string_view line);
NodeOrder DecodeOrder(std::string_view line);

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
