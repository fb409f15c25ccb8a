#pragma once

#include <cstdint>
#include <string>

#include "engine/base/length.h"
#include "engine/config/experiment_config.h"
#include "engine/store/store.h"
#include "engine/wire/message.h"

namespace dtrain {

/// True if the entrypoint is a command, not a model.
bool IsCommand(const ExperimentConfig& config);

/// Returns the unit of `batches` in the experiment's record, as far as it can
/// be detected: a command that reports no batches is counted in epochs or
/// records.
Unit CountedUnit(const Store& store, std::int64_t experiment,
                 const ExperimentConfig& config);
/// Returns it with the unit of the search.
Units FindUnits(const Store& store, std::int64_t experiment,
                const ExperimentConfig& config);
/// Returns the unit of one report of a command: `batches` at `epoch`, which is
/// 0 if the report has none. Without max_length only a report can tell.
Unit CountedUnit(const ExperimentConfig& config, std::int64_t batches,
                 double epoch);

/// Relates the counts in the reports of trials to the lengths of their search.
/// A built-in or custom model counts batches. A program counts in a unit of its
/// own, which is detected from its reports. Pure.
class ReportedLengths {
 public:
  /// `units`: as far as they are recorded. `config` must outlive this.
  ReportedLengths(const ExperimentConfig& config, const Units& units)
      : config_(config), units_(units) {}

  const Units& units() const { return units_; }
  /// True if each count is a length of the search.
  bool is_exact() const {
    return units_.searched == units_.counted ||
           units_.searched == Unit::kBatches;
  }

  /// Detects the unit from the progress of a trial that trains to the length
  /// `until`. True if it has changed.
  [[nodiscard]] bool Detect(const Progress& progress, std::int64_t until);
  /// Detects it from a report. True if it has changed.
  [[nodiscard]] bool Detect(std::int64_t batches, double epoch);

  /// Returns the length that a trial has reached on its way to `until`, at
  /// most that; 0: unknown.
  double Reached(const Progress& progress, std::int64_t until) const;
  double Reached(const ReportedAt& at, std::int64_t until) const;
  /// Returns the length of a recorded position; 0: unknown.
  double DecodeLength(const ReportedAt& at) const;

  /// Returns a warning of a program that counts something else than the search,
  /// such as batches in place of epochs, so that its first validation ends each
  /// length: once, for a validation far beyond max_length. Otherwise an empty
  /// string.
  std::string WarnOfFarCount(const ReportedAt& at);

 private:
  bool Set(Unit counted);

  const ExperimentConfig& config_;
  Units units_;
  bool warned_ = false;
};

}  // namespace dtrain
