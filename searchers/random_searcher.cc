// Random search. A trial's operations are all issued when it is created, since
// no later result changes them.

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/registry.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

// Draws `max_trials` trials at random and trains each to `max_length`, with at
// most `max_concurrent_trials` at the same time (0: all). Replaces trials with
// invalid hyperparameters.
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

  std::vector<std::int64_t> stops_;  // lengths before max_length_
  std::int64_t max_length_;
  std::int64_t max_trials_;
  std::int64_t at_once_;
  TrialRoster roster_;
};

RandomSearcher::RandomSearcher(const SearcherConfig& config,
                               const nlohmann::json& hyperparameters,
                               std::uint32_t seed)
    : stops_(config.stops),
      max_length_(config.max_length),
      max_trials_(config.max_trials),
      at_once_(config.max_concurrent_trials == 0
                   ? config.max_trials
                   : std::min(config.max_concurrent_trials, config.max_trials)),
      roster_(hyperparameters, config.points, seed) {}

std::vector<Operation> RandomSearcher::Handle(const Event& event) {
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

void RandomSearcher::CreateTrial(std::vector<Operation>& operations) {
  const TrialIndex trial = roster_.Create(operations);
  for (const std::int64_t stop : stops_) {
    operations.push_back(ValidateAfter{trial, stop});
  }
  operations.push_back(ValidateAfter{trial, max_length_});
  operations.push_back(Close{trial});
}

std::vector<Operation> RandomSearcher::OnEnd(std::optional<ExitReason> exit) {
  std::vector<Operation> operations;
  roster_.End(exit);
  if (exit == ExitReason::kInvalidHp && !roster_.MayReplace()) --max_trials_;
  if (roster_.created() - roster_.invalid() < max_trials_) {
    CreateTrial(operations);
  }
  (void)roster_.ShutDownIfOver(operations);
  return operations;
}

double RandomSearcher::Progress() const {
  const std::int64_t done = roster_.ended() - roster_.invalid();
  if (max_trials_ <= 0) return 1;
  return static_cast<double>(done) / static_cast<double>(max_trials_);
}

nlohmann::json RandomSearcher::Save() const {
  return {{"trials", roster_.Save()}, {"max_trials", max_trials_}};
}

void RandomSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    max_trials_ = state.at("max_trials");
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

std::unique_ptr<Searcher> MakeRandomSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<RandomSearcher>(config, hyperparameters, seed);
}

// A single trial is a random search of one.
std::unique_ptr<Searcher> MakeSingleSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  SearcherConfig one = config;
  one.max_trials = 1;
  one.points.clear();
  return std::make_unique<RandomSearcher>(one, hyperparameters, seed);
}

}  // namespace dtrain
