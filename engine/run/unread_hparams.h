#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// Collects which hyperparameters the trials of one experiment have not read.
/// Names are paths: dots reach into nested maps.
class UnreadHparams {
 public:
  /// `space` are the hyperparameters of the configuration.
  explicit UnreadHparams(nlohmann::json space) : space_(std::move(space)) {}

  /// Records what one trial has not read by now.
  void Record(const std::vector<std::string>& unread);
  /// Those that no trial has read, sorted; nullopt before the first record.
  std::optional<std::vector<std::string>> names() const;

  /// The searched ones of which a trial with these hyperparameters has read
  /// nothing. Sorted.
  std::vector<std::string> Searched(
      const nlohmann::json& hparams,
      const std::vector<std::string>& unread) const;

 private:
  nlohmann::json space_;
  std::optional<std::set<std::string>> names_;
};

}  // namespace dtrain
