#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/wire/profile_report.h"

namespace dtrain {

/// Metric values of one report, in the order the trial gave them. NaN and
/// infinities are values like others.
using MetricValues = std::vector<std::pair<std::string, double>>;

// ---- From the trial to the runner. Messages with a `seq` are kept by the
// trial until the runner has acknowledged it, which it does once they are
// durable; seq counts from 1 within one process.

/// The trial's constructor returned.
struct Ready {};

/// Means over the batches since the last report.
struct TrainingReport {
  std::int64_t seq = 0;
  std::int64_t batches = 0;  // trained so far, in all
  double epoch = 0;
  MetricValues metrics;
  Timestamp time{0};
  // Hyperparameters that the trial has not asked for: in the first report that
  // a process makes itself.
  std::optional<std::vector<std::string>> unread;
};

/// One pass over the validation data.
struct ValidationReport {
  std::int64_t seq = 0;
  std::int64_t batches = 0;
  double epoch = 0;
  MetricValues metrics;
  Timestamp time{0};
  std::optional<std::vector<std::string>> unread;  // as in TrainingReport
};

/// A checkpoint is complete on disk, in `<trial>/checkpoints/<uuid>`.
struct CheckpointSaved {
  std::int64_t seq = 0;
  std::string uuid;
  std::int64_t batches = 0;
  double epoch = 0;
  std::int64_t bytes = 0;
  std::map<std::string, std::string> files;  // name → SHA-256 in hex
  Timestamp time{0};
};

/// A checkpoint could not be written; the last one still stands. Never
/// acknowledged. `waits`: the trial holds its state in memory and tries again
/// until it says CheckpointSaved or is asked to stop; else it trains on.
struct CheckpointFailed {
  std::int64_t batches = 0;
  std::string message;
  bool waits = false;
};

/// A RunOperation is done: trained, validated, checkpointed. `metrics` are
/// those of the last validation, or of the last training report for a trial
/// without validation data. `early`: the trial or early_stopping ended its
/// training before the length was reached.
struct OperationCompleted {
  std::int64_t seq = 0;
  Length length;  // as it was asked for
  std::int64_t batches = 0;
  MetricValues metrics;
  bool early = false;
  std::string why_early;                           // as people say it, or empty
  std::optional<std::vector<std::string>> unread;  // as in TrainingReport
};

/// Where the trial is; sent now and then, never acknowledged. Any change of it
/// is a sign of life. `total` is how many batches the operation has in all.
struct Progress {
  std::int64_t batches = 0;
  std::int64_t total = 0;
  std::int64_t batches_per_epoch = 0;
};

enum class EndReason {
  kCompleted,  // closed, all operations done
  kStopped,    // stopped on request, checkpointed
  kInvalidHp,  // the hyperparameters make no sense together
  kUserStop,   // the trial asked to end
  kDamaged,    // the checkpoint it was to go on from is not what was written
  kDiskFull,   // no space for a checkpoint that it needs
  kNotFound,   // the data has no such split; of all tasks but training
  kRefused,    // what the configuration asks for cannot be had: another start
               // would not help
  kError,      // anything else; `message` says what
};

/// The trial's last word before it exits. A process that exits without it has
/// crashed.
struct Finished {
  EndReason reason = EndReason::kCompleted;
  std::string message;
  // Hyperparameters that the trial never asked for.
  std::vector<std::string> unread;
};

using TrialMessage =
    std::variant<Ready, TrainingReport, ValidationReport, CheckpointSaved,
                 CheckpointFailed, OperationCompleted, ProfileReport, Progress,
                 Finished>;

}  // namespace dtrain
