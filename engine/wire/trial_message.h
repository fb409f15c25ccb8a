#pragma once

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
#include "engine/wire/profile_report.h"

// Messages from a trial to its runner. `Fields` lists the fields of a message
// once, for the encoder and the decoder: see json_codec.h. The trial keeps each
// message that has a `seq` until the runner acknowledges it, which the runner
// does once the message is durable. `seq` counts from 1 within one process.

namespace dtrain {

/// Metric values of one report, in the trial's order. They may be NaN or
/// infinite.
using MetricValues = std::vector<std::pair<std::string, double>>;

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

/// A RunOperation is complete: trained, validated, checkpointed. `metrics` are
/// those of the last validation or, for a trial without validation data, of the
/// last training report. `early`: the trial or early_stopping ended training
/// before it reached the length.
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
/// The runner takes any change of it as a sign of life. `total` is the number
/// of batches of the whole operation.
struct Progress {
  static constexpr std::string_view kType = "progress";

  std::int64_t batches = 0;
  std::int64_t total = 0;
  std::int64_t batches_per_epoch = 0;

  static void Fields(auto& field, auto& m) {
    field("batches", m.batches);
    field("total", m.total);
    field("batches_per_epoch", m.batches_per_epoch);
  }
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

/// The names of the reasons: "completed", "stopped", "invalid_hp", "user_stop",
/// "damaged", "disk_full", "not_found", "refused", "error".
std::span<const std::string_view> NamesOf(EndReason);

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

}  // namespace dtrain
