#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/wire/message.h"
#include "engine/wire/trainer_settings.h"

namespace dtrain {

/// A metric on its way to a mean.
struct MetricSum {
  double total = 0;
  double weight = 0;        // 0: not measured since the last report
  bool occasional = false;  // some batch has not measured it
};

/// To JSON and back, to the bit. Throws nlohmann::json::exception.
nlohmann::json SumsToJson(const std::map<std::string, MetricSum>& sums);
std::map<std::string, MetricSum> SumsFromJson(const nlohmann::json& json);

/// Metrics, and after how many batches they were taken.
struct MetricPoint {
  std::int64_t batches = 0;
  MetricValues metrics;
};

/// What the trainer itself remembers: with the models, optimizers, schedules
/// and random states it makes a checkpoint from which training goes on to the
/// bit.
struct TrainingState {
  std::int64_t batches = 0;  // trained so far; the data's position too
  // Sums since the last training report.
  std::map<std::string, MetricSum> sums;
  std::optional<MetricPoint> last_training;
  std::optional<MetricPoint> last_validation;
  // The best finite value of the searcher's metric in a validation.
  std::optional<double> best_validation;
  // Why training ended before its length was reached, or empty.
  std::string ended;
  nlohmann::json early_stop;  // null without early stopping
  // Reports that the runner may not have recorded.
  std::vector<TrialMessage> unacknowledged;

  nlohmann::json ToJson() const;
  /// Throws Error(kFailed) or nlohmann::json::exception for what `ToJson` did
  /// not write.
  static TrainingState FromJson(const nlohmann::json& json);
};

/// Counts validations without improvement, as `early_stopping` of the YAML
/// says. A value; its state goes into checkpoints.
class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopping settings) : settings_(std::move(settings)) {}

  /// One validation gave `value` (NaN is no improvement). True once training
  /// is to end.
  [[nodiscard]] bool Observe(double value);

  /// Why training ends then: "'loss' did not improve 3 times in a row
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
