#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
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
  Timestamp time{0};
};

/// One searcher event with the operations it gave.
struct SearcherEventRow {
  std::int64_t seq = 0;  // from 1 in each experiment
  nlohmann::json event;
  nlohmann::json operations;
};

}  // namespace dtrain
