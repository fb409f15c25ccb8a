#pragma once

#include <array>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/wire/profile_report.h"

namespace dtrain {

/// Where a trial's time goes, phase by phase, and what it costs otherwise. All
/// time between two reports is in exactly one phase: that of the innermost
/// Scope, and kOther outside of any. One thread: the trial's main one.
class StepProfile {
 public:
  /// Begins with the first interval.
  explicit StepProfile(Clock clock);
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// From here to its end the time is that of `phase`, but for what Scopes
  /// within it take. With a null profile it does nothing; else it looks at the
  /// clock twice, which is all that it costs.
  class Scope {
   public:
    Scope(StepProfile* profile, Phase phase) : profile_(profile) {
      if (profile_ != nullptr) outer_ = profile_->Enter(phase);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      if (profile_ != nullptr) profile_->Enter(outer_);
    }

   private:
    StepProfile* const profile_;
    Phase outer_ = Phase::kOther;
  };

  /// One more batch was trained, with so many samples on all ranks together.
  void AddBatch(std::int64_t samples) {
    ++trained_;
    samples_ += samples;
  }
  /// Batches since the last report.
  std::int64_t trained() const { return trained_; }

  /// What passed since the last call, and begins anew; `batches` are trained in
  /// all. Of a GPU it knows nothing. It may be called within a Scope.
  ProfileReport Take(std::int64_t batches);

 private:
  // Gives the phase that was.
  Phase Enter(Phase phase);

  Clock clock_;
  std::array<Duration, kPhases + 1> spent_{};  // kIdle is the last
  Phase phase_ = Phase::kOther;
  Duration since_;  // when `phase_` was entered
  std::int64_t trained_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t faults_;  // of the process, when the interval began
};

}  // namespace dtrain
