#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/line_reader.h"
#include "engine/process/launcher.h"
#include "engine/ranks/peer_proof.h"
#include "engine/store/trial_log.h"
#include "engine/wire/system_sample.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

// Messages between the runner and the workers: processes on other machines that
// run its trials. Some are started by RANK and WORLD_SIZE as a fixed set,
// others come and go. One line of JSON each. `Fields` lists the fields of a
// message once, see engine/wire/json_codec.h. Trial output that is not UTF-8 is
// made valid.
//
//     worker  WorkerHello
//     runner  NodeAccepted, and WorkerTask once it has an experiment
//     worker  WorkerReady or WorkerUnable
//
// The hello is the claim of the proof. Orders and reports follow.

/// Smallest value of a number that the runner itself judges, so that it can
/// answer with a reason.
inline constexpr int kMinInt = std::numeric_limits<int>::min();

/// Sent now and then by both ends, so that silence means that the other is
/// gone.
struct Alive {
  static constexpr std::string_view kType = "alive";
  static void Fields(auto&, auto&) {}
};

/// Place of a process in a fixed set (RANK, WORLD_SIZE), and the properties
/// that all of the set must share to train one model together.
struct RankClaim {
  int rank = 0;
  int world_size = 1;
  std::string configuration;  // hash of the effective configuration
  int ranks = 1;              // that this process runs of each trial
  bool gpus = false;          // or CPU slots

  static void Fields(auto& field, auto& m) {
    field("rank", m.rank, kMinInt);
    field("world_size", m.world_size, kMinInt);
    field("configuration", m.configuration);
    field("ranks", m.ranks, kMinInt);
    field("gpus", m.gpus);
  }
};
/// A worker's claims about itself.
struct WorkerHello {
  static constexpr std::string_view kType = "worker";

  std::string version;             // of dtrain
  std::string host;                // the name of its machine
  std::string name;                // shown to users
  std::string job;                 // that started it, or empty
  std::optional<Timestamp> until;  // when its machine ends it
  std::optional<RankClaim> claim;  // none: it comes and goes

  static void Fields(auto& field, auto& m) {
    field("version", m.version);
    field("host", m.host);
    field("name", m.name);
    field("job", m.job);
    field("until", m.until);
    field("claim", m.claim);
  }
};
/// A worker can run trials of the task, or parts of them.
struct WorkerReady {
  static constexpr std::string_view kType = "ready";
  std::int64_t slots = 1;  // that it offers
  bool gpus = false;       // its slots are GPUs
  // Differences of this machine's Python of trials from the recorded one.
  std::vector<std::string> differences;
  static void Fields(auto& field, auto& m) {
    field("slots", m.slots, 1);
    field("gpus", m.gpus);
    field("differences", m.differences);
  }
};
/// A worker cannot run trials of the task. It exits.
struct WorkerUnable {
  static constexpr std::string_view kType = "unable";
  std::string reason;
  static void Fields(auto& field, auto& m) { field("reason", m.reason); }
};
/// A worker takes no more trials, and has asked those it has to stop. It exits
/// after ShutdownNode, which answers the end of the last one.
struct WorkerDraining {
  static constexpr std::string_view kType = "draining";
  std::string reason;
  int signal = 0;  // that asked it to: SIGHUP, SIGINT, SIGTERM or SIGUSR2; or 0
  static void Fields(auto& field, auto& m) {
    field("reason", m.reason);
    field("signal", m.signal);
  }
  void Check() const;
};
/// Its ranks of a trial have their slots and processes.
struct ShardStarted {
  static constexpr std::string_view kType = "started";
  TrialId trial;
  std::vector<std::string> slots;  // "gpu:0", "cpu:1"
  // Port at which rank 0 waits for ranks of other machines; 0 if rank 0 is not
  // here, or if all ranks are.
  int port = 0;

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("slots", m.slots);
    field("port", m.port, 0, 65535);
  }
};
/// Rank 0 of a trial has sent a message, other than its Finished.
struct ShardMessage {
  static constexpr std::string_view kType = "said";
  TrialId trial;
  std::string line;  // the message, encoded

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("line", m.line);
  }
  void Check() const;
};
struct ShardPrinted {
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
struct ShardEnded {
  static constexpr std::string_view kType = "ended";
  TrialExited exited;
  std::optional<Finished> finished;

