#include "engine/run/run_stop.h"

#include <cstring>
#include <utility>

namespace dtrain {
namespace {

// Reason of a CANCELED that no user requested.
std::string WhyCanceled(const SearchOutcome& search) {
  if (!search.over) return "";
  if (search.ended == 1) return "its trial was killed";
  return search.killed == search.ended ? "every trial was killed"
                                       : "every trial was killed or failed";
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal)
                         : "SIG" + std::string(name);
}

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
    if (search.failed) return State::kError;
    const bool killed = search.killed > 0 && search.finished == 0;
    return killed ? State::kCanceled : State::kCompleted;
  }
  return canceled_ ? State::kCanceled : State::kPaused;
}

RunResult RunStop::Result(std::int64_t experiment,
                          const SearchOutcome& search) const {
  RunResult result{.experiment = experiment, .state = EndState(search)};
  if (result.state == State::kError) {
    result.error = failed() ? failure_ : search.last_error;
  }
  if (result.state == State::kCanceled) result.error = WhyCanceled(search);
  if (result.state != State::kPaused) return result;
  result.signal = signal_;
  result.timed_out = timed_out_;
  if (problem_) {
    result.error = problem_->what();
    result.error_kind = problem_->kind();
  }
  return result;
}

}  // namespace dtrain
