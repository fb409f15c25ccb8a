// Grid search. Points are computed from their index, so the state is only the
// number of trials created and ended.

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/hparam_space.h"
#include "searchers/registry.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

// Trains every point of the grid to `max_length`, the last point first, with at
// most `max_concurrent_trials` at the same time (0: all).
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

GridSearcher::GridSearcher(const SearcherConfig& config,
                           const nlohmann::json& hyperparameters,
                           std::uint32_t seed)
    : max_length_(config.max_length),
      grid_(hyperparameters),
      at_once_(config.max_concurrent_trials == 0
                   ? grid_.size()
                   : std::min(config.max_concurrent_trials, grid_.size())),
      roster_(hyperparameters, {}, seed) {}

std::vector<Operation> GridSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  if (std::get_if<Started>(&event)) {
    for (std::int64_t i = 0; i < at_once_; ++i) CreateTrial(operations);
    return operations;
  }
  if (std::get_if<Closed>(&event)) return OnEnd(std::nullopt);
  if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    return OnEnd(early->reason);
  }
  return operations;
}

void GridSearcher::CreateTrial(std::vector<Operation>& operations) {
  const std::int64_t last = grid_.size() - 1;
  const TrialIndex trial =
      roster_.Create(grid_.At(last - roster_.created()), operations);
  operations.push_back(ValidateAfter{trial, max_length_});
  operations.push_back(Close{trial});
}

std::vector<Operation> GridSearcher::OnEnd(std::optional<ExitReason> exit) {
  std::vector<Operation> operations;
  roster_.End(exit);
  if (roster_.created() < grid_.size()) CreateTrial(operations);
  (void)roster_.ShutDownIfOver(operations);
  return operations;
}

double GridSearcher::Progress() const {
  return static_cast<double>(roster_.ended()) /
         static_cast<double>(grid_.size());
}

nlohmann::json GridSearcher::Save() const {
  return {{"trials", roster_.Save()}};
}

void GridSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

std::unique_ptr<Searcher> MakeGridSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<GridSearcher>(config, hyperparameters, seed);
}

}  // namespace dtrain