  static void Fields(auto& field, auto& m) {
    field("trial", m.exited.trial);
    field("exit_code", m.exited.exit_code, -1, 255);
    field("signal", m.exited.signal, 0, 64);
    field("rank", m.exited.rank, -1);
    field("killed_by_us", m.exited.killed_by_us);
    field("preempted", m.exited.preempted);
    field("out_of_memory", m.exited.out_of_memory);
    field("not_started", m.exited.not_started);
    field("seconds", m.exited.seconds, 0.0);
    field("last_lines", m.exited.last_lines);
    field("last_error_line", m.exited.last_error_line);
    field("gpu_fault", m.exited.gpu_fault);
    field("finished", m.finished);
  }
};
using NodeReport = std::variant<Alive, WorkerHello, WorkerReady, WorkerUnable,
                                WorkerDraining, ShardStarted, ShardMessage,
                                ShardPrinted, SystemSampled, ShardEnded>;

/// The answer to a hello that is rejected.
struct NodeRefused {
  static constexpr std::string_view kType = "refused";
  std::string reason;
  static void Fields(auto& field, auto& m) { field("reason", m.reason); }
};
/// The answer to a hello that is accepted.
struct NodeAccepted {
  static constexpr std::string_view kType = "accepted";
  static void Fields(auto&, auto&) {}
};
/// The experiment that a worker is to run trials of, and what it needs for
/// that.
struct WorkerTask {
  static constexpr std::string_view kType = "task";

  std::int64_t experiment = 0;
  bool command = false;        // its trials are programs, not models
  double slots_per_trial = 1;  // less than 1: a share of a GPU
  std::int64_t threads = 1;    // of a CPU slot
  std::optional<bool> gpus;    // whether slots must be GPUs; none: either
  // Environment variables of trials on CPUs and on GPUs.
  std::map<std::string, std::string> cpu_environment;
  std::map<std::string, std::string> gpu_environment;
  std::string store;  // directory of the runner's store
  // Directory of the experiment's checkpoints outside the store, or empty.
  std::string storage;
  // Files that a worker must see, by path, each with a line of it. The runner
  // adds that line when the worker joins, so that no older copy has it.
  std::map<std::string, std::string> probes;
  // The user's own compiled model, and its SHA-256; or empty.
  std::string library;
  std::string library_sha256;
  // Directory of the files of a program, and its words up to the first
  // placeholder; or empty.
  std::string context;
  std::vector<std::string> words;
  std::string python;   // that the experiment recorded, as JSON; or empty
  bool system = false;  // it samples what trials use

  static void Fields(auto& field, auto& m) {
    field("experiment", m.experiment, 1);
    field("command", m.command);
    field("slots_per_trial", m.slots_per_trial, 0.0);
    field("threads", m.threads, 1);
    field("gpus", m.gpus);
    field("cpu_environment", m.cpu_environment);
    field("gpu_environment", m.gpu_environment);
    field("store", m.store);
    field("storage", m.storage);
    field("probes", m.probes);
    field("library", m.library);
    field("library_sha256", m.library_sha256);
    field("context", m.context);
    field("words", m.words);
    field("python", m.python);
    field("system", m.system);
  }
};
struct StartShard {
  static constexpr std::string_view kType = "start";
  TrialSpec spec;
  // Rank 0, without which the others cannot stop, is on the runner's machine.
  bool led_by_runner = false;
  static void Fields(auto& field, auto& m) {
    field("spec", m.spec);
    field("led_by_runner", m.led_by_runner);
  }
};
/// A message to rank 0 of a trial.
struct TellShard {
  static constexpr std::string_view kType = "tell";
  TrialId trial;
  std::string line;  // the message, encoded

