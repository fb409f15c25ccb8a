// What a program counts is found out from its reports, since it may count
// batches or the unit of the search without saying which. Evidence is taken in
// this order: a total that equals the length of the operation, the relation of
// count and epoch in a report, and the rule of the protocol (docs/protocol.md)
// where neither decides. Models count batches, which is never in doubt.
//
// A wrong answer would show wrong totals and let trials pass rungs too early,
// so a later report may correct it.

#include "engine/run/reported_units.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace dtrain {

bool IsCommand(const ExperimentConfig& config) {
  return std::holds_alternative<std::vector<std::string>>(config.entrypoint);
}

Unit CountedUnit(const Store& store, std::int64_t experiment,
                 const ExperimentConfig& config) {
  if (!IsCommand(config)) return Unit::kBatches;
  const bool planned = config.searcher.max_length > 0;
  if (planned && config.length_unit == Unit::kBatches) return Unit::kBatches;
  const auto report = store.FirstReport(experiment);
  if (!report) return config.length_unit;
  return CountedUnit(config, report->batches, report->epoch);
}

Units FindUnits(const Store& store, std::int64_t experiment,
                const ExperimentConfig& config) {
  return {.searched = config.length_unit,
          .counted = CountedUnit(store, experiment, config),
          .records_per_epoch = config.training.records_per_epoch};
}

Unit CountedUnit(const ExperimentConfig& config, std::int64_t batches,
                 double epoch) {
  const auto records = static_cast<double>(config.training.records_per_epoch);
  const auto count = static_cast<double>(batches);
  // Without an epoch to compare with, only the rule of the protocol is left.
  const auto is_count_of = [&](double per_epoch) {
    return std::abs(epoch * per_epoch - count) < 0.5;
  };
  if (config.searcher.max_length == 0) {
    if (epoch <= 0) return Unit::kBatches;
    if (is_count_of(1)) return Unit::kEpochs;
    return records > 0 && is_count_of(records) ? Unit::kRecords
                                               : Unit::kBatches;
  }
  const Unit unit = config.length_unit;
  if (unit == Unit::kEpochs) {
    // Every report of such a program has an epoch, which may be 0.
    return is_count_of(1) ? unit : Unit::kBatches;
  }
  if (records <= 0 || epoch <= 0) return unit;
  return is_count_of(records) ? unit : Unit::kBatches;
}

bool ReportedLengths::Set(Unit counted) {
  return std::exchange(units_.counted, counted) != counted;
}

// A program that counts in the unit of the search reports the length of its
// operation as the total. Another total that a length of the search can be is
// one that the program had before.
bool ReportedLengths::Detect(const Progress& progress, std::int64_t until) {
  const bool tells =
      progress.batches > 0 && progress.total > 0 && IsCommand(config_);
  if (!tells || config_.length_unit == Unit::kBatches) return false;
  if (progress.total == until) return Set(config_.length_unit);
  return progress.total > config_.searcher.max_length && Set(Unit::kBatches);
}

// Without max_length, only a report can tell. So it does for batches at epoch
// 0, of which no total can be estimated, and beside records.
bool ReportedLengths::Detect(std::int64_t batches, double epoch) {
  if (batches <= 0 || !IsCommand(config_)) return false;
  const bool planned = config_.searcher.max_length > 0;
  if (planned && config_.length_unit == Unit::kBatches) return false;
  return Set(CountedUnit(config_, batches, epoch));
}

double ReportedLengths::Reached(const Progress& progress,
                                std::int64_t until) const {
  if (progress.total <= 0) return 0;
  // Sent before the program got its present length.
  const bool is_earlier = IsCommand(config_) &&
                          units_.counted == config_.length_unit &&
                          progress.total != until;
  if (is_earlier) return 0;
  const double share = static_cast<double>(progress.batches) /
                       static_cast<double>(progress.total);
  return std::min(share, 1.0) * static_cast<double>(until);
}

double ReportedLengths::Reached(const ReportedAt& at,
                                std::int64_t until) const {
  if (config_.searcher.max_length == 0) return 0;
  double reached = 0;
  if (config_.length_unit == Unit::kBatches) {
    reached = static_cast<double>(at.batches);
  } else if (config_.length_unit == Unit::kEpochs) {
    reached = at.epoch;
  }
  return std::min(reached, static_cast<double>(until));
}

double ReportedLengths::DecodeLength(const ReportedAt& at) const {
  if (units_.counted == config_.length_unit) {
    return static_cast<double>(at.batches);
  }
  return config_.length_unit == Unit::kEpochs ? at.epoch : 0;
}

std::string ReportedLengths::WarnOfFarCount(const ReportedAt& at) {
  const std::int64_t longest = config_.searcher.max_length;
  if (!IsCommand(config_) || longest == 0 || warned_) return "";
  const Unit unit = config_.length_unit;
  const bool is_epochs = unit == Unit::kEpochs;
  if (!is_epochs && unit != units_.counted) return "";
  const double count = is_epochs ? at.epoch : static_cast<double>(at.batches);
  if (count <= 2 * static_cast<double>(longest)) return "";
  warned_ = true;
  return "a validation at " + LengthText(count, unit) + ", far beyond the " +
         LengthText(longest, unit) +
         " of the search, counts as its result; the counts of its reports "
         "must be in " +
         std::string(UnitName(unit));
}

}  // namespace dtrain
