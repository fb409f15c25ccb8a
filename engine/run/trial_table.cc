// State of the trials of a running experiment, of their processes, and of the
// queue for slots. Nothing here does I/O or reads a clock; Experiment passes
// the time in.
//
// Only unfinished trials are kept, so memory and the time of an event do not
// grow with the trials that have ended; of those there are only counts. An
// ended trial stays allocated until the next Sweep, because callers up the
// stack may still hold a reference to it. The sets of idle and of ending trials
// are indexes: whoever changes what they depend on calls Refile.
//
// Turns order the trials that wait for slots. A new trial gets the next turn. A
// trial that trains on goes behind all trials that the searcher has deferred
// but not yet created, so turns are reserved for those: in that way the order
// is the same whether they were created early, on many slots, or late, on few.
// Replaying the events gives the same turns again.
//
// Seconds of an operation go to the searcher. They exclude the time in which
// the trial was blocked on a full disk, and if its beginning was lost with an
// earlier runner, they are extrapolated from the part that this runner saw.

#include "engine/run/trial_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/text.h"
#include "engine/run/reporter.h"

namespace dtrain {

EarlierValues::EarlierValues(std::int64_t from, std::int64_t last)
    : from_(from), last_(last > from ? last : 0), passed_{from + 1, from + 1} {}

std::optional<BatchRange> EarlierValues::Pass(MetricKind kind,
                                              std::int64_t batches) {
  std::int64_t& passed = passed_.at(static_cast<std::size_t>(kind));
  // A value at `batches` itself replaces the earlier one, so the range of
  // values to supersede ends before it.
  if (last_ < passed || batches <= passed) return std::nullopt;
  return BatchRange{.from = std::exchange(passed, batches), .until = batches};
}

std::optional<BatchRange> EarlierValues::PassAll() {
  if (empty()) return std::nullopt;
  last_ = 0;
  return BatchRange{.from = from_ + 1,
                    .until = std::numeric_limits<std::int64_t>::max()};
}

void TrialProcess::SetRunning(Duration now, Timestamp time) {
  running_ = true;
  start_time_ = time;
  started_ = last_step_ = now;
}

void TrialProcess::SetProgress(const Progress& progress, Duration now) {
  const bool changed = progress.batches != progress_.batches ||
                       progress.activity != progress_.activity;
  if (changed) SetAlive(now);
  progress_ = progress;
}

bool TrialProcess::IsHanging(Duration now,
                             std::chrono::duration<double> limit) const {
  const bool busy =
      running_ && received_ == 0 && !disk_wait_ && stop_ == StopCause::kNone;
  return busy && now - last_step_ >= limit;
}

double TrialProcess::DrainSeconds(Duration now) {
  if (!running_) return 0;
  const double more =
      std::chrono::duration<double>(now - started_).count() - recorded_seconds_;
  recorded_seconds_ += more;
  return more;
}

double TrialProcess::DrainWork(Duration now) {
  if (!working_since_) return 0;
  const Duration worked = now - *working_since_ - blocked_;
  working_since_.reset();
  blocked_ = Duration{0};
  return std::max(0.0, std::chrono::duration<double>(worked).count());
}

void TrialProcess::Stop(StopCause cause) {
  if (stop_ == StopCause::kNone) stop_ = cause;
}

bool TrialProcess::Kill(StopCause cause, std::string why) {
  if (stop_ != StopCause::kNone && !asked_to_stop()) return false;
  stop_ = cause;
  failure_ = std::move(why);
  return true;
}

bool TrialProcess::Block(Duration now, std::string why) {
  if (disk_wait_) return false;
  disk_wait_ = now;
  failure_ = std::move(why);
  return true;
}

bool TrialProcess::Unblock(Duration now) {
  disk_reported_ = 0;
  if (disk_wait_) blocked_ += now - *disk_wait_;
  return std::exchange(disk_wait_, std::nullopt).has_value();
}

bool TrialProcess::IsNewsOfDisk(bool blocks) {
  const int now = blocks ? 2 : 1;
  return std::exchange(disk_reported_, now) < now;
}

bool TrialProcess::Receive(std::int64_t seq) {
  // One acknowledgement covers all messages that arrive before it is sent.
  const bool is_first = received_ == 0;
  received_ = std::max(received_, seq);
  return is_first;
}

void TrialState::SetEndedEarly(const std::string& why) {
  constexpr std::size_t kMaxReason = 1000;
  ended_early = true;
  why_early = Truncate(ToValidUtf8(why), kMaxReason);
}

void TrialState::RecoverEarlyEnd(const std::string& reason) {
  const std::string before = std::string(kEndedEarly) + ": ";
  ended_early = reason.starts_with(kEndedEarly);
  why_early = reason.starts_with(before) ? reason.substr(before.size()) : "";
}

double DrainOperationSeconds(TrialState& trial, std::int64_t batches,
                             Duration now) {
  const double worked =
      std::exchange(trial.worked, 0.0) + trial.process->DrainWork(now);
  const auto from = std::exchange(trial.timed_from, std::nullopt);
  if (!from) return worked;
  // Where the operation began, since batches are proportional to the length.
  const auto end = static_cast<double>(batches);
  const auto length = static_cast<double>(trial.operations.front());
  const double begin =
      length > 0 ? end * static_cast<double>(trial.trained()) / length : 0;
  const double timed = end - std::max(begin, static_cast<double>(*from));
  return timed > 0 ? worked * (end - begin) / timed : 0;
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
    CountEnd(row);
    return nullptr;
  }
  auto trial = std::make_unique<TrialState>();
  trial->row = std::move(row);
  const std::int64_t number = trial->row.id.number;
  return trials_.emplace(number, std::move(trial)).first->second.get();
}

