#include "engine/run/trial_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace dtrain {

EarlierValues::EarlierValues(std::int64_t from, std::int64_t last)
    : from_(from), last_(last > from ? last : 0), passed_{from + 1, from + 1} {}

std::optional<BatchRange> EarlierValues::Pass(MetricKind kind,
                                              std::int64_t batches) {
  std::int64_t& passed = passed_.at(static_cast<std::size_t>(kind));
  if (last_ < passed || batches <= passed) return std::nullopt;
  return BatchRange{.from = std::exchange(passed, batches), .until = batches};
}

std::optional<BatchRange> EarlierValues::PassAll() {
  if (empty()) return std::nullopt;
  last_ = 0;
  return BatchRange{.from = from_ + 1,
                    .until = std::numeric_limits<std::int64_t>::max()};
}

void StartQueue::Add(std::int64_t turn, std::int64_t trial) {
  if (!delayed_.contains(trial)) pending_.emplace(turn, trial);
}

void StartQueue::Delay(Duration when, std::int64_t turn, std::int64_t trial,
                       bool keeps_slot) {
  assert(!pending_.contains({turn, trial}) && "it is pending already");
  if (!delayed_.insert(trial).second) return;
  later_.emplace(when, Place(turn, trial));
  if (keeps_slot) held_.insert(trial);
}

void StartQueue::Wake(Duration now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    const Place place = later_.begin()->second;
    later_.erase(later_.begin());
    delayed_.erase(place.second);
    held_.erase(place.second);
    pending_.insert(place);
  }
}

std::optional<Duration> StartQueue::next_wake() const {
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

std::int64_t StartQueue::Pop() {
  assert(!pending_.empty() && "no trial is pending");
  const std::int64_t trial = pending_.begin()->second;
  pending_.erase(pending_.begin());
  return trial;
}

void StartQueue::Clear() {
  pending_.clear();
  later_.clear();
  delayed_.clear();
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

void TrialTable::ApplyEvent(const Event& event) {
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
      trial->exit_reported = true;
      trial->close_requested = true;
      trial->operations.clear();
    }
  }
}

TrialState* TrialTable::ApplyOperation(const Event& cause,
                                       const Operation& operation) {
  if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
    TrialState* trial = Find(more->trial + 1);
    if (trial == nullptr || trial->exit_reported) return nullptr;
    // A trial that continues at once keeps its slot and so its turn: after a
    // crash it must not be queued behind those that were pending.
    const auto* done = std::get_if<ValidationCompleted>(&cause);
    const bool continues = done != nullptr && done->trial == more->trial;
    if (!trial->has_work() && !continues) trial->turn = ++turns_;
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
  assert(!trial.process && "it has a process already");
  trial.process = std::make_unique<ProcessState>();
  live_.emplace(trial.row.id.number, &trial);
}

std::unique_ptr<ProcessState> TrialTable::EndProcess(TrialState& trial) {
  live_.erase(trial.row.id.number);
  return std::move(trial.process);
}

void TrialTable::End(TrialState& trial) {
  assert(!trial.process && "its process must have ended");
  trial.ended = true;
  CountEnd(trial.row.state);
  ended_length_ += trial.reached;
  const auto found = trials_.find(trial.row.id.number);
  swept_.push_back(std::move(found->second));
  trials_.erase(found);
}

}  // namespace dtrain
