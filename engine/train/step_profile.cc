#include "engine/train/step_profile.h"

#include <utility>

#include <sys/resource.h>

namespace dtrain {
namespace {

// Fails only for invalid arguments.
rusage Usage() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage;
}

}  // namespace

StepProfile::StepProfile(Clock clock)
    : clock_(std::move(clock)),
      since_(clock_.monotonic()),
      faults_(Usage().ru_minflt) {}

Phase StepProfile::Enter(Phase phase) {
  const Duration now = clock_.monotonic();
  spent_[static_cast<std::size_t>(phase_)] += now - since_;
  since_ = now;
  return std::exchange(phase_, phase);
}

ProfileReport StepProfile::Drain(std::int64_t batches) {
  Enter(phase_);
  const rusage usage = Usage();
  ProfileReport report{
      .batches = batches,
      .trained = std::exchange(trained_, 0),
      .samples = std::exchange(samples_, 0),
      .minor_faults = usage.ru_minflt - std::exchange(faults_, usage.ru_minflt),
      .peak_bytes = std::int64_t{usage.ru_maxrss} * 1024,
      .time = clock_.now()};
  for (std::size_t i = 0; i < kPhases; ++i) {
    report.seconds[i] = std::chrono::duration<double>(spent_[i]).count();
  }
  spent_ = {};
  return report;
}

}  // namespace dtrain
