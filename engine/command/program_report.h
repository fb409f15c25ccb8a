#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/length.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

/// Where a program says that it is.
struct ProgramPoint {
  Unit unit = Unit::kBatches;  // what `count` counts
  double count = 0;
  std::int64_t batches = 0;  // what the record counts by
  double epoch = 0;
};

/// What is told by a line of docs/protocol.md.
struct ProgramTraining {
  ProgramPoint point;
  MetricValues metrics;
};
struct ProgramValidation {
  ProgramPoint point;
  MetricValues metrics;
};
struct ProgramCheckpoint {
  ProgramPoint point;
  std::string path;  // a file or a directory
};
struct ProgramProgress {
  ProgramPoint point;
};
/// Why the program is about to end: kUserStop, kInvalidHp or kError.
struct ProgramEnd {
  EndReason reason = EndReason::kUserStop;
  std::string message;
};

using ProgramReport =
    std::variant<ProgramTraining, ProgramValidation, ProgramCheckpoint,
                 ProgramProgress, ProgramEnd>;

/// What a program's counts mean.
struct ProgramUnits {
  Unit unit = Unit::kBatches;          // of the search's lengths
  bool planned = true;                 // false: there is no length
  bool is_open = false;                // the unit is that of the first report
  std::int64_t records_per_epoch = 0;  // 0: not known
};

/// Reads one line. Throws Error(kFailed) that says what is wrong with it;
/// nothing in a line can do worse than that.
ProgramReport ParseProgramReport(std::string_view line,
                                 const ProgramUnits& units);

}  // namespace dtrain
