#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/store/record_rows.h"

namespace dtrain {

/// Filters of `Store::Experiments`.
struct ExperimentQuery {
  bool archived = false;  // include archived ones
  std::optional<std::int64_t> id;
};

/// Filters of `Store::ForEachMetric`.
struct MetricQuery {
  std::int64_t experiment = 0;
  std::optional<std::int64_t> trial;
  std::optional<MetricKind> kind;
  std::optional<std::string> name;
  bool superseded = false;  // also values of earlier runs that count no more
};

}  // namespace dtrain
