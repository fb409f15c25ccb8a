#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"
#include "searchers/searcher.h"

namespace dtrain {

/// The trials of one search: draws hyperparameters, request id and seed of each
/// in the order of creation, and counts how they end. Shared by the brackets of
/// adaptive ASHA.
class TrialRoster {
 public:
  /// `space`: the hyperparameters of the YAML. `points` are tried first. They
  /// have a separate random stream, so that the samples are those of a search
  /// without points.
  TrialRoster(nlohmann::json space, std::vector<nlohmann::json> points,
              std::uint32_t seed);

  /// Appends a Create of the next point, or of a sample.
  TrialIndex Create(std::vector<Operation>& operations);
  /// Appends a Create with these hyperparameters.
  TrialIndex Create(nlohmann::json hparams, std::vector<Operation>& operations);
  /// Counts the end of a trial: closed, or early for a reason.
  void End(std::optional<ExitReason> exit);

  /// True if the next Create without hyperparameters takes a point.
  bool HasPoint() const { return points_used_ < points_.size(); }
  /// The random stream of the samples.
  Rng& rng() { return rng_; }

  std::int64_t created() const { return created_; }
  std::int64_t ended() const { return ended_; }
  /// Number of trials with invalid hyperparameters.
  std::int64_t invalid() const { return invalid_; }
  /// True if an invalid trial may be replaced by another sample. False if
  /// nothing else can be drawn, or if after 1,000 invalid trials nine in ten
  /// trials are invalid: such a search would never end.
  bool MayReplace() const;

  /// Appends Shutdown and returns true if all trials have ended.
  bool ShutDownIfOver(std::vector<Operation>& operations) const;

  nlohmann::json Save() const;
  /// Throws nlohmann::json::exception or std::invalid_argument.
  void Load(const nlohmann::json& state);

 private:
  nlohmann::json space_;
  std::vector<nlohmann::json> points_;
  Rng rng_;
  Rng point_rng_;
  bool constant_;
  std::size_t points_used_ = 0;
  std::int64_t created_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t errored_ = 0;
  std::int64_t invalid_ = 0;
};

}  // namespace dtrain
