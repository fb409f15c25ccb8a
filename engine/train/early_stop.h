#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/wire/trainer_settings.h"

namespace dtrain {

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
