#include "engine/base/length.h"

#include <cmath>

#include "engine/base/rounding.h"
#include "engine/base/text.h"

namespace dtrain {

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kBatches:
      return "batches";
    case Unit::kRecords:
      return "records";
    case Unit::kEpochs:
      return "epochs";
  }
  return "batches";
}

namespace {

std::string SingularName(Unit unit) {
  std::string_view name = UnitName(unit);
  name.remove_suffix(unit == Unit::kBatches ? 2 : 1);
  return std::string(name);
}

}  // namespace

std::string LengthText(std::int64_t count, Unit unit) {
  return LengthText(static_cast<double>(count), unit);
}

std::string LengthText(double count, Unit unit) {
  return FormatNumber(count) + " " +
         (count == 1 ? SingularName(unit) : std::string(UnitName(unit)));
}

std::string PositionText(const ReportedAt& at, const Units& units) {
  const std::string recorded =
      SingularName(units.counted) + " " + std::to_string(at.batches);
  if (units.searched == units.counted || units.searched == Unit::kBatches) {
    return recorded;
  }
  const std::string one = SingularName(units.searched) + " ";
  if (at.batches == 0) return one + "0";
  // Records are not recorded, so they follow from the epoch.
  const double count =
      units.searched == Unit::kEpochs
          ? at.epoch
          : std::round(at.epoch * static_cast<double>(units.records_per_epoch));
  if (count <= 0) return recorded;
  return one + FormatRounded(count, 6) + " (" + recorded + ")";
}

std::string RangeText(std::int64_t first, std::int64_t last, Unit unit) {
  if (first == last) return SingularName(unit) + " " + std::to_string(first);
  return std::string(UnitName(unit)) + " " + std::to_string(first) + " to " +
         std::to_string(last);
}

}  // namespace dtrain
