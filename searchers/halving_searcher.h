#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/asha_bracket.h"
#include "searchers/searcher.h"
#include "searchers/searcher_config.h"
#include "searchers/trial_roster.h"

namespace dtrain {

/// The ASHA family: brackets of asynchronous successive halving, side by side
/// on one random stream. One bracket is async_halving, several are
/// adaptive_asha.
class HalvingSearcher final : public Searcher {
 public:
  HalvingSearcher(const SearcherConfig& config,
                  const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override { return progress_; }
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  AshaBracket& BracketOf(TrialIndex trial);
  void NoteCreated(std::size_t bracket);
  void Dispatch(const Event& event, std::vector<Operation>& operations);
  void NoteProgress(bool over);

  bool smaller_is_better_;
  TrialRoster roster_;
  std::vector<AshaBracket> brackets_;
  std::vector<std::uint32_t> bracket_of_;  // by trial
  double progress_ = 0;                    // never goes back
};

/// Makes a HalvingSearcher, for the registry.
std::unique_ptr<Searcher> MakeHalvingSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed);

}  // namespace dtrain
