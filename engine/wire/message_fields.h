#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/length.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

/// The fields that a message on the wire may have, of whatever type it is.
enum class Field : std::uint8_t {
  kType,
  kUuid,
  kReason,
  kMessage,
  kUnread,
  kSeq,
  kBatches,
  kBytes,
  kTotal,
  kTrained,
  kSamples,
  kMinorFaults,
  kPeakBytes,
  kGpuBytes,
  kGpuPercent,
  kBatchesPerEpoch,
  kTime,
  kEpoch,
  kEarly,
  kLength,
  kMetrics,
  kSeconds,
  kFiles,
};

/// The name of the field on the wire.
std::string_view FieldName(Field field);

/// One line cut into its fields, each of the right JSON type and present at
/// most once; whether those that its type needs are there is for the caller to
/// ask. Made without a tree of JSON in between, in time and memory linear in
/// the line whatever it says.
struct MessageFields {
  static constexpr std::size_t kCount =
      static_cast<std::size_t>(Field::kFiles) + 1;

  /// Throws Error(kFailed), its text without a prefix: not JSON, a wrong type,
  /// an unknown field.
  static MessageFields Parse(std::string_view line);

  bool Has(Field field) const { return present[static_cast<int>(field)]; }

  std::array<bool, kCount> present{};
  std::array<std::string, kCount> strings;
  std::array<std::int64_t, kCount> integers{};
  double epoch = 0;
  bool early = false;
  Length length;
  MetricValues metrics;
  MetricValues seconds;
  std::map<std::string, std::string> files;
};

}  // namespace dtrain