  static void Fields(auto& field, auto& m) {
    field("trial", m.trial);
    field("line", m.line);
  }
};
struct StopShard {
  static constexpr std::string_view kType = "stop";
  TrialId trial;
  static void Fields(auto& field, auto& m) { field("trial", m.trial); }
};
struct KillShard {
  static constexpr std::string_view kType = "kill";
  TrialId trial;
  static void Fields(auto& field, auto& m) { field("trial", m.trial); }
};
/// Asks a worker to drain, as a signal does.
struct DrainNode {
  static constexpr std::string_view kType = "drain";
  static void Fields(auto&, auto&) {}
};
/// The experiment has ended, or is paused, or needs this process no more.
struct ShutdownNode {
  static constexpr std::string_view kType = "shutdown";
  static void Fields(auto&, auto&) {}
};
using NodeOrder =
    std::variant<Alive, NodeRefused, NodeAccepted, WorkerTask, StartShard,
                 TellShard, StopShard, KillShard, DrainNode, ShutdownNode>;

/// Derives the secret of the ranks of a trial from the secret of all processes
/// and the token in the specification, which is sent in the clear.
/// REQUIRES: spec.address.
std::string RankSecret(const std::string& secret, const TrialSpec& spec);

/// One line, newline included.
std::string EncodeReport(const NodeReport& report);
std::string EncodeOrder(const NodeOrder& order);
/// Throw Error(kFailed) for anything else. Unknown fields are ignored, so that
/// the hello of another version can be read and its version be reported.
NodeReport DecodeReport(std::string_view line);
NodeOrder DecodeOrder(std::string_view line);

/// Purpose of the proof between a runner and its workers, see PeerProof.
inline constexpr char kWorkersPurpose[] = "runner and worker";

/// Longest silence of a worker, and the interval of Alive messages.
inline constexpr Duration kNodeSilence = std::chrono::seconds(30);
inline constexpr Duration kNodeBeat = std::chrono::seconds(5);
/// Longest silence of the runner, which sends nothing while it creates an
/// experiment, compiles a model or waits for its disk. The kernel detects the
/// loss of its machine within 30 s.
inline constexpr Duration kRunnerSilence = std::chrono::minutes(10);

/// An authenticated connection between the runner and a worker, with a
/// keep-alive. One thread.
class NodeChannel {
 public:
  /// `peer` names the other end in errors. REQUIRES: `socket` is non-blocking.
  NodeChannel(UniqueFd socket, PeerSession session, std::string peer,
              std::size_t max_line, Clock clock,
              Duration silence = kNodeSilence);

  int fd() const { return lines_.fd(); }
  const std::string& peer() const { return peer_; }

  /// Writes a line, or buffers it. Throws Error(kFailed) if the buffer is full.
  void Write(const std::string& line);
  void Flush() { lines_.Flush(); }
  bool wants_write() const { return lines_.wants_write(); }

  /// Reads available bytes once; false at the end of the stream.
  [[nodiscard]] bool Fill() { return lines_.Fill(); }
  /// Returns the next line, or none yet. Throws Error(kFailed) if it is too
  /// long or fails authentication.
  std::optional<std::string> Next();

  /// Sends `alive` if nothing was sent for a while. Throws Error(kFailed) if
  /// nothing was received for `silence`.
  void OnTime(const std::string& alive);
  /// Time of the last received line.
  Duration last_received() const { return last_received_; }
  /// Time of the next call of `OnTime`.
  Duration Deadline() const;

 private:
  std::string peer_;
  PeerSession session_;
  Clock clock_;
  LineSocket lines_;
  const Duration silence_;
  Duration last_received_;
  Duration last_sent_;
};

}  // namespace dtrain
