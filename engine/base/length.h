#pragma once

#include <cstdint>
#include <string_view>

namespace dtrain {

/// Unit of a training length.
enum class Unit { kBatches, kRecords, kEpochs };

/// A training length or position: `{epochs: 10}`. Zero means "never" where a
/// period is meant.
struct Length {
  std::int64_t count = 0;
  Unit unit = Unit::kBatches;

  friend bool operator==(const Length&, const Length&) = default;
};

/// "batches", "records" or "epochs", as the YAML spells it.
std::string_view UnitName(Unit unit);

}  // namespace dtrain
