// The end of a run as a value: RunStop collects why it stops and derives the
// experiment's state and result from that and from the search. A failure of the
// experiment wins over everything, the end of the search over a stop that came
// too late to matter, and a cancel over a pause. Of several failures or
// problems the first is kept, since later ones are often its consequences.
//
// RunTime has what the loop would otherwise keep in a dozen times of its own:
// the limit of the run, what is recorded of its seconds, and when the next look
// at the store and at all trials is due. Each call gets the time from its
// caller, so that nothing here reads a clock.

#include "engine/run/run_stop.h"

#include <algorithm>
#include <utility>

namespace dtrain {

namespace {

// Reason of a CANCELED that no user requested.
std::string CancelReason(const SearchOutcome& search) {
  if (!search.over) return "";
  if (search.ended == 1) return "its trial was killed";
  return search.killed == search.ended ? "every trial was killed"
                                       : "every trial was killed or failed";
}

}  // namespace

void RunStop::Stop(std::string why) {
  stopping_ = true;
  why_ = std::move(why);
}

bool RunStop::SetSignal(int signal) {
  if (stopping_ && signal_ != 0) return false;
  signal_ = signal;
  return true;
}

bool RunStop::SetProblem(const Error& problem) {
  if (problem_) return false;
  problem_ = problem;
  return true;
}

bool RunStop::SetFailure(std::string why) {
  if (failed()) return false;
  failure_ = std::move(why);
  return true;
}

State RunStop::EndState(const SearchOutcome& search) const {
  if (failed()) return State::kError;
  if (search.over) {
    if (search.failed || !search.no_result.empty()) return State::kError;
    const bool killed = search.killed > 0 && search.finished == 0;
    return killed ? State::kCanceled : State::kCompleted;
  }
  return canceled_ ? State::kCanceled : State::kPaused;
}

RunResult RunStop::Result(std::int64_t experiment,
                          const SearchOutcome& search) const {
  RunResult result{.experiment = experiment, .state = EndState(search)};
  result.lost = lost_;
  if (result.state == State::kError) {
    result.error = failed()                   ? failure_
                   : search.no_result.empty() ? search.last_error
                                              : search.no_result;
  }
  if (result.state == State::kCanceled) result.error = CancelReason(search);
  if (result.state != State::kPaused) return result;
  result.signal = signal_;
  result.timed_out = timed_out_;
  if (problem_) {
    result.error = problem_->what();
    result.error_kind = problem_->kind();
  }
  return result;
}

namespace {

constexpr Duration kStatusPeriod = std::chrono::milliseconds(100);
constexpr Duration kRecordPeriod = std::chrono::seconds(1);
constexpr Duration kFilesPeriod = std::chrono::seconds(1);

double ToSeconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

bool PopPeriod(Duration& last, Duration period, Duration now) {
  const bool is_due = now - last >= period;
  if (is_due) last = now;
  return is_due;
}

}  // namespace

RunTime::RunTime(std::optional<Duration> timeout,
                 std::optional<double> limit_in_seconds)
    : limit_(timeout) {
  if (!limit_in_seconds) return;
  const auto limit = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(*limit_in_seconds));
  limit_ = std::min(limit_.value_or(limit), limit);
}

double RunTime::Seconds(Duration now) const {
  return earlier_ + ToSeconds(now - start_);
}

bool RunTime::IsRecordDue(Duration now) const {
  return now - recorded_at_ >= kRecordPeriod;
}

double RunTime::Drain(Duration now) {
  recorded_at_ = now;
  const double seconds = ToSeconds(now - start_) - recorded_;
  recorded_ += seconds;
  return seconds;
}

bool RunTime::PopStatus(Duration now) {
  return PopPeriod(last_status_, kStatusPeriod, now);
}

bool RunTime::PopFilesCheck(Duration now) {
  return PopPeriod(checked_files_at_, kFilesPeriod, now);
}

std::optional<std::int64_t> FindMaxSlots(const nlohmann::json& config) {
  if (!config.contains("resources")) return std::nullopt;
  const nlohmann::json& resources = config.at("resources");
  const auto most = resources.find("max_slots");
  if (most == resources.end() || !most->is_number_integer()) {
    return std::nullopt;
  }
  return most->get<std::int64_t>();
}

bool RunRequests::Add(const RequestRow& request) {
  if (!seen_.insert(request.id).second) return false;
  if (!request.trial) until_end_.push_back(request.id);
  return true;
}

bool RunRequests::SetMaxSlots(std::optional<std::int64_t> most, bool limit) {
  const bool changed = std::exchange(max_slots_, most) != most;
  if (!changed || !limit) return changed;
  trials_.reset();
  if (!most) return changed;
  const auto shares =
      static_cast<std::int64_t>(static_cast<double>(*most) / gpu_share_);
  trials_ = std::max<std::int64_t>(shares / slots_per_trial_, 1);
  return changed;
}

std::size_t RunRequests::MaxTrials() const {
  return static_cast<std::size_t>(
      std::min(most_trials_, trials_.value_or(most_trials_)));
}

std::int64_t RunRequests::LimitSlots(std::int64_t slots) const {
  return trials_ ? std::min(slots, *trials_ * slots_per_trial_) : slots;
}

}  // namespace dtrain
