#pragma once

#include <cstdint>
#include <string>
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

/// Units in which an experiment counts its training.
struct Units {
  Unit searched = Unit::kBatches;      // of the search's lengths
  Unit counted = Unit::kBatches;       // of `batches` in its record
  std::int64_t records_per_epoch = 0;  // 0: unknown
};

/// Position in a trial's training, as its record has it.
struct ReportedAt {
  std::int64_t batches = 0;  // in the unit that the experiment counts
  double epoch = 0;          // 0: unknown, or the beginning
};

/// "batches", "records" or "epochs", as the YAML spells it.
std::string_view UnitName(Unit unit);

/// "1 epoch", "100 batches".
std::string LengthText(std::int64_t count, Unit unit);
/// "2.5 epochs": of a program, which may count parts.
std::string LengthText(double count, Unit unit);

/// Returns a position in the search's unit, and in that of the record if it is
/// another: "epoch 1.5 (batch 150)". Only in that of the record, "batch 150",
/// if the other one is unknown.
std::string PositionText(const ReportedAt& at, const Units& units);

/// "epochs 1 to 10", "epoch 3".
std::string RangeText(std::int64_t first, std::int64_t last, Unit unit);

}  // namespace dtrain
