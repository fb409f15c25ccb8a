// Determined's variant of ASHA, reproduced decision by decision; the comments
// name the places where dtrain differs (docs/decisions, 9). A trial trains to
// the length of its rung and reports a result there. With promotion, each new
// result may enlarge the set of the best by one: the trial that enters the set,
// which need not be the one that reported, trains to the next rung. If there is
// none, a new trial is created instead, until there are `max_trials`.
//
// Rung keeps the results of one rung sorted and answers who is among the best;
// AshaBracket decides with it what a trial does next; HalvingSearcher
// distributes events among brackets, all of which draw from one TrialRoster.
//
// `rules_` is the version of the rules that the experiment was created with.
// Old ones stay, because a stored search is replayed event by event after a
// crash and must decide as it did.

#include "searchers/halving_searcher.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "engine/base/metric_order.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"

namespace dtrain {

HalvingSearcher::HalvingSearcher(const SearcherConfig& config,
                                 const nlohmann::json& hyperparameters,
                                 std::uint32_t seed)
    : config_(config), roster_(hyperparameters, config, seed) {
  const auto method = config.stop_once ? AshaBracket::Method::kStopping
                                       : AshaBracket::Method::kPromotion;
  for (const Bracket& bracket : PlanBrackets(config)) {
    brackets_.emplace_back(bracket, config.divisor, method, config.rules);
  }
}

std::vector<Operation> HalvingSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  Dispatch(event, operations);
  CreateDue(operations);
  const bool grows = std::get_if<Extended>(&event) != nullptr ||
                     std::get_if<Retried>(&event) != nullptr;
  if (grows) progress_ = 0;
  const bool may_be_over = grows || std::get_if<Closed>(&event) != nullptr ||
                           std::get_if<ExitedEarly>(&event) != nullptr;
  UpdateProgress(may_be_over && roster_.ShutDownIfOver(operations));
  return operations;
}

void HalvingSearcher::Dispatch(const Event& event,
                               std::vector<Operation>& operations) {
  if (std::get_if<Started>(&event)) {
    for (std::size_t i = 0; i < brackets_.size(); ++i) {
      brackets_[i].Start(roster_);
      AssignNewTrials(i);
    }
  } else if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    GetBracket(done->trial)
        .Complete(done->trial, RankKey(done->metric, config_.smaller_is_better),
                  roster_, operations);
    AssignNewTrials(bracket_of_[static_cast<std::size_t>(done->trial)]);
  } else if (const auto* closed = std::get_if<Closed>(&event)) {
    roster_.End(std::nullopt);
    GetBracket(closed->trial).End(closed->trial);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    roster_.End(early->reason);
    GetBracket(early->trial)
        .Exit(early->trial, early->reason, roster_, operations);
    AssignNewTrials(bracket_of_[static_cast<std::size_t>(early->trial)]);
  } else if (const auto* added = std::get_if<PlacesAdded>(&event)) {
    roster_.CreateAhead(added->ahead);
  } else if (const auto* extended = std::get_if<Extended>(&event)) {
    Extend(*extended, operations);
  } else if (const auto* retried = std::get_if<Retried>(&event)) {
    Retry(*retried, operations);
  }
}

void HalvingSearcher::Extend(const Extended& event,
                             std::vector<Operation>& operations) {
  const std::set<TrialIndex> lost(event.lost.begin(), event.lost.end());
  auto plan = PlanBrackets(ExtendPlan(config_, event.max_trials));
  // By its share of a larger number a bracket may get fewer trials than it has,
  // since the first one gets what is left over. The others get fewer then.
  std::int64_t too_many = 0;
  for (std::size_t i = 0; i < brackets_.size(); ++i) {
    const std::int64_t planned = brackets_[i].planned();
    too_many += std::max<std::int64_t>(planned - plan[i].max_trials, 0);
    plan[i].max_trials = std::max(plan[i].max_trials, planned);
  }
  for (std::size_t i = 0; i < brackets_.size(); ++i) {
    const std::int64_t more = plan[i].max_trials - brackets_[i].planned();
    const std::int64_t less = std::min(more, too_many);
    plan[i].max_trials -= less;
    too_many -= less;
  }
  for (std::size_t i = 0; i < brackets_.size(); ++i) {
    brackets_[i].ReopenWaiting(lost, roster_, operations);
    brackets_[i].Extend(plan[i], roster_, operations);
    AssignNewTrials(i);
  }
}

