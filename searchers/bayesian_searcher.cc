// Model-based successive halving. Trials wait at rungs as in asynchronous
// halving with promotion, but a model of all results decides whether a waiting
// trial or a new one is the best use of a free place. Every third decision is
// that of asynchronous halving, in case the model is wrong, and so are all
// until the model has enough trials and results.
//
// A trial is training, waiting at a rung, or closed. Each event may free
// places; FillPlaces makes one decision for each, in this order: a point of the
// configuration that was not tried, the best waiting trial within its rung's
// quota (halving) or what SearchModel proposes. The search ends when the budget
// of length or time is spent, or nothing is left to try and nothing trains;
// then all waiting trials are closed.
//
// `assigned_` is the length that operations were issued for, and decides when
// the budget is spent; `trained_` is what was trained, for the progress. A
// failed trial keeps its length in both; an invalid one gives it back if it may
// be replaced.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "searchers/point_space.h"
#include "searchers/registry.h"
#include "searchers/search_model.h"
#include "searchers/search_plan.h"
#include "searchers/trial_roster.h"

namespace dtrain {
namespace {

constexpr std::int64_t kHalvingEvery = 3;  // decisions
constexpr std::size_t kMinResults = 3;
// A random point of a finite space may have been tried.
constexpr int kRedraws = 100;
// Result of a trial that failed, and of NaN: worse than any other.
constexpr double kWorst = std::numeric_limits<double>::max();

class BayesianSearcher final : public Searcher {
 public:
  BayesianSearcher(const SearcherConfig& config,
                   const nlohmann::json& hyperparameters, std::uint32_t seed);

  std::vector<Operation> Handle(const Event& event) override;
  double Progress() const override { return progress_; }
  std::vector<Expectation> FindExpectations() override;
  nlohmann::json Save() const override;
  void Load(const nlohmann::json& state) override;

 private:
  enum class Place { kTraining, kWaiting, kClosed };

  struct Trial {
    int rung = 0;  // that it trains to or waits at
    Place place = Place::kTraining;
    std::int64_t length = 0;  // trained to
    bool exited = false;      // exited early
    bool ended = false;
  };

  void OnValidation(const ValidationCompleted& event,
                    std::vector<Operation>& operations);
  void OnExit(const ExitedEarly& event);
  void Extend(const Extended& event, std::vector<Operation>& operations);
  void Retry(const Retried& event, std::vector<Operation>& operations);
  void ReopenWaiting(const std::vector<TrialIndex>& lost,
                     std::vector<Operation>& operations);
  void RemoveInvalid(TrialIndex index);
  void AddResult(TrialIndex index, double value);
  void AddFailure(TrialIndex index, ExitReason reason);
  void FillPlaces(std::vector<Operation>& operations);
  bool Decide(std::vector<Operation>& operations);
  bool DecideByHalving(std::vector<Operation>& operations);
  bool DecideByModel(std::vector<Operation>& operations);
  bool IsHalvingDecision(std::int64_t number) const;
  bool Create(std::vector<Operation>& operations);
  void CreateAt(Point point, std::vector<Operation>& operations);
  void Start(std::vector<Operation>& operations, Point point);
  void Promote(TrialIndex index, std::vector<Operation>& operations);
  void Close(TrialIndex index, std::vector<Operation>& operations);
  void CloseWaiting(std::vector<Operation>& operations);
  std::optional<TrialIndex> FirstInQuota() const;
  std::optional<TrialIndex> FirstWaiting() const;
  std::vector<TrialAtRung> TrialsIn(Place place) const;
  bool MayCreate() const;
  bool IsBudgetSpent() const;
  std::int64_t LengthTo(int rung) const;
  void UpdateProgress(bool over);
  void LoadTrials(const nlohmann::json& state);
  Trial& At(TrialIndex index) {
    return trials_.at(static_cast<std::size_t>(index));
  }
  int top() const { return static_cast<int>(lengths_.size()) - 1; }

  SearcherConfig config_;  // with the present max_trials
  bool smaller_is_better_;
  std::int64_t rules_;
  double divisor_;
  std::int64_t places_;
  std::int64_t budget_;                // length of all trials; 0: unlimited
  double budget_seconds_;              // 0: unlimited
  std::vector<std::int64_t> lengths_;  // of the rungs
  PointSpace space_;
  TrialRoster roster_;
  SearchModel model_;

