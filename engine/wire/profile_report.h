#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/clock.h"

namespace dtrain {

/// What a trial spends its time on. The times are those of its host thread: a
/// GPU that works on is waited for where its results are read, so in kReport.
enum class Phase : std::uint8_t {
  kData,        // waiting for the next batch and copying it to the device
  kForward,     // the trial's TrainBatch, without the next two
  kBackward,    // gradients, and what of their exchange goes on beside
  kExchange,    // waiting for other ranks' gradients once that is done
  kOptimizer,   // clipping, the optimizer's step, resetting gradients
  kReport,      // reading the metrics' means off the device, telling them
  kValidation,  // passes over the validation data
  kCheckpoint,  // writing checkpoints
  kOther,       // the rest
  kIdle,        // waiting for what the runner wants next: in no report
};

inline constexpr auto kPhases = static_cast<std::size_t>(Phase::kIdle);

/// Their names, in the order of Phase.
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "data",   "forward",    "backward",   "exchange", "optimizer",
    "report", "validation", "checkpoint", "other"};

/// By phase, in its order.
using PhaseSeconds = std::array<double, kPhases>;

/// Where a trial's time went since its last ProfileReport, or over all of them.
/// Of several ranks, the first one tells its own times, faults and memory.
struct ProfileReport {
  std::int64_t seq = 0;      // on the wire, see TrainingReport
  std::int64_t batches = 0;  // trained so far, in all
  std::int64_t trained = 0;  // of them those of this report
  std::int64_t samples = 0;  // in them, of all ranks
  PhaseSeconds seconds{};    // together all that passed, without kIdle
  std::int64_t minor_faults = 0;
  std::int64_t peak_bytes = 0;              // resident, of the process so far
  std::optional<std::int64_t> gpu_bytes;    // allocated at most so far
  std::optional<std::int64_t> gpu_percent;  // of the time it computed
  Timestamp time{0};

  /// All seconds together.
  double wall_seconds() const {
    double sum = 0;
    for (const double phase : seconds) sum += phase;
    return sum;
  }
};

}  // namespace dtrain
