// Grid, random and single search: no trial depends on the results of another.
// All operations of a trial are issued when it is created, and a trial that
// ends is followed by the next one. The methods differ in where the
// hyperparameters come from and in whether an invalid trial is replaced.
//
// Handle defers trials: the roster counts them as created at once, and
// CreateTrial is called for as many as slots may need soon. Whatever the event,
// trials are deferred until `max_concurrent_trials` have not ended or none
// remains.

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/hparam_grid.h"
#include "searchers/registry.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

// Trains `trials` trials with at most `max_concurrent_trials` at the same time
// (0: all).
class IndependentSearcher : public Searcher {
 public:
  IndependentSearcher(TrialRoster roster, std::int64_t max_concurrent_trials)
      : roster_(std::move(roster)),
        at_once_(max_concurrent_trials == 0
                     ? std::numeric_limits<std::int64_t>::max()
                     : max_concurrent_trials) {}

  std::vector<Operation> Handle(const Event& event) final;
  std::int64_t CreatesAhead() const final { return roster_.ahead(); }
  nlohmann::json Save() const override { return {{"trials", roster_.Save()}}; }
  void Load(const nlohmann::json& state) final;

 protected:
  // Appends a Create of the next trial.
  virtual TrialIndex CreateTrial(std::vector<Operation>& operations) = 0;
  // Appends what a trial that was trained to `length` has left to do.
  virtual void TrainFrom(TrialIndex trial, std::int64_t length,
                         std::vector<Operation>& operations) = 0;
  // Number of trials that were not created yet, with replacements.
  virtual std::int64_t Remaining() const = 0;
  // The roster has counted a trial with invalid hyperparameters.
  virtual void OnInvalid() {}
  virtual void Extend(std::int64_t /*max_trials*/) {}
  // Loads the members of the derived class. Throws nlohmann::json::exception.
  virtual void LoadMore(const nlohmann::json& /*state*/) {}

  TrialRoster& roster() { return roster_; }
  const TrialRoster& roster() const { return roster_; }

 private:
  bool Apply(const Event& event, std::vector<Operation>& operations);

  TrialRoster roster_;
  std::int64_t at_once_;
};

std::vector<Operation> IndependentSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  const bool may_be_over = Apply(event, operations);
  const std::int64_t open = roster_.created() - roster_.ended();
  const std::int64_t more = std::min(at_once_ - open, Remaining());
  if (more > 0) roster_.Defer(more);
  while (roster_.IsDue(roster_.next() - roster_.ended())) {
    TrainFrom(CreateTrial(operations), 0, operations);
  }
  if (may_be_over) (void)roster_.ShutDownIfOver(operations);
  return operations;
}

// Returns true if the event may be the last of a search.
bool IndependentSearcher::Apply(const Event& event,
                                std::vector<Operation>& operations) {
  if (const auto* added = std::get_if<PlacesAdded>(&event)) {
    roster_.CreateAhead(added->ahead);
    return false;
  }
  if (const auto* extended = std::get_if<Extended>(&event)) {
    Extend(extended->max_trials);
  } else if (const auto* retried = std::get_if<Retried>(&event)) {
    for (const auto& [trial, length, exit] : retried->trials) {
      roster_.Reopen(trial, exit, operations);
      TrainFrom(trial, length, operations);
    }
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    roster_.End(early->reason);
    if (early->reason == ExitReason::kInvalidHp) OnInvalid();
  } else if (std::get_if<Closed>(&event) != nullptr) {
    roster_.End(std::nullopt);
  } else {
    return false;
  }
  return true;
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
                            config.max_concurrent_trials),
        max_length_(config.max_length),
        grid_(std::move(grid)) {}

  double Progress() const override;

 private:
  TrialIndex CreateTrial(std::vector<Operation>& operations) override;
  void TrainFrom(TrialIndex trial, std::int64_t length,
                 std::vector<Operation>& operations) override;
  std::int64_t Remaining() const override {
    return grid_.size() - roster().created();
  }

  std::int64_t max_length_;
  HparamGrid grid_;
};

TrialIndex GridSearcher::CreateTrial(std::vector<Operation>& operations) {
  // Determined hands out the points of a grid from the end of its list.
  const std::int64_t last = grid_.size() - 1;
  return roster().Create(grid_.At(last - roster().next()), operations);
}

void GridSearcher::TrainFrom(TrialIndex trial, std::int64_t length,
                             std::vector<Operation>& operations) {
  if (length == 0 || length < max_length_) {
    operations.push_back(ValidateAfter{trial, max_length_});
  }
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
                            config.max_concurrent_trials),
        stops_(config.stops),
        max_length_(config.max_length),
        planned_(config.max_trials),
        max_trials_(config.max_trials) {}

  double Progress() const override;
  nlohmann::json Save() const override;

 private:
  TrialIndex CreateTrial(std::vector<Operation>& operations) override {
    return roster().Create(operations);
  }
  void TrainFrom(TrialIndex trial, std::int64_t length,
                 std::vector<Operation>& operations) override;
  // An invalid trial does not count, so another one replaces it; where that
  // could go on forever, the search gets shorter instead.
  std::int64_t Remaining() const override {
    return max_trials_ - (roster().created() - roster().invalid());
  }
  void OnInvalid() override {
    if (!roster().MayReplace()) --max_trials_;
  }
  void Extend(std::int64_t max_trials) override {
    max_trials_ += max_trials - planned_;
    planned_ = max_trials;
  }
  void LoadMore(const nlohmann::json& state) override {
    max_trials_ = state.at("max_trials");
    planned_ = state.value("planned", planned_);
  }

  std::vector<std::int64_t> stops_;  // lengths before max_length_
  std::int64_t max_length_;
  std::int64_t planned_;     // trials, as configured or extended
  std::int64_t max_trials_;  // without invalid ones that nothing replaces
};

void RandomSearcher::TrainFrom(TrialIndex trial, std::int64_t length,
                               std::vector<Operation>& operations) {
  for (const std::int64_t stop : stops_) {
    if (stop > length) operations.push_back(ValidateAfter{trial, stop});
  }
  if (length == 0 || length < max_length_) {
    operations.push_back(ValidateAfter{trial, max_length_});
  }
  operations.push_back(Close{trial});
}

double RandomSearcher::Progress() const {
  const std::int64_t done = roster().ended() - roster().invalid();
  if (max_trials_ <= 0) return 1;
  return static_cast<double>(done) / static_cast<double>(max_trials_);
}

nlohmann::json RandomSearcher::Save() const {
  nlohmann::json state = IndependentSearcher::Save();
  state["max_trials"] = max_trials_;
  state["planned"] = planned_;
  return state;
}

}  // namespace

std::unique_ptr<Searcher> MakeGridSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<GridSearcher>(
      config, hyperparameters,
      HparamGrid(hyperparameters, HparamGrid::kNoLimit, config.constraints),
      seed);
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
  one.constraints.clear();
  return std::make_unique<RandomSearcher>(one, hyperparameters, seed);
}

}  // namespace dtrain
