// Grid, random and single search: no trial depends on the results of another.
// All operations of a trial are issued when it is created, and a trial that
// ends is followed by the next one. The methods differ in where the
// hyperparameters come from and in whether an invalid trial is replaced.
//
// Handle defers trials: the roster counts them as created at once, and
// CreateTrial is called for as many as slots may need soon. A trial that ends
// adds one more while CreatesNext allows it, so that `max_concurrent_trials` is
// kept without counting the trials that run.

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/hparam_space.h"
#include "searchers/registry.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

// Trains `trials` trials with at most `max_concurrent_trials` at the same time
// (0: all).
class IndependentSearcher : public Searcher {
 public:
  IndependentSearcher(TrialRoster roster, std::int64_t trials,
                      std::int64_t max_concurrent_trials)
      : roster_(std::move(roster)),
        at_once_(max_concurrent_trials == 0
                     ? trials
                     : std::min(max_concurrent_trials, trials)) {}

  std::vector<Operation> Handle(const Event& event) final;
  std::int64_t CreatesAhead() const final { return roster_.ahead(); }
  nlohmann::json Save() const override { return {{"trials", roster_.Save()}}; }
  void Load(const nlohmann::json& state) final;

 protected:
  // Appends the operations of the next trial.
  virtual void CreateTrial(std::vector<Operation>& operations) = 0;
  // True if the end of a trial is followed by another trial. The roster has
  // counted the end.
  virtual bool CreatesNext(std::optional<ExitReason> exit) = 0;
  // Loads the members of the derived class. Throws nlohmann::json::exception.
  virtual void LoadMore(const nlohmann::json& /*state*/) {}

  TrialRoster& roster() { return roster_; }
  const TrialRoster& roster() const { return roster_; }

 private:
  void OnEnd(std::optional<ExitReason> exit);

  TrialRoster roster_;
  std::int64_t at_once_;
};

std::vector<Operation> IndependentSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  const auto* early = std::get_if<ExitedEarly>(&event);
  const bool ends = early != nullptr || std::get_if<Closed>(&event) != nullptr;
  if (std::get_if<Started>(&event)) {
    roster_.Defer(at_once_);
  } else if (const auto* added = std::get_if<PlacesAdded>(&event)) {
    roster_.CreateAhead(added->ahead);
  } else if (ends) {
    OnEnd(early != nullptr ? std::optional(early->reason) : std::nullopt);
  }
  while (roster_.IsDue(roster_.next() - roster_.ended())) {
    CreateTrial(operations);
  }
  if (ends) (void)roster_.ShutDownIfOver(operations);
  return operations;
}

void IndependentSearcher::OnEnd(std::optional<ExitReason> exit) {
  roster_.End(exit);
  if (CreatesNext(exit)) roster_.Defer(1);
}

void IndependentSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    LoadMore(state);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

// Trains every point of the grid to `max_length`, the last point first. Points
// are computed from their index, so the roster is the whole state.
class GridSearcher final : public IndependentSearcher {
 public:
  GridSearcher(const SearcherConfig& config,
               const nlohmann::json& hyperparameters, HparamGrid grid,
               std::uint32_t seed)
      : IndependentSearcher(TrialRoster(hyperparameters, config, seed),
                            grid.size(), config.max_concurrent_trials),
        max_length_(config.max_length),
        grid_(std::move(grid)) {}

  double Progress() const override;

 private:
  void CreateTrial(std::vector<Operation>& operations) override;
  bool CreatesNext(std::optional<ExitReason>) override {
    return roster().created() < grid_.size();
  }

  std::int64_t max_length_;
  HparamGrid grid_;
};

void GridSearcher::CreateTrial(std::vector<Operation>& operations) {
  // Determined hands out the points of a grid from the end of its list.
  const std::int64_t last = grid_.size() - 1;
  const TrialIndex trial =
      roster().Create(grid_.At(last - roster().next()), operations);
  operations.push_back(ValidateAfter{trial, max_length_});
  operations.push_back(Close{trial});
}

double GridSearcher::Progress() const {
  return static_cast<double>(roster().ended()) /
         static_cast<double>(grid_.size());
}

// Draws `max_trials` trials at random and trains each to `max_length`. Replaces
// trials with invalid hyperparameters.
class RandomSearcher final : public IndependentSearcher {
 public:
  RandomSearcher(const SearcherConfig& config,
                 const nlohmann::json& hyperparameters, std::uint32_t seed)
      : IndependentSearcher(TrialRoster(hyperparameters, config, seed),
                            config.max_trials, config.max_concurrent_trials),
        stops_(config.stops),
        max_length_(config.max_length),
        max_trials_(config.max_trials) {}

  double Progress() const override;
  nlohmann::json Save() const override;

 private:
  void CreateTrial(std::vector<Operation>& operations) override;
  bool CreatesNext(std::optional<ExitReason> exit) override;
  void LoadMore(const nlohmann::json& state) override {
    max_trials_ = state.at("max_trials");
  }

  std::vector<std::int64_t> stops_;  // lengths before max_length_
  std::int64_t max_length_;
  std::int64_t max_trials_;
};

void RandomSearcher::CreateTrial(std::vector<Operation>& operations) {
  const TrialIndex trial = roster().Create(operations);
  for (const std::int64_t stop : stops_) {
    operations.push_back(ValidateAfter{trial, stop});
  }
  operations.push_back(ValidateAfter{trial, max_length_});
  operations.push_back(Close{trial});
}

bool RandomSearcher::CreatesNext(std::optional<ExitReason> exit) {
  // An invalid trial does not count, so the condition below replaces it; where
  // that could go on forever, the search gets shorter instead.
  if (exit == ExitReason::kInvalidHp && !roster().MayReplace()) --max_trials_;
  return roster().created() - roster().invalid() < max_trials_;
}

double RandomSearcher::Progress() const {
  const std::int64_t done = roster().ended() - roster().invalid();
  if (max_trials_ <= 0) return 1;
  return static_cast<double>(done) / static_cast<double>(max_trials_);
}

nlohmann::json RandomSearcher::Save() const {
  nlohmann::json state = IndependentSearcher::Save();
  state["max_trials"] = max_trials_;
  return state;
}

}  // namespace

std::unique_ptr<Searcher> MakeGridSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<GridSearcher>(config, hyperparameters,
                                        HparamGrid(hyperparameters), seed);
}

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
