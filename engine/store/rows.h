#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/length.h"
#include "engine/wire/message.h"
#include "engine/wire/system_sample.h"
#include "engine/wire/trial_spec.h"

// The rows of the store as values: a struct for each kind of record, and the
// filters of queries.

namespace dtrain {

/// States of experiments and trials. kInterrupted is never stored: it stands
/// for a RUNNING or PENDING experiment without a runner.
enum class State {
  kPending,
  kRunning,
  kPaused,
  kInterrupted,
  kCompleted,
  kCanceled,
  kError,
  kStopped,  // trials only: ended early by the searcher
  kInvalid,  // trials only: their hyperparameters cannot be trained
};

/// Begin of the reason of a trial in kInvalid, and of no other. Such a trial is
/// stored as an ERROR with this reason, as it was before the state existed.
inline constexpr std::string_view kInvalidReason = "invalid hyperparameters: ";

/// Convert between states and their names "PENDING" … "INVALID". Throws
/// Error(kUsage) with all names for an unknown one.
std::string_view StateName(State state);
State StateFromName(std::string_view name);
/// The names of all states.
std::vector<std::string> StateNames();

/// True for COMPLETED, CANCELED, ERROR, STOPPED and INVALID.
bool IsFinal(State state);

enum class MetricKind { kTraining, kValidation };

struct MetricRow {
  TrialId trial;
  MetricKind kind = MetricKind::kTraining;
  std::int64_t batches = 0;
  double epoch = 0;
  std::string name;
  double value = 0;  // NaN and infinities as themselves
  Timestamp time{0};
  // A later run passed these batches without measuring the value again.
  bool superseded = false;
  std::int64_t run = 0;  // of the trial that measured it, from 1; 0: unknown
};

struct CheckpointRow {
  std::string uuid;
  TrialId trial;
  std::string state;  // COMPLETED, DELETED, CORRUPT
  std::int64_t batches = 0;
  double epoch = 0;
  std::int64_t bytes = 0;
  nlohmann::json files;          // name → SHA-256
  std::optional<double> metric;  // searcher metric validated at `batches`
  // Directory that checkpoint_storage named, absolute; empty: in the store.
  std::string storage;
  Timestamp time{0};

  ReportedAt at() const { return {.batches = batches, .epoch = epoch}; }
};

/// Metrics of a checkpoint, from `evaluate --record`.
struct EvaluationRow {
  TrialId trial;
  std::string checkpoint;  // UUID; it may be deleted since
  std::int64_t batches = 0;
  double epoch = 0;   // of the checkpoint; 0: unknown
  std::string split;  // training, validation or test
  std::string data;   // directory in place of the trial's own, or empty
  MetricValues metrics;
  double seconds = 0;
  Timestamp time{0};

  ReportedAt at() const { return {.batches = batches, .epoch = epoch}; }
};

/// Resources that a trial used in an interval on one machine.
struct SystemRow {
  int rank = 0;       // the first one of the trial on that machine
  Timestamp time{0};  // end of the interval
  SystemSample sample;
};

/// More rows of a trial are merged in pairs, so that each spans twice the time.
inline constexpr std::int64_t kMaxSystemRows = 1000;

/// Sums and means over the samples of a trial, or of all trials.
struct SystemUse {
  double seconds = 0;  // that were sampled
  double cpu_seconds = 0;
  // The greatest of a sample each, which need not be the same one.
  std::int64_t memory_bytes = 0;
  std::optional<std::int64_t> pss_bytes;
  std::optional<std::int64_t> read_bytes;
  std::optional<std::int64_t> written_bytes;
  // Means over time and GPUs, and the greatest values of one GPU.
  std::optional<double> gpu_percent;
  std::optional<double> gpu_watts;
  std::optional<std::int64_t> gpu_memory_bytes;
  std::optional<std::int64_t> gpu_celsius;
};

/// A message about an experiment to one of its targets.
struct NotificationRow {
  std::string uuid;
  std::string event;   // a word of notify.on
  std::string target;  // command or url
  nlohmann::json body;
  Timestamp created{0};
  std::int64_t attempts = 0;
  std::string error;               // why it was given up, or empty
  std::optional<Timestamp> ended;  // sent or given up; none: to be sent
};

/// Request of a user to a running experiment, made from another process.
enum class RequestKind { kPause, kCancel, kKill };

struct RequestRow {
  std::int64_t id = 0;
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;  // its number; none: all of them
  RequestKind kind = RequestKind::kPause;
  Timestamp created{0};
};

/// "pause", "cancel" or "kill".
std::string_view RequestName(RequestKind kind);

/// A searcher event and the resulting operations.
struct SearcherEventRow {
  std::int64_t seq = 0;  // from 1 in each experiment
  nlohmann::json event;
  nlohmann::json operations;
};

/// Filters of `Store::Experiments`.
struct ExperimentQuery {
  bool archived = false;           // include archived ones
  std::optional<std::int64_t> id;  // of one, whose `best` then has its epoch
};

/// Filters of `Store::ForEachMetric`.
struct MetricQuery {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;
  std::optional<MetricKind> kind;
  std::optional<std::string> name;
  bool superseded = false;  // also values of earlier runs that count no more
  std::int64_t after = -1;  // only those at more batches
  std::int64_t first_trial = 0;  // unless `trial` is given
  std::int64_t limit = -1;       // of rows; -1: none
};

/// Trials to read, and parts of them that take time.
struct TrialParts {
  bool hparams = true;      // else TrialRow::hparams is null
  bool checkpoints = true;  // else the UUIDs of checkpoints are empty
  // Only those that are RUNNING, or were created, started or ended since.
  std::optional<Timestamp> changed_since = std::nullopt;
};

/// The value of a metric that stands for a trial.
enum class MetricPick {
  kBest,  // at the trial's best validation, or the last one before it; the
          // last one of a trial without a best validation
  kLast,
  kMin,  // of all that are not NaN
  kMax,
};

/// The best (or another) validation of a trial, by the searcher's metric.
struct BestValidation {
  double value = 0;
  std::int64_t batches = 0;
  double epoch = 0;        // 0: unknown
  std::string checkpoint;  // UUID, or empty if none was kept

