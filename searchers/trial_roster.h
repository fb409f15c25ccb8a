#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/rng.h"
#include "searchers/hparam_constraints.h"
#include "searchers/hparam_space.h"
#include "searchers/searcher.h"

namespace dtrain {

/// The trials of one search: draws hyperparameters, request id and seed of each
/// in the order of creation, and counts how they end. A deferred trial is
/// counted as created, but its hyperparameters are drawn later (see
/// Searcher::CreatesAhead). Shared by the brackets of adaptive ASHA.
class TrialRoster {
 public:
  /// `space`: the hyperparameters of the YAML. The points of `config` are tried
  /// first. They use a separate random stream, so that they do not change the
  /// samples. What violates its constraints is drawn again from the same
  /// stream, at most HparamConstraints::kMaxDraws times for a trial.
  TrialRoster(nlohmann::json space, const SearcherConfig& config,
              std::uint32_t seed);

  /// Adds trials that are deferred until Create is called for each.
  void Defer(std::int64_t trials);
  /// True if the next deferred trial is to be created now, while `open` trials
  /// that are not deferred have no result.
  bool IsDue(std::int64_t open) const { return deferred_ > 0 && open < ahead_; }
  /// Sets how many are created ahead. Never lowers it.
  void CreateAhead(std::int64_t trials);

  /// Appends a Create of the next point, or of a sample: of the next deferred
  /// trial, or of another one if none is deferred.
  TrialIndex Create(std::vector<Operation>& operations);
  /// Appends a Create with these hyperparameters.
  TrialIndex Create(nlohmann::json hparams, std::vector<Operation>& operations);
  /// Counts the end of a trial: closed, or early for a reason.
  void End(std::optional<ExitReason> exit);
  /// Appends a Reopen of a trial whose end was counted so.
  void Reopen(TrialIndex trial, std::optional<ExitReason> exit,
              std::vector<Operation>& operations);

  /// True if the next Create without hyperparameters takes a point.
  bool HasPoint() const { return points_used_ < points_.size(); }
  /// The random stream of the samples.
  Rng& rng() { return rng_; }

  /// Number of trials, with deferred ones.
  std::int64_t created() const { return created_; }
  std::int64_t deferred() const { return deferred_; }
  /// Returns the trial that Create creates next.
  TrialIndex next() const { return created_ - deferred_; }
  /// See Searcher::CreatesAhead.
  std::int64_t ahead() const;
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
  TrialIndex Append(Sample sample, std::vector<Operation>& operations);

  nlohmann::json space_;
  std::vector<nlohmann::json> points_;
  HparamConstraints constraints_;
  Rng rng_;
  Rng point_rng_;
  bool constant_;
  std::size_t points_used_ = 0;
  std::int64_t ahead_;
  std::int64_t created_ = 0;
  std::int64_t deferred_ = 0;  // the last ones of those
  std::int64_t ended_ = 0;
  std::int64_t errored_ = 0;
  std::int64_t invalid_ = 0;
};

}  // namespace dtrain
