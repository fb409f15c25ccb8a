#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/clock.h"

namespace dtrain {

/// The phases of training. Times are those of the trial's host thread: work
/// that is still running on a GPU is waited for in kReport, where its results
/// are read.
enum class Phase : std::uint8_t {
  kData,        // waiting for the next batch and copying it to the device
  kForward,     // the trial's TrainBatch, without the next two
  kBackward,    // gradients, overlapped with part of their exchange
  kExchange,    // waiting for other ranks' gradients after that
  kOptimizer,   // clipping, the optimizer's step, resetting gradients
  kReport,      // reading mean metrics off the device and sending them
  kValidation,  // passes over the validation data
  kCheckpoint,  // writing checkpoints
  kOther,       // the rest
  kIdle,        // waiting for the runner's next message: in no report
};

inline constexpr auto kPhases = static_cast<std::size_t>(Phase::kIdle);

/// Their names, in the order of Phase.
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "data",   "forward",    "backward",   "exchange", "optimizer",
    "report", "validation", "checkpoint", "other"};

/// Seconds by phase, in the order of Phase.
using PhaseSeconds = std::array<double, kPhases>;

/// Time that a trial spent in each phase since its last ProfileReport, or in
/// all of them. Only the first rank of several sends one, about itself.
struct ProfileReport {
  static constexpr std::string_view kType = "profile";

  std::int64_t seq = 0;      // see trial_message.h
  std::int64_t batches = 0;  // trained in total
  std::int64_t trained = 0;  // since the last report
  std::int64_t samples = 0;  // in `trained` batches, of all ranks
  PhaseSeconds seconds{};    // they add up to the time that passed but kIdle
  std::int64_t minor_faults = 0;
  std::int64_t peak_bytes = 0;              // peak resident set of the process
  std::optional<std::int64_t> gpu_bytes;    // peak allocation
  std::optional<std::int64_t> gpu_percent;  // share of the time it was busy
  Timestamp time{0};

  /// Sum of all phases.
  double wall_seconds() const {
    double sum = 0;
    for (const double phase : seconds) sum += phase;
    return sum;
  }

  static void Fields(auto& field, auto& m) {
    field("seq", m.seq, 1);
    field("batches", m.batches);
    field("trained", m.trained);
    field("samples", m.samples);
    // The limit is thirty years, so that sums stay finite.
    for (std::size_t i = 0; i < kPhases; ++i) {
      field(kPhaseNames[i], m.seconds[i], 0.0, 1e9);
    }
    field("minor_faults", m.minor_faults);
    field("peak_bytes", m.peak_bytes);
    field("gpu_bytes", m.gpu_bytes);
    field("gpu_percent", m.gpu_percent, 0, 100);
    field("time", m.time);
  }
};

}  // namespace dtrain