  ReportedAt at() const { return {.batches = batches, .epoch = epoch}; }
};

/// An experiment without the parts that only its runner needs.
struct ExperimentRow {
  std::int64_t id = 0;
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  State state = State::kPending;
  double progress = 0;
  std::string searcher;
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  bool archived = false;
  std::string error;  // why it failed, or empty
  Timestamp created{0};
  std::optional<Timestamp> started;
  std::optional<Timestamp> ended;
  double seconds = 0;  // time spent running, over all runners so far
  std::int64_t trials = 0;
  std::int64_t trials_ended = 0;
  // With repeats: that of the best repeat of the best point, with the value of
  // the point.
  std::optional<BestValidation> best;
  std::int64_t best_trial = 0;  // number of the trial that holds `best`
};

/// The large parts of an experiment.
struct ExperimentDetail {
  ExperimentRow row;
  std::string yaml;           // as the user wrote it
  nlohmann::json config;      // ExperimentConfig::effective
  nlohmann::json provenance;  // where it came from
  std::string note;           // what the user wrote of it, or empty
  // Directory that checkpoint_storage named for its checkpoints, absolute;
  // empty: they are in the store.
  std::string storage;
};

struct NewExperiment {
  std::string name;
  std::string description;
  std::vector<std::string> labels;
  std::string searcher;
  std::string metric;
  bool smaller_is_better = true;
  std::uint32_t seed = 0;
  std::string yaml;
  nlohmann::json config;
  nlohmann::json provenance;
  std::string storage;     // as ExperimentDetail has it
  std::string notify_url;  // the whole address, or empty
  Timestamp created{0};
};

struct TrialRow {
  TrialId id;
  std::string request_id;
  State state = State::kPending;
  std::string reason;  // why it ended, or empty
  nlohmann::json hparams;
  std::uint32_t seed = 0;
  std::int64_t batches = 0;
  // ValidateAfter operations completed, one that the trial ended early
  // included; FindTrial and ListTrials leave that one out.
  std::int64_t rung = 0;
  std::optional<BestValidation> best;
  std::optional<BestValidation> latest;
  std::string latest_checkpoint;  // newest COMPLETE one, or empty
  std::int64_t restarts = 0;      // after failures
  std::int64_t failures = 0;      // since it last made a checkpoint further on
  std::int64_t preemptions = 0;   // pauses because a worker was taken away
  std::int64_t runs = 0;          // processes started so far, pauses included
  // Of its last process, joined by commas: "gpu:0,gpu:1", or "node2/gpu:0".
  std::string slots;
  std::int64_t pid = 0;        // 0: no process
  std::int64_t pid_start = 0;  // its start, clock ticks as in /proc/PID/stat
  std::string boot_id;         // the boot in which it had that pid
  Timestamp created{0};
  std::optional<Timestamp> started;
  std::optional<Timestamp> ended;
  double seconds = 0;  // in processes, over all runs so far
  bool star = false;   // set by a reader, as the note
  std::string note;
  // In a search with repeats, from 1; otherwise 0.
  std::int64_t point = 0;
  std::int64_t repeat = 0;

  /// Returns where it is; the epoch is known if it has validated there.
  ReportedAt at() const {
    const bool known = latest && latest->batches == batches;
    return {.batches = batches, .epoch = known ? latest->epoch : 0};
  }
};

/// A trial that a reader has marked.
struct TrialRemark {
  std::int64_t number = 0;
  bool star = false;
  std::string note;
};

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Convert between levels and their names "debug", "info", "warning", "error".
/// Throws Error(kUsage) for any other name.
std::string_view LogLevelName(LogLevel level);
LogLevel LogLevelFromName(std::string_view name);

/// A line that a rank wrote. `text` is unchanged: any bytes but a newline.
/// `partial`: cut at the maximum length of a record (64 KiB); the next record
/// of the rank's stream continues the line.
struct LogRecord {
  Timestamp time{0};
  int rank = 0;
  bool from_stderr = false;
  LogLevel level = LogLevel::kInfo;
  bool partial = false;
  std::string text;
};

}  // namespace dtrain