void HalvingSearcher::Retry(const Retried& event,
                            std::vector<Operation>& operations) {
  const std::set<TrialIndex> lost(event.lost.begin(), event.lost.end());
  for (AshaBracket& bracket : brackets_) {
    bracket.ReopenWaiting(lost, roster_, operations);
  }
  for (const auto& [trial, length, exit] : event.trials) {
    GetBracket(trial).Retry(trial, length, roster_, operations);
  }
  for (AshaBracket& bracket : brackets_) bracket.CloseFinishedRungs(operations);
}

// `open` is the number of created trials without a result at the lowest rung.
// The brackets count deferred ones as well, so these are taken off.
void HalvingSearcher::CreateDue(std::vector<Operation>& operations) {
  std::int64_t open = -roster_.deferred();
  for (const AshaBracket& bracket : brackets_) open += bracket.open();
  for (; roster_.IsDue(open); ++open) {
    GetBracket(roster_.next()).Create(roster_, operations);
  }
}

AshaBracket& HalvingSearcher::GetBracket(TrialIndex trial) {
  return brackets_[bracket_of_.at(static_cast<std::size_t>(trial))];
}

// Assigns the trials added since the last call to this bracket.
void HalvingSearcher::AssignNewTrials(std::size_t bracket) {
  bracket_of_.resize(static_cast<std::size_t>(roster_.created()),
                     static_cast<std::uint32_t>(bracket));
}

void HalvingSearcher::UpdateProgress(bool over) {
  double sum = 0;
  for (const AshaBracket& bracket : brackets_) sum += bracket.Progress();
  const double mean = sum / static_cast<double>(brackets_.size());
  progress_ = over ? 1 : std::max(progress_, std::min(mean, 1.0));
}

nlohmann::json HalvingSearcher::Save() const {
  nlohmann::json brackets = nlohmann::json::array();
  for (const AshaBracket& bracket : brackets_) {
    brackets.push_back(bracket.Save());
  }
  return {{"trials", roster_.Save()},
          {"brackets", std::move(brackets)},
          {"bracket_of", bracket_of_},
          {"progress", progress_}};
}

