#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// True if `hparams` meets a condition, the key `when` of a hyperparameter:
/// each hyperparameter that it names exists and has one of its values. A
/// condition is a map from names, nested ones joined by dots, to a list of
/// values or {minval, maxval}, of which one may be left out; or a list of such
/// maps, all of which hold.
bool Holds(const nlohmann::json& when, const nlohmann::json& hparams);

/// Returns the names in a condition.
std::vector<std::string> NamesInCondition(const nlohmann::json& when);

/// The conditional hyperparameters of a space: those with the key `when`.
class HparamConditions {
 public:
  /// REQUIRES: `space` was checked: no condition depends on itself.
  explicit HparamConditions(const nlohmann::json& space);

  struct Conditional {
    std::vector<std::string> path;
    nlohmann::json when;
    std::optional<nlohmann::json> otherwise;  // `else`
  };

  /// True if every hyperparameter exists in every trial.
  bool empty() const { return conditional_.empty(); }

  /// Removes the hyperparameters whose conditions do not hold from `hparams`,
  /// which has a value of each, or gives them the value of `else`. A nested map
  /// that loses all its hyperparameters is removed too.
  void Apply(nlohmann::json& hparams) const;

  /// Returns the names that conditions decide by. These hyperparameters have an
  /// effect on a trial that does not read them.
  std::set<std::string> Deciding() const;
  /// The conditional hyperparameters, each behind those that its condition
  /// names.
  const std::vector<Conditional>& conditional() const { return conditional_; }

 private:
  std::vector<Conditional> conditional_;
};

}  // namespace dtrain
