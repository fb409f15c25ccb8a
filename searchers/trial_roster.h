#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"
#include "searchers/searcher.h"

namespace dtrain {

/// The trials of one search: gives each its hyperparameters, request id and
/// seed in the order of creation, and counts how they end. What the parts of a
/// search (the brackets of adaptive ASHA) share.
class TrialRoster {
 public:
  /// `space` is the hyperparameters of the YAML. The `points` are tried first;
  /// they have a random stream of their own for what they need, so that the
  /// sampled trials are those of a search without points.
  TrialRoster(nlohmann::json space, std::vector<nlohmann::json> points,
              std::uint32_t seed);

  /// Appends the Create of the next point, or of a sample.
  TrialIndex Create(std::vector<Operation>& operations);
  /// Appends the Create of a trial with these hyperparameters.
  TrialIndex Create(nlohmann::json hparams, std::vector<Operation>& operations);
  /// A trial ended: closed, or early for a reason.
  void End(std::optional<ExitReason> exit);

  std::int64_t created() const { return created_; }
  std::int64_t ended() const { return ended_; }
  /// Those that ended as invalid.
  std::int64_t invalid() const { return invalid_; }
  /// Whether an invalid trial may be replaced by another sample. No longer
  /// where there is nothing else to draw, or where after a thousand invalid
  /// ones nine in ten still are: such a search would never end.
  bool MayReplace() const;

  /// Appends Shutdown if no trial is left, and tells whether it did.
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