  std::int64_t planned_;     // trials, as configured or extended
  std::int64_t max_trials_;  // without invalid ones
  std::int64_t decisions_ = 0;
  std::int64_t assigned_ = 0;  // length given to all trials
  std::int64_t trained_ = 0;   // length trained by them
  double seconds_ = 0;         // that it took
  bool finished_ = false;      // no more decisions
  double progress_ = 0;        // reset by Extended and Retried
  std::vector<Trial> trials_;
  std::set<TrialIndex> training_;
  std::set<TrialIndex> waiting_;
  // Results of each rung, best first. Those that are no number are last.
  std::vector<std::set<std::pair<double, TrialIndex>>> results_;
};

BayesianSearcher::BayesianSearcher(const SearcherConfig& config,
                                   const nlohmann::json& hyperparameters,
                                   std::uint32_t seed)
    : config_(config),
      smaller_is_better_(config.smaller_is_better),
      rules_(config.rules),
      divisor_(config.divisor),
      places_(CountPlaces(config)),
      budget_(SearchBudget(config)),
      budget_seconds_(config.budget_seconds),
      lengths_(PlanBrackets(config).front().rungs),
      space_(hyperparameters, /*orders_lists=*/config.rules >= 3,
             config.constraints),
      roster_(hyperparameters, config, seed),
      model_(space_, lengths_, CountsTime(config),
             /*aims_at_predictions=*/config.rules >= 3),
      planned_(config.max_trials),
      max_trials_(config.max_trials),
      results_(lengths_.size()) {}

std::vector<Operation> BayesianSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  if (const auto* validated = std::get_if<ValidationCompleted>(&event)) {
    OnValidation(*validated, operations);
  } else if (const auto* closed = std::get_if<Closed>(&event)) {
    At(closed->trial).place = Place::kClosed;
    At(closed->trial).ended = true;
    roster_.End(std::nullopt);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    OnExit(*early);
  } else if (const auto* extended = std::get_if<Extended>(&event)) {
    Extend(*extended, operations);
  } else if (const auto* retried = std::get_if<Retried>(&event)) {
    Retry(*retried, operations);
  }
  if (!std::get_if<Created>(&event)) FillPlaces(operations);
  const bool over = roster_.ShutDownIfOver(operations);
  UpdateProgress(over);
  return operations;
}

void BayesianSearcher::OnValidation(const ValidationCompleted& event,
                                    std::vector<Operation>& operations) {
  Trial& trial = At(event.trial);
  if (trial.place != Place::kTraining) return;
  const std::int64_t length = LengthTo(trial.rung);
  trained_ += length;
  if (std::isfinite(event.seconds) && event.seconds > 0) {
    seconds_ += event.seconds;
    model_.AddCost(event.trial, event.seconds, length);
  }
  const double value = smaller_is_better_ ? event.metric : -event.metric;
  trial.length = lengths_[static_cast<std::size_t>(trial.rung)];
  training_.erase(event.trial);
  AddResult(event.trial, value);
  const bool passes = rules_ < 2 || std::isfinite(value);
  if (trial.rung == top() || finished_ || !passes) {
    return Close(event.trial, operations);
  }
  trial.place = Place::kWaiting;
  waiting_.insert(event.trial);
}

// Adds the result of a trial at its rung.
void BayesianSearcher::AddResult(TrialIndex index, double value) {
  const int rung = At(index).rung;
  results_[static_cast<std::size_t>(rung)].emplace(
      std::isfinite(value) ? value : kWorst, index);
  model_.Observe({index, rung}, value);
}

// Ranks a trial last at its rung. The model learns nothing from a trial that
// was stopped by the user or by early stopping.
void BayesianSearcher::AddFailure(TrialIndex index, ExitReason reason) {
  const int rung = At(index).rung;
  results_[static_cast<std::size_t>(rung)].emplace(kWorst, index);
  if (reason != ExitReason::kErrored) return;
  model_.Observe({index, rung}, std::numeric_limits<double>::quiet_NaN());
}

void BayesianSearcher::OnExit(const ExitedEarly& event) {
  Trial& trial = At(event.trial);
  const Place before = std::exchange(trial.place, Place::kClosed);
  trial.exited = trial.ended = true;
  training_.erase(event.trial);
  waiting_.erase(event.trial);
  roster_.End(event.reason);
  if (before == Place::kClosed) return;
  if (event.reason == ExitReason::kInvalidHp) {
    RemoveInvalid(event.trial);
  } else if (before == Place::kTraining) {
    trained_ += LengthTo(trial.rung);
    AddFailure(event.trial, event.reason);
  }
}

void BayesianSearcher::Extend(const Extended& event,
                              std::vector<Operation>& operations) {
  max_trials_ += event.max_trials - planned_;
  planned_ = event.max_trials;
  config_.max_trials = event.max_trials;
  places_ = CountPlaces(config_);
  budget_ = event.budget;
  budget_seconds_ = event.budget_seconds;
  finished_ = false;
  progress_ = 0;
  ReopenWaiting(event.lost, operations);
}

// Lets trials that ended without having been promoted wait again.
void BayesianSearcher::ReopenWaiting(const std::vector<TrialIndex>& lost,
                                     std::vector<Operation>& operations) {
  for (std::size_t rung = 0; rung + 1 < results_.size(); ++rung) {
    for (const auto& [value, index] : results_[rung]) {
      Trial& trial = At(index);
      if (trial.rung != static_cast<int>(rung) || trial.exited ||
          !trial.ended || value == kWorst ||
          std::ranges::find(lost, index) != lost.end()) {
        continue;
      }
      trial.place = Place::kWaiting;
      trial.ended = false;
      waiting_.insert(index);
      roster_.Reopen(index, std::nullopt, operations);
    }
  }
}

// `assigned_` already contains the length of a failed trial. Its result counts
// even if the search has finished.
void BayesianSearcher::Retry(const Retried& event,
                             std::vector<Operation>& operations) {
  progress_ = 0;
  if (!finished_) ReopenWaiting(event.lost, operations);
  for (const auto& [index, length, exit] : event.trials) {
    Trial& trial = At(index);
    trial.exited = trial.ended = false;
    roster_.Reopen(index, exit, operations);
    auto& results = results_[static_cast<std::size_t>(trial.rung)];
    if (length >= lengths_[static_cast<std::size_t>(trial.rung)]) {
      const bool is_worst = results.contains({kWorst, index});
      if (finished_ || trial.rung == top() || is_worst) {
        Close(index, operations);
      } else {
        trial.place = Place::kWaiting;
        waiting_.insert(index);
      }
      continue;
    }
    std::erase_if(results,
                  [&](const auto& result) { return result.second == index; });
    model_.Remove(index, trial.rung);
    trained_ -= LengthTo(trial.rung);
    trial.place = Place::kTraining;
    training_.insert(index);
    operations.push_back(
        ValidateAfter{index, lengths_[static_cast<std::size_t>(trial.rung)]});
  }
}

// An invalid trial does not count, unless nothing else can be tried.
void BayesianSearcher::RemoveInvalid(TrialIndex index) {
  for (auto& results : results_) {
    std::erase_if(results,
                  [&](const auto& result) { return result.second == index; });
  }
  model_.Remove(index);
  if (rules_ >= 3) model_.MarkInvalid(index);
  Trial& trial = At(index);
  const std::int64_t assigned = lengths_[static_cast<std::size_t>(trial.rung)];
  if (roster_.MayReplace()) {
    assigned_ -= assigned;
    trained_ -= trial.length;
  } else {
    --max_trials_;
    trained_ += assigned - trial.length;
  }
}

// Makes a decision for each free place, and ends the search if none is left.
void BayesianSearcher::FillPlaces(std::vector<Operation>& operations) {
  while (!finished_ && static_cast<std::int64_t>(training_.size()) < places_) {
    if (!IsBudgetSpent() && Decide(operations)) continue;
    finished_ = IsBudgetSpent() || training_.empty();
    break;
  }
  if (IsBudgetSpent()) finished_ = true;
  if (finished_) CloseWaiting(operations);
}

// The model decides once it has enough trials with results to tell
// hyperparameters apart. Before rules 3 that was enough trials, and a result
// just below the top rung.
bool BayesianSearcher::IsHalvingDecision(std::int64_t number) const {
  const std::size_t needed = TrialsBeforeModel(space_.dimensions());
  const bool has_results =
      rules_ >= 3
          ? model_.results() >= needed
          : lengths_.size() == 1 || !results_[results_.size() - 2].empty();
  const bool early = trials_.size() < needed || !has_results;
  return early || number % kHalvingEvery == 0;
}

// Starts or promotes a trial. False if there is nothing to do.
bool BayesianSearcher::Decide(std::vector<Operation>& operations) {
  const bool by_halving = IsHalvingDecision(decisions_ + 1);
  bool decided = roster_.HasPoint() && MayCreate() && Create(operations);
  if (!decided && by_halving) decided = DecideByHalving(operations);
  if (!decided) decided = DecideByModel(operations);
  if (!decided) return false;
  ++decisions_;
  return true;
}

bool BayesianSearcher::DecideByHalving(std::vector<Operation>& operations) {
  if (const auto trial = FirstInQuota()) {
    Promote(*trial, operations);
    return true;
  }
  return MayCreate() && Create(operations);
}

bool BayesianSearcher::DecideByModel(std::vector<Operation>& operations) {
  if (model_.results() < kMinResults) {
    if (MayCreate() && Create(operations)) return true;
    const auto first = FirstWaiting();
    if (first) Promote(*first, operations);
    return first.has_value();
  }
  const auto proposal =
      model_.Propose(TrialsIn(Place::kTraining), TrialsIn(Place::kWaiting),
                     MayCreate(), roster_.rng());
  if (proposal && proposal->waiting) {
    Promote(*proposal->waiting, operations);
  } else if (proposal) {
    CreateAt(proposal->point, operations);
  }
  if (proposal || config_.constraints.empty()) return proposal.has_value();
  // No candidate met the constraints, which few points may do.
  return MayCreate() && Create(operations);
}

// Returns the best waiting trial among the best 1/divisor of its rung, from the
// highest rung with one.
std::optional<TrialIndex> BayesianSearcher::FirstInQuota() const {
  for (int rung = top() - 1; rung >= 0; --rung) {
    const auto& results = results_[static_cast<std::size_t>(rung)];
    auto quota = static_cast<std::int64_t>(static_cast<double>(results.size()) /
                                           divisor_);
    for (const auto& [value, index] : results) {
      if (quota-- <= 0) break;
      const Trial& trial = trials_[static_cast<std::size_t>(index)];
      if (trial.place == Place::kWaiting && trial.rung == rung) return index;
    }
  }
  return std::nullopt;
}

// Returns the best waiting trial of the highest rung with one.
std::optional<TrialIndex> BayesianSearcher::FirstWaiting() const {
  for (int rung = top() - 1; rung >= 0; --rung) {
    for (const auto& [value, index] :
         results_[static_cast<std::size_t>(rung)]) {
      const Trial& trial = trials_[static_cast<std::size_t>(index)];
      if (trial.place == Place::kWaiting && trial.rung == rung) return index;
    }
  }
  return std::nullopt;
}

std::vector<TrialAtRung> BayesianSearcher::TrialsIn(Place place) const {
  std::vector<TrialAtRung> trials;
  for (const TrialIndex index :
       place == Place::kTraining ? training_ : waiting_) {
    trials.push_back({index, trials_[static_cast<std::size_t>(index)].rung});
  }
  return trials;
}

bool BayesianSearcher::MayCreate() const {
  return roster_.created() - roster_.invalid() < max_trials_;
}

// Creates a trial with the next point of the configuration, or at random. False
// if everything has been tried.
bool BayesianSearcher::Create(std::vector<Operation>& operations) {
  if (roster_.HasPoint()) {
    (void)roster_.Create(operations);
    const auto& created = std::get<dtrain::Create>(operations.back());
    Start(operations, space_.Encode(created.hparams));
    return true;
  }
  Point point = space_.Draw(roster_.rng());
  // Without hyperparameters all trials are equal, as the user has asked.
  for (int i = 0; space_.dimensions() > 0 && model_.HasPoint(point); ++i) {
    if (i == kRedraws) return false;
    point = space_.Draw(roster_.rng());
  }
  CreateAt(std::move(point), operations);
  return true;
}

void BayesianSearcher::CreateAt(Point point,
                                std::vector<Operation>& operations) {
  (void)roster_.Create(space_.Decode(point), operations);
  Start(operations, std::move(point));
}

// Trains the trial that was created last to the lowest rung.
void BayesianSearcher::Start(std::vector<Operation>& operations, Point point) {
  const TrialIndex index = roster_.created() - 1;
  model_.AddTrial(std::move(point));
  trials_.emplace_back();
  training_.insert(index);
  assigned_ += lengths_.front();
  operations.push_back(ValidateAfter{index, lengths_.front()});
}

void BayesianSearcher::Promote(TrialIndex index,
                               std::vector<Operation>& operations) {
  Trial& trial = At(index);
  ++trial.rung;
  trial.place = Place::kTraining;
  waiting_.erase(index);
  training_.insert(index);
  assigned_ += LengthTo(trial.rung);
  operations.push_back(
      ValidateAfter{index, lengths_[static_cast<std::size_t>(trial.rung)]});
}

void BayesianSearcher::Close(TrialIndex index,
                             std::vector<Operation>& operations) {
  At(index).place = Place::kClosed;
  operations.push_back(dtrain::Close{index});
}

void BayesianSearcher::CloseWaiting(std::vector<Operation>& operations) {
  for (const TrialIndex index : std::exchange(waiting_, {})) {
    Close(index, operations);
  }
}

bool BayesianSearcher::IsBudgetSpent() const {
  return (budget_ > 0 && assigned_ >= budget_) ||
         (budget_seconds_ > 0 && seconds_ >= budget_seconds_);
}

// Length from one rung to the next.
std::int64_t BayesianSearcher::LengthTo(int rung) const {
  const auto at = static_cast<std::size_t>(rung);
  return rung == 0 ? lengths_[0] : lengths_[at] - lengths_[at - 1];
}

void BayesianSearcher::UpdateProgress(bool over) {
  double done = 0;
  if (budget_seconds_ > 0) {
    done = seconds_ / budget_seconds_;
  } else if (budget_ > 0) {
    done = static_cast<double>(trained_) / static_cast<double>(budget_);
  }
  progress_ = over ? 1 : std::clamp(done, progress_, 1.0);
}

std::vector<Searcher::Expectation> BayesianSearcher::FindExpectations() {
  if (IsHalvingDecision(/*number=*/1)) return {};
  auto expectations = model_.PredictTop();
  if (smaller_is_better_) return expectations;
  for (Expectation& one : expectations) one.mean = -one.mean;
  return expectations;
}

nlohmann::json BayesianSearcher::Save() const {
  nlohmann::json places = nlohmann::json::array();
  for (const Trial& trial : trials_) {
    places.push_back({trial.rung, static_cast<int>(trial.place), trial.length,
                      trial.exited, trial.ended});
  }
  nlohmann::json results = nlohmann::json::array();
  for (const auto& rung : results_) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& [value, index] : rung) rows.push_back({value, index});
    results.push_back(std::move(rows));
  }
  return {{"trials", roster_.Save()},
          {"model", model_.Save()},
          {"places", places},
          {"results", results},
          {"places_at_once", places_},
          {"max_trials", max_trials_},
          {"planned", planned_},
          {"budget", budget_},
          {"budget_seconds", budget_seconds_},
          {"decisions", decisions_},
          {"assigned", assigned_},
          {"trained", trained_},
          {"seconds", seconds_},
          {"finished", finished_},
          {"progress", progress_}};
}

void BayesianSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    model_.Load(state.at("model"));
    max_trials_ = state.at("max_trials");
    planned_ = state.value("planned", planned_);
    config_.max_trials = planned_;
    places_ = state.value("places_at_once", places_);
    budget_ = state.value("budget", budget_);
    budget_seconds_ = state.value("budget_seconds", budget_seconds_);
    decisions_ = state.at("decisions");
    assigned_ = state.at("assigned");
    trained_ = state.at("trained");
    seconds_ = state.at("seconds");
    finished_ = state.at("finished");
    progress_ = state.at("progress");
    LoadTrials(state);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

void BayesianSearcher::LoadTrials(const nlohmann::json& state) {
  trials_.clear();
  training_.clear();
  waiting_.clear();
  for (const nlohmann::json& row : state.at("places")) {
    const auto index = static_cast<TrialIndex>(trials_.size());
    const auto place = static_cast<Place>(row.at(1).get<int>());
    // Snapshots before 0.2.0 lack how a trial ended.
    const bool is_known = row.size() > 3;
    trials_.push_back(
        {.rung = row.at(0),
         .place = place,
         .length = row.at(2),
         .exited = is_known && row.at(3).get<bool>(),
         .ended = is_known ? row.at(4).get<bool>() : place == Place::kClosed});
    if (place == Place::kTraining) training_.insert(index);
    if (place == Place::kWaiting) waiting_.insert(index);
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    results_[i].clear();
    for (const nlohmann::json& row : state.at("results").at(i)) {
      results_[i].emplace(row.at(0).get<double>(), row.at(1).get<TrialIndex>());
    }
  }
}

}  // namespace

std::unique_ptr<Searcher> MakeBayesianSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<BayesianSearcher>(config, hyperparameters, seed);
}

}  // namespace dtrain