// The events are replayed with a table of these trials only.
void TrialTable::Reopen(const std::vector<TrialRow>& rows,
                        const std::vector<SearcherEventRow>& events) {
  TrialTable replay;
  for (TrialRow row : rows) {
    row.state = State::kPaused;
    row.reason.clear();
    row.rung = 0;  // counted again by the replay
    replay.Add(std::move(row))->untimed = true;
  }
  for (const SearcherEventRow& row : events) {
    const Event event = EventFromJson(row.event);
    replay.ApplyEvent(event);
    for (const nlohmann::json& operation : row.operations) {
      replay.ApplyOperation(event, OperationFromJson(operation));
    }
  }
  for (const TrialRow& row : rows) {
    CountEnd(row, -1);
    std::unique_ptr<TrialState>& trial = replay.trials_[row.id.number];
    ended_length_ -= trial->reached;
    trial->turn = 0;
    trials_[row.id.number] = std::move(trial);
  }
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
      // A replayed event of a trial that has ended. Its lengths count once,
      // although its events come one by one.
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
    if (trial->process) trial->process->SetOperationSent(false);
    if (!std::isfinite(done->metric)) trial->bad_metric = done->metric;
    Refile(*trial);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    if (TrialState* trial = Find(early->trial + 1)) {
      trial->exit_reported = true;
      trial->close_requested = true;
      trial->operations.clear();
      Refile(*trial);
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
    if (!trial->has_work() && !continues) {
      trial->turn =
          trial->completed.empty() ? NextTurn() : TurnBehind(more->deferred);
    }
    trial->operations.push_back(more->length);
    Refile(*trial);
    return trial;
  }
  if (const auto* reopen = std::get_if<dtrain::Reopen>(&operation)) {
    TrialState* trial = Find(reopen->trial + 1);
    if (trial == nullptr) return nullptr;
    trial->close_requested = trial->exit_reported = trial->ended_early = false;
    trial->why_early.clear();
    trial->bad_metric.reset();
    return trial;
  }
  if (const auto* close = std::get_if<Close>(&operation)) {
    TrialState* trial = Find(close->trial + 1);
    if (trial != nullptr) trial->close_requested = true;
    return trial;
  }
  return nullptr;
}

// Returns the turn of a new trial.
std::int64_t TrialTable::NextTurn() {
  if (reserved_turns_.empty()) return ++turns_;
  auto& [first, count] = reserved_turns_.front();
  const std::int64_t turn = first++;
  --reserved_;
  if (--count == 0) reserved_turns_.pop_front();
  return turn;
}

// Returns a turn behind those of all new trials, `deferred` of which come
// later.
std::int64_t TrialTable::TurnBehind(std::int64_t deferred) {
  if (const std::int64_t more = deferred - reserved_; more > 0) {
    reserved_turns_.emplace_back(turns_ + 1, more);
    reserved_ += more;
    turns_ += more;
  }
  return ++turns_;
}

void TrialTable::Refile(const TrialState& trial) {
  const std::int64_t number = trial.row.id.number;
  const auto file = [number](std::set<std::int64_t>& numbers, bool there) {
    if (there) {
      numbers.insert(number);
    } else {
      numbers.erase(number);
    }
  };
  const TrialProcess* process = trial.process.get();
  file(idle_, trial.idle());
  file(ending_, process != nullptr && (process->stop() != StopCause::kNone ||
                                       process->close_sent()));
}

void TrialTable::Reach(TrialState& trial, double length) {
  if (!(length > trial.reached)) return;
  trained_length_ += length - trial.reached;
  trial.reached = length;
}

void TrialTable::CountEnd(const TrialRow& row, std::int64_t count) {
  ended_ += count;
  if (row.state == State::kCompleted || row.state == State::kStopped) {
    finished_ += count;
  }
  if (row.state == State::kCanceled) killed_ += count;
  if (row.latest) measured_ += count;
}

TrialProcess& TrialTable::StartProcess(TrialState& trial, std::string restored,
                                       std::int64_t from) {
  assert(!trial.process && "it has a process already");
  trial.process = std::make_unique<TrialProcess>(std::move(restored), from,
                                                 trial.row.batches);
  trial.position = from;
  if (std::exchange(trial.untimed, false)) trial.timed_from = from;
  live_.emplace(trial.row.id.number, &trial);
  return *trial.process;
}

std::unique_ptr<TrialProcess> TrialTable::EndProcess(TrialState& trial) {
  live_.erase(trial.row.id.number);
  std::unique_ptr<TrialProcess> process = std::move(trial.process);
  Refile(trial);
  return process;
}

void TrialTable::End(TrialState& trial) {
  assert(!trial.process && "its process must have ended");
  trial.ended = true;
  CountEnd(trial.row);
  ended_length_ += trial.reached;
  const auto found = trials_.find(trial.row.id.number);
  swept_.push_back(std::move(found->second));
  trials_.erase(found);
}

}  // namespace dtrain
