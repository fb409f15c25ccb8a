#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/hparam_space.h"
#include "searchers/searcher.h"
#include "searchers/searcher_config.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// Tries every point of the grid once, the last one first, each trained to
/// `max_length`; up to `max_concurrent_trials` at once (0: all).
class GridSearcher final : public Searcher {
 public:
  GridSearcher(const SearcherConfig& config,
               const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override;
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  void CreateTrial(std::vector<Operation>& operations);
  std::vector<Operation> OnEnd(std::optional<ExitReason> exit);

  std::int64_t max_length_;
  HparamGrid grid_;
  std::int64_t at_once_;
  TrialRoster roster_;
};

/// Makes a GridSearcher, for the registry.
std::unique_ptr<Searcher> MakeGridSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
