#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/wire/trial_message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

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
};

/// What `evaluate` measured of a checkpoint, recorded as it was asked to.
struct EvaluationRow {
  TrialId trial;
  std::string checkpoint;  // UUID; it may be deleted since
  std::int64_t batches = 0;
  std::string split;  // training, validation or test
  std::string data;   // directory in place of the trial's own, or empty
  MetricValues metrics;
  double seconds = 0;
  Timestamp time{0};
};

/// What a user asks of a running experiment from another process.
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

/// One searcher event with the operations it gave.
struct SearcherEventRow {
  std::int64_t seq = 0;  // from 1 in each experiment
  nlohmann::json event;
  nlohmann::json operations;
};

}  // namespace dtrain
