#pragma once

#include <array>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/wire/message.h"

namespace dtrain {

/// Measures where the time of a trial is spent, by phase, together with its
/// other costs. All time between two reports belongs to exactly one phase: that
/// of the innermost Scope, or kOther outside of any. For the trial's main
/// thread only.
class StepProfile {
 public:
  /// Starts the first interval.
  explicit StepProfile(Clock clock);
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// Attributes the time from its construction to its destruction to `phase`,
  /// except for nested Scopes. With a null profile it does nothing; otherwise
  /// it costs two reads of the clock.
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

  /// Counts one trained batch of `samples` samples over all ranks.
  void AddBatch(std::int64_t samples) {
    ++trained_;
    samples_ += samples;
  }
  /// Batches trained since the last report.
  std::int64_t trained() const { return trained_; }

  /// Returns the costs since the last call and starts a new interval; `batches`
  /// is the total number trained. GPU fields are left empty. May be called
  /// within a Scope.
  ProfileReport Drain(std::int64_t batches);

 private:
  // Switches to `phase`; returns the previous one.
  Phase Enter(Phase phase);

  Clock clock_;
  std::array<Duration, kPhases + 1> spent_{};  // kIdle is last
  Phase phase_ = Phase::kOther;
  Duration since_;  // when `phase_` was entered
  std::int64_t trained_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t faults_;  // page faults at the start of the interval
};

}  // namespace dtrain