void HalvingSearcher::Load(const nlohmann::json& state) {
  try {
    roster_.Load(state.at("trials"));
    for (std::size_t i = 0; i < brackets_.size(); ++i) {
      brackets_[i].Load(state.at("brackets").at(i));
    }
    bracket_of_ = state.at("bracket_of").get<std::vector<std::uint32_t>>();
    progress_ = state.at("progress");
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

std::unique_ptr<Searcher> MakeHalvingSearcher(
    const SearcherConfig& config, const nlohmann::json& hyperparameters,
    std::uint32_t seed) {
  return std::make_unique<HalvingSearcher>(config, hyperparameters, seed);
}

AshaBracket::AshaBracket(const Bracket& bracket, double divisor, Method method,
                         std::int64_t rules)
    : method_(method),
      rules_(rules),
      divisor_(divisor),
      planned_(bracket.max_trials),
      max_trials_(bracket.max_trials),
      at_start_(TrialsAtStart(bracket, divisor)),
      lengths_(bracket.rungs),
      rungs_(bracket.rungs.size(), Rung(divisor, method == Method::kPromotion
                                                     ? Rung::Rule::kPromotion
                                                     : Rung::Rule::kStopping)),
      outstanding_(bracket.rungs.size(), 0) {}

void AshaBracket::Start(TrialRoster& roster) { Add(at_start_, roster); }

void AshaBracket::Add(std::int64_t trials, TrialRoster& roster) {
  roster.Defer(trials);
  created_ += trials;
  outstanding_.front() += trials;
}

void AshaBracket::Create(TrialRoster& roster,
                         std::vector<Operation>& operations) {
  const TrialIndex trial = roster.Create(operations);
  trials_[trial] = {};
  operations.push_back(ValidateAfter{trial, lengths_.front()});
}

void AshaBracket::Complete(TrialIndex trial, double metric, TrialRoster& roster,
                           std::vector<Operation>& operations) {
  const TrialPlace& place = trials_.at(trial);
  if (!place.training || place.closed) return;
  Settle(trial, metric, roster, operations);
}

void AshaBracket::Settle(TrialIndex trial, double metric, TrialRoster& roster,
                         std::vector<Operation>& operations) {
  bool training = false;
  // An exited trial that is promoted gets the worst result at its next rung
  // too, which may promote another trial there.
  while (const auto next = Advance(trial, metric, operations)) {
    TrialPlace& place = trials_.at(*next);
    ++place.rung;
    place.training = true;
    ++outstanding_[place.rung];
    if (!place.exited) {
      operations.push_back(
          ValidateAfter{*next, lengths_[place.rung], roster.deferred()});
      training = true;
      break;
    }
    trial = *next;
    metric = Rung::kWorst;
  }
  if (!training && created_ < max_trials_) Add(1, roster);
  CloseFinishedRungs(operations);
}

// True if a trial with this result may train to the next rung. Rules 1 let a
// NaN pass if too few results were better, and with stopping a trial that
// exited counted in the rungs above its own, too.
bool AshaBracket::MayPass(const TrialPlace& place, double metric) const {
  if (rules_ < 2) return true;
  const bool leaves = place.exited && method_ == Method::kStopping;
  return std::isfinite(metric) && !leaves;
}

// Adds a result and returns the trial that trains to the next rung, if any.
std::optional<TrialIndex> AshaBracket::Advance(
    TrialIndex trial, double metric, std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  Rung& rung = rungs_[place.rung];
  --outstanding_[place.rung];
  place.training = false;
  const bool top = place.rung + 1 == rungs_.size();
  const bool promotion = method_ == Method::kPromotion;
  const bool passes = !top && MayPass(place, metric);
  const auto [among_best, risen] =
      rung.Insert(trial, std::isfinite(metric) ? metric : Rung::kWorst,
                  promotion && passes && !place.exited);
  // The new result is itself among the best: with stopping this is the only way
  // up, with promotion the trial continues without a pause.
  if (passes && among_best) {
    rung.Promote(trial);
    return trial;
  }
  if (!passes || !promotion) CloseTrial(trial, operations);
  // Otherwise the number of the best may have grown by one, and the trial that
  // entered them need not be this one.
  if (top || !promotion) return std::nullopt;
  // A closed trial can become one of the best if an invalid one was removed;
  // Determined promotes it and hangs.
  const bool closed =
      risen && trials_.at(*risen).closed && !trials_.at(*risen).exited;
  if (!risen || rung.promoted(*risen) || closed) return std::nullopt;
  rung.Promote(*risen);
  return risen;
}

void AshaBracket::CloseTrial(TrialIndex trial,
                             std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  if (place.closed) return;
  place.closed = true;
  operations.push_back(Close{trial});
}

void AshaBracket::CloseFinishedRungs(std::vector<Operation>& operations) {
  if (method_ != Method::kPromotion || rungs_.front().size() < max_trials_) {
    return;
  }
  for (std::size_t i = 0; i < rungs_.size() && outstanding_[i] == 0; ++i) {
    for (const TrialIndex trial : rungs_[i].DrainWaiting()) {
      CloseTrial(trial, operations);
    }
  }
}

void AshaBracket::End(TrialIndex trial) {
  TrialPlace& place = trials_.at(trial);
  place.closed = place.ended = true;
  ++ended_;
}

void AshaBracket::Extend(const Bracket& plan, TrialRoster& roster,
                         std::vector<Operation>& operations) {
  max_trials_ += plan.max_trials - planned_;
  planned_ = plan.max_trials;
  // As many train at once as at the start of a search of this size.
  std::int64_t training = 0;
  for (const std::int64_t trials : outstanding_) training += trials;
  const std::int64_t more = std::min(TrialsAtStart(plan, divisor_) - training,
                                     max_trials_ - created_);
  if (more > 0) Add(more, roster);
  CloseFinishedRungs(operations);
}

// A trial whose Close was not executed yet is left alone.
void AshaBracket::ReopenWaiting(const std::set<TrialIndex>& lost,
                                TrialRoster& roster,
                                std::vector<Operation>& operations) {
  if (method_ != Method::kPromotion) return;
  for (std::size_t i = 0; i + 1 < rungs_.size(); ++i) {
    for (const TrialIndex trial : rungs_[i].Trials()) {
      TrialPlace& place = trials_.at(trial);
      if (place.rung != i || place.training || place.exited || !place.ended ||
          lost.contains(trial) || !rungs_[i].Wait(trial)) {
        continue;
      }
      place.closed = place.ended = false;
      --ended_;
      roster.Reopen(trial, std::nullopt, operations);
    }
  }
}

// Removes the worst results that the failure was given, from the rung that the
// trial now trains to and from all higher ones.
void AshaBracket::Retry(TrialIndex trial, std::int64_t length,
                        TrialRoster& roster,
                        std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  place.exited = place.closed = place.ended = false;
  --ended_;
  roster.Reopen(trial, ExitReason::kErrored, operations);
  const auto next = static_cast<std::size_t>(
      std::ranges::upper_bound(lengths_, length) - lengths_.begin());
  if (next > place.rung) {
    const bool top = place.rung + 1 == rungs_.size();
    if (top || method_ == Method::kStopping ||
        !rungs_[place.rung].Wait(trial)) {
      CloseTrial(trial, operations);
    }
    return;
  }
  for (std::size_t i = next; i <= place.rung; ++i) rungs_[i].Remove(trial);
  place.rung = next;
  place.training = true;
  ++outstanding_[next];
  operations.push_back(ValidateAfter{trial, lengths_[next], roster.deferred()});
}

void AshaBracket::Exit(TrialIndex trial, ExitReason reason, TrialRoster& roster,
                       std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  const bool was_closed = place.closed;
  place.exited = place.closed = place.ended = true;
  if (reason == ExitReason::kInvalidHp && !was_closed) {
    return Remove(trial, roster, operations);
  }
  ++ended_;
  if (was_closed) return;
  // The rung still waits for a result of the trial. The worst one keeps the
  // counts right, so that the others are promoted as planned.
  if (place.training) return Settle(trial, Rung::kWorst, roster, operations);
  // A waiting trial keeps its result, but cannot be promoted.
  rungs_[place.rung].StopWaiting(trial);
}

void AshaBracket::Remove(TrialIndex trial, TrialRoster& roster,
                         std::vector<Operation>& operations) {
  const TrialPlace& place = trials_.at(trial);
  if (place.training) --outstanding_[place.rung];
  // The trial leaves every rung that it has passed, as if it had never been
  // created. Its removal may shrink the best of a rung, but takes no promotion
  // back.
  for (std::size_t i = 0; i <= place.rung; ++i) rungs_[i].Remove(trial);
  --created_;
  if (!roster.MayReplace()) --max_trials_;
  if (created_ < max_trials_) Add(1, roster);
  CloseFinishedRungs(operations);
}

double AshaBracket::Progress() const {
  const auto of_all = [this](std::int64_t trials) {
    return static_cast<double>(trials) /
           static_cast<double>(std::max<std::int64_t>(max_trials_, 1));
  };
  // The higher rungs are estimated at a fifth of the cost of the lowest one.
  const double seen = of_all(rungs_.front().size()) / 1.2;
  if (rungs_.front().size() < max_trials_) return seen;
  return std::max(seen, of_all(ended_));
}

nlohmann::json AshaBracket::Save() const {
  nlohmann::json rungs = nlohmann::json::array();
  for (const Rung& rung : rungs_) rungs.push_back(rung.Save());
  nlohmann::json trials = nlohmann::json::array();
  for (const auto& [trial, place] : trials_) {
    trials.push_back({trial, place.rung, place.training, place.exited,
                      place.closed, place.ended});
  }
  // Sorted, so that equal states are saved identically.
  std::sort(trials.begin(), trials.end());
  return {{"max_trials", max_trials_},
          {"planned", planned_},
          {"rungs", std::move(rungs)},
          {"outstanding", outstanding_},
          {"trials", std::move(trials)},
          {"created", created_},
          {"ended", ended_}};
}

void AshaBracket::Load(const nlohmann::json& state) {
  max_trials_ = state.at("max_trials");
  planned_ = state.value("planned", planned_);
  for (std::size_t i = 0; i < rungs_.size(); ++i) {
    rungs_[i].Load(state.at("rungs").at(i));
    outstanding_[i] = state.at("outstanding").at(i);
  }
  trials_.clear();
  for (const nlohmann::json& row : state.at("trials")) {
    trials_[row.at(0)] = {.rung = row.at(1),
                          .training = row.at(2),
                          .exited = row.at(3),
                          .closed = row.at(4),
                          // Added in 0.2.0.
                          .ended = row.size() > 5 ? row.at(5) : row.at(4)};
  }
  created_ = state.at("created");
  ended_ = state.at("ended");
}

std::size_t Rung::BestCount(std::size_t results) const {
  if (results == 0) return 0;
  const auto best =
      static_cast<std::size_t>(static_cast<double>(results) / divisor_);
  return rule_ == Rule::kStopping ? std::max<std::size_t>(best, 1) : best;
}

void Rung::Place(const Key& key) {
  if (!best_.empty() && key < *best_.rbegin()) {
    best_.insert(key);
  } else {
    rest_.insert(key);
  }
}

// Moves results between the sets until `best_` has the required size.
void Rung::FitBest() {
  const std::size_t best_count = BestCount(results_.size());
  while (best_.size() > best_count) {
    rest_.insert(best_.extract(std::prev(best_.end())));
  }
  while (best_.size() < best_count) best_.insert(rest_.extract(rest_.begin()));
}

Rung::Insertion Rung::Insert(TrialIndex trial, double metric, bool waits) {
  ++inserted_;
  // Equal results are ordered by their arrival: with promotion the earlier one
  // is the better, with stopping the later one.
  const Key key{metric, rule_ == Rule::kPromotion ? inserted_ : -inserted_,
                trial};
  results_[trial] = {.key = key};
  if (waits) waiting_.insert(key);
  const std::size_t before = best_.size();
  Place(key);
  const bool grows = BestCount(results_.size()) > before;
  FitBest();
  Insertion insertion;
  insertion.among_best = best_.contains(key);
  if (grows && !insertion.among_best) {
    insertion.risen = best_.rbegin()->trial;
  }
  return insertion;
}

void Rung::Remove(TrialIndex trial) {
  const auto found = results_.find(trial);
  if (found == results_.end()) return;
  const Key key = found->second.key;
  results_.erase(found);
  best_.erase(key);
  rest_.erase(key);
  waiting_.erase(key);
  FitBest();
}

void Rung::Promote(TrialIndex trial) {
  results_.at(trial).promoted = true;
  StopWaiting(trial);
}

void Rung::StopWaiting(TrialIndex trial) {
  waiting_.erase(results_.at(trial).key);
}

bool Rung::Wait(TrialIndex trial) {
  const Result& result = results_.at(trial);
  if (result.promoted || result.key.metric == kWorst) return false;
  waiting_.insert(result.key);
  return true;
}

std::vector<TrialIndex> Rung::Trials() const {
  std::vector<TrialIndex> trials;
  for (const std::set<Key>* part : {&best_, &rest_}) {
    for (const Key& key : *part) trials.push_back(key.trial);
  }
  return trials;
}

std::vector<TrialIndex> Rung::DrainWaiting() {
  std::vector<TrialIndex> trials;
  for (const Key& key : waiting_) trials.push_back(key.trial);
  waiting_.clear();
  return trials;
}

nlohmann::json Rung::Save() const {
  nlohmann::json results = nlohmann::json::array();
  for (const std::set<Key>* part : {&best_, &rest_}) {
    for (const Key& key : *part) {
      results.push_back({key.metric, key.order, key.trial, promoted(key.trial),
                         waiting_.contains(key)});
    }
  }
  return {{"inserted", inserted_}, {"results", std::move(results)}};
}

void Rung::Load(const nlohmann::json& state) {
  inserted_ = state.at("inserted");
  best_.clear();
  rest_.clear();
  waiting_.clear();
  results_.clear();
  for (const nlohmann::json& row : state.at("results")) {
    const Key key{row.at(0), row.at(1), row.at(2)};
    results_[key.trial] = {.key = key, .promoted = row.at(3)};
    rest_.insert(key);
    if (row.at(4).get<bool>()) waiting_.insert(key);
  }
  FitBest();
}

}  // namespace dtrain
