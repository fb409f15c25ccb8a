#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/searcher.h"
#include "searchers/searcher_config.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// Samples `max_trials` trials, trains each to `max_length`, and keeps up to
/// `max_concurrent_trials` going (0: all at once). A trial that ends as invalid
/// is replaced.
class RandomSearcher final : public Searcher {
 public:
  RandomSearcher(const SearcherConfig& config,
                 const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override;
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  void CreateTrial(std::vector<Operation>& operations);
  std::vector<Operation> OnEnd(std::optional<ExitReason> exit);

  std::vector<std::int64_t> stops_;  // lengths on the way to max_length_
  std::int64_t max_length_;
  std::int64_t max_trials_;
  std::int64_t at_once_;
  TrialRoster roster_;
};

/// Makes a RandomSearcher, for the registry.
std::unique_ptr<Searcher> MakeRandomSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

/// Makes the searcher of a single trial: a random search of one.
std::unique_ptr<Searcher> MakeSingleSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
