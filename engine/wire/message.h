#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/base/metric_order.h"

// Messages between a trial and its runner, whose first one is the TrialSpec.
// `Fields` lists the fields of a message once, for the encoder and the decoder,
// with the limits of a number; see json_codec.h. The trial
// keeps each message that has a `seq` until the runner acknowledges it, which
// the runner does once the message is durable. `seq` counts from 1 within one
// process.

namespace dtrain {

struct TrialSpec;

// ---- From the trial to the runner.

/// The trial's constructor returned.
struct Ready {
  static constexpr std::string_view kType = "ready";
  static void Fields(auto&, auto&) {}
};

/// Mean metrics of the batches since the last report.
struct TrainingReport {
  static constexpr std::string_view kType = "training";

  std::int64_t seq = 0;
  std::int64_t batches = 0;  // trained in total
  double epoch = 0;
  MetricValues metrics;
  Timestamp time{0};
  // Hyperparameters that the trial has not read; only in the first report of a
  // process.
  std::optional<std::vector<std::string>> unread;

  static void Fields(auto& field, auto& m) {
    field("seq", m.seq, 1);
    field("batches", m.batches);
    field("epoch", m.epoch, 0.0);
    field("metrics", m.metrics);
    field("time", m.time);
    field("unread", m.unread);
  }
};

/// Metrics of one pass over the validation data.
struct ValidationReport {
  static constexpr std::string_view kType = "validation";

  std::int64_t seq = 0;
  std::int64_t batches = 0;
  double epoch = 0;
  MetricValues metrics;
  Timestamp time{0};
  std::optional<std::vector<std::string>> unread;  // see TrainingReport

  static void Fields(auto& field, auto& m) { TrainingReport::Fields(field, m); }
};

/// A checkpoint is complete on disk, in `<trial>/checkpoints/<uuid>`.
struct CheckpointSaved {
  static constexpr std::string_view kType = "checkpoint";

  std::int64_t seq = 0;
  std::string uuid;
  std::int64_t batches = 0;
  double epoch = 0;
  std::int64_t bytes = 0;
  std::map<std::string, std::string> files;  // name → SHA-256 in hex
  Timestamp time{0};

  static void Fields(auto& field, auto& m) {
    field("seq", m.seq, 1);
    field("uuid", m.uuid);
    field("batches", m.batches);
    field("epoch", m.epoch, 0.0);
    field("bytes", m.bytes);
    field("files", m.files);
    field("time", m.time);
  }
  /// The UUID and the names become parts of paths.
  void Check() const;
};

/// A checkpoint could not be written; the previous one is still valid. Never
/// acknowledged. `waits`: the trial holds its state in memory and retries until
/// it sends CheckpointSaved or is asked to stop; else it continues to train.
struct CheckpointFailed {
  static constexpr std::string_view kType = "checkpoint_failed";

  std::int64_t batches = 0;
  std::string message;
  bool waits = false;

  static void Fields(auto& field, auto& m) {
    field("batches", m.batches);
    field("message", m.message);
    field("waits", m.waits);
  }
};

/// A RunOperation is complete: trained, validated, checkpointed. Its result is
/// the ValidationReport that this process sent at `batches`. If there is none,
/// `metrics` has the result: the last training report of a trial without
/// validation data, or the validation in the checkpoint of a process that found
/// its work done. Otherwise `metrics` is empty. `early`: the trial or
/// early_stopping ended training before it reached the length.
struct OperationCompleted {
  static constexpr std::string_view kType = "completed";

  std::int64_t seq = 0;
  Length length;  // as requested
  std::int64_t batches = 0;
  MetricValues metrics;
  bool early = false;
  std::string why_early;                           // for users; may be empty
  std::optional<std::vector<std::string>> unread;  // see TrainingReport

  static void Fields(auto& field, auto& m) {
    field("seq", m.seq, 1);
    field("length", m.length);
    field("batches", m.batches);
    field("metrics", m.metrics);
    field("early", m.early);
    field("message", m.why_early);
    field("unread", m.unread);
  }
};

/// Progress of the current operation; sent now and then, never acknowledged.
/// The runner takes any change of `batches` or `activity` as a sign of life.
/// `total` is the number of batches of the whole operation; `activity` grows
/// while a program prints or writes metrics, if that is observed.
struct Progress {
  static constexpr std::string_view kType = "progress";

  std::int64_t batches = 0;
  std::int64_t total = 0;
  std::int64_t batches_per_epoch = 0;
  std::optional<std::int64_t> activity;

  static void Fields(auto& field, auto& m) {
    field("batches", m.batches);
    field("total", m.total);
    field("batches_per_epoch", m.batches_per_epoch);
    field("activity", m.activity);
  }
};

/// The phases of training. Times are those of the trial's host thread: work
/// that is still running on a GPU is waited for in kReport, where its results
/// are read.
enum class Phase : std::uint8_t {
  kData,        // waiting for the next batch and copying it to the device
  kForward,     // the trial's TrainBatch, without the next two
  kBackward,    // gradients, overlapped with part of their exchange
  kExchange,    // waiting for other ranks' gradients after that
  kOptimizer,   // clipping, the optimizer's step, resetting gradients
  kReport,      // reading mean metrics off the device and sending them
  kValidation,  // passes over the validation data
  kCheckpoint,  // writing checkpoints
  kOther,       // the rest
  kIdle,        // waiting for the runner's next message: in no report
};

inline constexpr auto kPhases = static_cast<std::size_t>(Phase::kIdle);

/// Their names, in the order of Phase.
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "data",   "forward",    "backward",   "exchange", "optimizer",
    "report", "validation", "checkpoint", "other"};

