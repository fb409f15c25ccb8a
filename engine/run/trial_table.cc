#include "engine/run/trial_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace dtrain {

void StartQueue::Add(std::int64_t turn, std::int64_t trial) {
  if (!put_off_.contains(trial)) waiting_.emplace(turn, trial);
}

void StartQueue::PutOff(Duration when, std::int64_t turn, std::int64_t trial,
                        bool keeps_slot) {
  assert(!waiting_.contains({turn, trial}) && "it waits already");
  if (!put_off_.insert(trial).second) return;
  later_.emplace(when, Place(turn, trial));
  if (keeps_slot) held_.insert(trial);
}

void StartQueue::Wake(Duration now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    const Place place = later_.begin()->second;
    later_.erase(later_.begin());
    put_off_.erase(place.second);
    held_.erase(place.second);
    waiting_.insert(place);
  }
}

std::optional<Duration> StartQueue::next_wake() const {
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

std::int64_t StartQueue::Pop() {
  assert(!waiting_.empty() && "nobody waits");
  const std::int64_t trial = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  return trial;
}

void StartQueue::Clear() {
  waiting_.clear();
  later_.clear();
  put_off_.clear();
  held_.clear();
}

TrialState* TrialTable::Add(TrialRow row) {
  ++created_;
  if (IsFinal(row.state)) {
    CountEnd(row.state);
    return nullptr;
  }
  auto trial = std::make_unique<TrialState>();
  trial->row = std::move(row);
  const std::int64_t number = trial->row.id.number;
  return trials_.emplace(number, std::move(trial)).first->second.get();
}

TrialState* TrialTable::Find(std::int64_t number) {
  const auto found = trials_.find(number);
  return found == trials_.end() ? nullptr : found->second.get();
}

void TrialTable::Take(const Event& event) {
  if (const auto* done = std::get_if<ValidationCompleted>(&event)) {
    TrialState* trial = Find(done->trial + 1);
    const auto length = static_cast<double>(done->length);
    if (trial == nullptr) {
      double& before = replayed_[done->trial + 1];
      const double more = std::max(length - before, 0.0);
      before += more;
      trained_length_ += more;
      ended_length_ += more;
      return;
    }
    Reach(*trial, length);
    trial->completed.push_back(done->length);
    ++trial->row.rung;
    if (trial->has_work()) trial->operations.erase(trial->operations.begin());
    if (trial->process) trial->process->operation_sent = false;
    if (!std::isfinite(done->metric)) trial->bad_metric = done->metric;
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    if (TrialState* trial = Find(early->trial + 1)) {
      trial->exit_told = true;
      trial->close_requested = true;
      trial->operations.clear();
    }
  }
}

TrialState* TrialTable::Give(const Event& cause, const Operation& operation) {
  if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
    TrialState* trial = Find(more->trial + 1);
    if (trial == nullptr || trial->exit_told) return nullptr;
    // Who goes on at once keeps its slot, and so its place in the queue: after
    // a crash it must not find itself behind those that waited.
    const auto* done = std::get_if<ValidationCompleted>(&cause);
    const bool goes_on = done != nullptr && done->trial == more->trial;
    if (!trial->has_work() && !goes_on) trial->turn = ++turns_;
    trial->operations.push_back(more->length);
    return trial;
  }
  if (const auto* close = std::get_if<Close>(&operation)) {
    TrialState* trial = Find(close->trial + 1);
    if (trial != nullptr) trial->close_requested = true;
    return trial;
  }
  return nullptr;
}

void TrialTable::Reach(TrialState& trial, double length) {
  if (!(length > trial.reached)) return;
  trained_length_ += length - trial.reached;
  trial.reached = length;
}

void TrialTable::CountEnd(State state) {
  ++ended_;
  if (state == State::kCompleted || state == State::kStopped) ++finished_;
  if (state == State::kCanceled) ++killed_;
}

void TrialTable::StartProcess(TrialState& trial) {
  assert(!trial.process && "it has one");
  trial.process = std::make_unique<ProcessState>();
  live_.emplace(trial.row.id.number, &trial);
}

std::unique_ptr<ProcessState> TrialTable::EndProcess(TrialState& trial) {
  live_.erase(trial.row.id.number);
  return std::move(trial.process);
}

void TrialTable::End(TrialState& trial) {
  assert(!trial.process && "its process has ended before");
  trial.ended = true;
  CountEnd(trial.row.state);
  ended_length_ += trial.reached;
  const auto found = trials_.find(trial.row.id.number);
  swept_.push_back(std::move(found->second));
  trials_.erase(found);
}

}  // namespace dtrain
