#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// Partial reduction of a metric.
struct MetricSum {
  double total = 0;
  double weight = 0;        // 0: not measured since the last report
  bool occasional = false;  // some batch has not measured it
};

/// Exact conversion to JSON and back. Throws nlohmann::json::exception.
nlohmann::json SumsToJson(const std::map<std::string, MetricSum>& sums);
std::map<std::string, MetricSum> SumsFromJson(const nlohmann::json& json);

/// Value of a metric; null if it is missing.
const double* FindMetric(const MetricValues& metrics, const std::string& name);

/// Metrics, and the number of batches after which they were computed.
struct MetricPoint {
  std::int64_t batches = 0;
  MetricValues metrics;
};

/// The trainer's own state. ParameterList with models, optimizers, schedules
/// and random states it makes a checkpoint from which training resumes
/// bit-identically.
struct TrainingState {
  std::int64_t batches = 0;  // trained so far; the data's position too
  // Reductions since the last training report.
  std::map<std::string, MetricSum> sums;
  std::optional<MetricPoint> last_training;
  std::optional<MetricPoint> last_validation;
  // Best finite value of the searcher's metric over all validations.
  std::optional<double> best_validation;
  // Why training ended before its full length; empty if it did not.
  std::string ended;
  nlohmann::json early_stop;  // null without early stopping
  // Reports that the runner may not have recorded yet.
  std::vector<TrialMessage> unacknowledged;

  /// Replaces `last_training`. Metrics of `occasional` that a report lacks keep
  /// their last values: the searcher's metric may have come with the end of the
  /// last epoch.
  void RememberTraining(std::int64_t batches_then, const MetricValues& metrics,
                        const std::set<std::string>& occasional);
  /// Returns `names` and those of `last_training`. REQUIRES: it has a value.
  std::set<std::string> KnownMetrics(std::set<std::string> names) const;

  nlohmann::json ToJson() const;
  /// Throws Error(kFailed) or nlohmann::json::exception for JSON that ToJson
  /// did not write.
  static TrainingState FromJson(const nlohmann::json& json);
};

/// Counts validations without improvement, as configured by `early_stopping`. A
/// value type; its state is saved in checkpoints.
class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopping settings) : settings_(std::move(settings)) {}

  /// Reports the `value` of a validation (NaN is not an improvement). Returns
  /// true once training should stop.
  [[nodiscard]] bool Observe(double value);

  /// Reason for the stop: "'loss' did not improve 3 times in a row
  /// (early_stopping)".
  std::string Reason() const;

  const EarlyStopping& settings() const { return settings_; }
  nlohmann::json Save() const;
  void Load(const nlohmann::json& state);

 private:
  EarlyStopping settings_;
  std::optional<double> best_;
  std::int64_t bad_ = 0;
};

}  // namespace dtrain
