#include "searchers/rung.h"

#include <algorithm>
#include <iterator>

namespace dtrain {

std::size_t Rung::BestOf(std::size_t results) const {
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

// Moves results over the border until the best are as many as they should be.
void Rung::FitBest() {
  const std::size_t wanted = BestOf(results_.size());
  while (best_.size() > wanted) {
    rest_.insert(best_.extract(std::prev(best_.end())));
  }
  while (best_.size() < wanted) best_.insert(rest_.extract(rest_.begin()));
}

Rung::Insertion Rung::Insert(TrialIndex trial, double metric, bool waits) {
  ++inserted_;
  const Key key{metric, rule_ == Rule::kPromotion ? inserted_ : -inserted_,
                trial};
  results_[trial] = {.key = key};
  if (waits) waiting_.insert(key);
  const std::size_t before = best_.size();
  Place(key);
  const bool grows = BestOf(results_.size()) > before;
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

std::vector<TrialIndex> Rung::TakeWaiting() {
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
