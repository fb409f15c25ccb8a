#include "searchers/asha_bracket.h"

#include <algorithm>
#include <cmath>

namespace dtrain {
AshaBracket::AshaBracket(const Bracket& bracket, double divisor, Method method)
    : method_(method),
      max_trials_(bracket.max_trials),
      at_start_(TrialsAtStart(bracket, divisor)),
      lengths_(bracket.rungs),
      rungs_(bracket.rungs.size(), Rung(divisor, method == Method::kPromotion
                                                     ? Rung::Rule::kPromotion
                                                     : Rung::Rule::kStopping)),
      outstanding_(bracket.rungs.size(), 0) {}

void AshaBracket::Start(TrialRoster& roster,
                        std::vector<Operation>& operations) {
  for (std::int64_t i = 0; i < at_start_; ++i) CreateTrial(roster, operations);
}

void AshaBracket::CreateTrial(TrialRoster& roster,
                              std::vector<Operation>& operations) {
  const TrialIndex trial = roster.Create(operations);
  trials_[trial] = {};
  ++created_;
  ++outstanding_.front();
  operations.push_back(ValidateAfter{trial, lengths_.front()});
}

void AshaBracket::Complete(TrialIndex trial, double metric, TrialRoster& roster,
                           std::vector<Operation>& operations) {
  const TrialPlace& place = trials_.at(trial);
  if (!place.training || place.closed) return;
  Settle(trial, std::isfinite(metric) ? metric : Rung::kWorst, roster,
         operations);
}

void AshaBracket::Settle(TrialIndex trial, double metric, TrialRoster& roster,
                         std::vector<Operation>& operations) {
  bool training = false;
  // A trial that has exited and is promoted gets the worst result at its next
  // rung too, which may promote another there.
  while (const auto next = Advance(trial, metric, operations)) {
    TrialPlace& place = trials_.at(*next);
    ++place.rung;
    place.training = true;
    ++outstanding_[place.rung];
    if (!place.exited) {
      operations.push_back(ValidateAfter{*next, lengths_[place.rung]});
      training = true;
      break;
    }
    trial = *next;
    metric = Rung::kWorst;
  }
  if (!training && created_ < max_trials_) CreateTrial(roster, operations);
  CloseFinishedRungs(operations);
}

// Enters a result and gives the trial that goes on to the next rung, if any.
std::optional<TrialIndex> AshaBracket::Advance(
    TrialIndex trial, double metric, std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  Rung& rung = rungs_[place.rung];
  --outstanding_[place.rung];
  place.training = false;
  const bool top = place.rung + 1 == rungs_.size();
  const bool promotion = method_ == Method::kPromotion;
  const auto [among_best, risen] =
      rung.Insert(trial, metric, promotion && !top && !place.exited);
  if (!top && among_best) {
    rung.Promote(trial);
    return trial;
  }
  if (top || !promotion) {
    CloseTrial(trial, operations);
    return std::nullopt;
  }
  // A closed trial can have risen if an invalid one left its rung.
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

// Once the bottom rung is full, trials that wait in a rung to which no more
// results can come are closed.
void AshaBracket::CloseFinishedRungs(std::vector<Operation>& operations) {
  if (method_ != Method::kPromotion || rungs_.front().size() < max_trials_) {
    return;
  }
  for (std::size_t i = 0; i < rungs_.size() && outstanding_[i] == 0; ++i) {
    for (const TrialIndex trial : rungs_[i].TakeWaiting()) {
      CloseTrial(trial, operations);
    }
  }
}

void AshaBracket::End(TrialIndex trial) {
  trials_.at(trial).closed = true;
  ++ended_;
}

void AshaBracket::Exit(TrialIndex trial, ExitReason reason, TrialRoster& roster,
                       std::vector<Operation>& operations) {
  TrialPlace& place = trials_.at(trial);
  const bool was_closed = place.closed;
  place.exited = place.closed = true;
  if (reason == ExitReason::kInvalidHp && !was_closed) {
    return Remove(trial, roster, operations);
  }
  ++ended_;
  if (was_closed) return;
  if (place.training) return Settle(trial, Rung::kWorst, roster, operations);
  // It waited: its result stands, but it cannot go on.
  rungs_[place.rung].StopWaiting(trial);
}

void AshaBracket::Remove(TrialIndex trial, TrialRoster& roster,
                         std::vector<Operation>& operations) {
  const TrialPlace& place = trials_.at(trial);
  if (place.training) --outstanding_[place.rung];
  for (std::size_t i = 0; i <= place.rung; ++i) rungs_[i].Remove(trial);
  --created_;
  if (!roster.MayReplace()) --max_trials_;
  if (created_ < max_trials_) CreateTrial(roster, operations);
  CloseFinishedRungs(operations);
}

double AshaBracket::Progress() const {
  const auto of_all = [this](std::int64_t trials) {
    return static_cast<double>(trials) /
           static_cast<double>(std::max<std::int64_t>(max_trials_, 1));
  };
  // What comes after the bottom rung is taken to cost a fifth of it.
  const double seen = of_all(rungs_.front().size()) / 1.2;
  if (rungs_.front().size() < max_trials_) return seen;
  return std::max(seen, of_all(ended_));
}

nlohmann::json AshaBracket::Save() const {
  nlohmann::json rungs = nlohmann::json::array();
  for (const Rung& rung : rungs_) rungs.push_back(rung.Save());
  nlohmann::json trials = nlohmann::json::array();
  for (const auto& [trial, place] : trials_) {
    trials.push_back(
        {trial, place.rung, place.training, place.exited, place.closed});
  }
  // In order, so that equal states are saved alike.
  std::sort(trials.begin(), trials.end());
  return {{"max_trials", max_trials_},   {"rungs", std::move(rungs)},
          {"outstanding", outstanding_}, {"trials", std::move(trials)},
          {"created", created_},         {"ended", ended_}};
}

void AshaBracket::Load(const nlohmann::json& state) {
  max_trials_ = state.at("max_trials");
  for (std::size_t i = 0; i < rungs_.size(); ++i) {
    rungs_[i].Load(state.at("rungs").at(i));
    outstanding_[i] = state.at("outstanding").at(i);
  }
  trials_.clear();
  for (const nlohmann::json& row : state.at("trials")) {
    trials_[row.at(0)] = {.rung = row.at(1),
                          .training = row.at(2),
                          .exited = row.at(3),
                          .closed = row.at(4)};
  }
  created_ = state.at("created");
  ended_ = state.at("ended");
}

}  // namespace dtrain