/// Seconds by phase, in the order of Phase.
using PhaseSeconds = std::array<double, kPhases>;

/// Time that a trial spent in each phase since its last ProfileReport, or in
/// all of them. Only the first rank of several sends one, about itself.
struct ProfileReport {
  static constexpr std::string_view kType = "profile";

  std::int64_t seq = 0;      // see the top of this file
  std::int64_t batches = 0;  // trained in total
  std::int64_t trained = 0;  // since the last report
  std::int64_t samples = 0;  // in `trained` batches, of all ranks
  PhaseSeconds seconds{};    // they add up to the time that passed but kIdle
  std::int64_t minor_faults = 0;
  std::int64_t peak_bytes = 0;              // peak resident set of the process
  std::optional<std::int64_t> gpu_bytes;    // peak allocation
  std::optional<std::int64_t> gpu_percent;  // share of the time it was busy
  Timestamp time{0};

  /// Sum of all phases.
  double wall_seconds() const {
    double sum = 0;
    for (const double phase : seconds) sum += phase;
    return sum;
  }

  static void Fields(auto& field, auto& m) {
    field("seq", m.seq, 1);
    field("batches", m.batches);
    field("trained", m.trained);
    field("samples", m.samples);
    // The limit is thirty years, so that sums stay finite.
    for (std::size_t i = 0; i < kPhases; ++i) {
      field(kPhaseNames[i], m.seconds[i], 0.0, 1e9);
    }
    field("minor_faults", m.minor_faults);
    field("peak_bytes", m.peak_bytes);
    field("gpu_bytes", m.gpu_bytes);
    field("gpu_percent", m.gpu_percent, 0, 100);
    field("time", m.time);
  }
  /// `trained` is a part of `batches`.
  void Check() const;
};

enum class EndReason {
  kCompleted,  // closed, all operations complete
  kStopped,    // stopped on request, checkpointed
  kInvalidHp,  // the trial rejected its hyperparameters
  kUserStop,   // the trial asked to end
  kDamaged,    // the checkpoint to resume from fails its checksums
  kDiskFull,   // no space for a checkpoint that the trial needs
  kNotFound,   // the data has no such split; for every task but training
  kRefused,    // an unsupported configuration: a restart would not help
  kError,      // anything else; `message` says what
};

/// Begin of the message of EndReason::kRefused, and so of the trial's reason,
/// if its configuration is the cause.
inline constexpr std::string_view kConfigurationReason = "configuration: ";

/// The names of the reasons: "completed", "stopped", "invalid_hp", "user_stop",
/// "damaged", "disk_full", "not_found", "refused", "error".
std::span<const std::string_view> EnumNames(EndReason);

/// The final message of a process. A process that exits without it has crashed.
struct Finished {
  static constexpr std::string_view kType = "finished";

  EndReason reason = EndReason::kCompleted;
  std::string message;
  std::vector<std::string> unread;  // hyperparameters that were never read

  static void Fields(auto& field, auto& m) {
    field("reason", m.reason);
    field("message", m.message);
    field("unread", m.unread);
  }
};

using TrialMessage =
    std::variant<Ready, TrainingReport, ValidationReport, CheckpointSaved,
                 CheckpointFailed, OperationCompleted, ProfileReport, Progress,
                 Finished>;

// ---- From the runner to the trial.

/// Train until this absolute length, validate, checkpoint.
struct RunOperation {
  static constexpr std::string_view kType = "run";
  Length until;
  static void Fields(auto& field, auto& m) { field("length", m.until); }
};

/// No more operations: exit with success.
struct CloseTrial {
  static constexpr std::string_view kType = "close";
  static void Fields(auto&, auto&) {}
};

/// Checkpoint and exit at the next batch boundary.
struct StopTrial {
  static constexpr std::string_view kType = "stop";
  static void Fields(auto&, auto&) {}
};

/// Everything up to `seq` is durable.
struct Acknowledge {
  static constexpr std::string_view kType = "ack";
  std::int64_t seq = 0;
  static void Fields(auto& field, auto& m) { field("seq", m.seq, 1); }
};

using RunnerMessage =
    std::variant<RunOperation, CloseTrial, StopTrial, Acknowledge>;

// ---- Lines of JSON.

/// Returns one line, newline included: an object with the fields and, but for a
/// specification, the `type`. Numbers are read back as they were, to the bit;
/// those that JSON lacks are "NaN", "Infinity" and "-Infinity". Invalid UTF-8
/// is replaced.
std::string Encode(const TrialMessage& message);
std::string Encode(const RunnerMessage& message);
std::string Encode(const TrialSpec& spec);

/// Read one line back. Throw Error(kFailed) that describes the mistake, for any
/// other line; nothing in a line can do worse than that.
TrialMessage DecodeTrialMessage(std::string_view line);
RunnerMessage DecodeRunnerMessage(std::string_view line);
TrialSpec DecodeTrialSpec(std::string_view line);

std::string_view EndReasonName(EndReason reason);

}  // namespace dtrain
