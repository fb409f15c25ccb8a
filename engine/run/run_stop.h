#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/run/reporter.h"

namespace dtrain {

/// Name of a signal, such as "SIGTERM".
std::string SignalName(int signal);

/// How far a search has come when its run ends.
struct SearchOutcome {
  bool over = false;          // the searcher has asked for the end
  bool failed = false;        // … because every trial failed
  std::int64_t ended = 0;     // trials
  std::int64_t finished = 0;  // … completed, or stopped by the searcher
  std::int64_t killed = 0;    // … by a user
  std::string last_error;     // of a trial
};

/// Why a run stops before its search is over, and the state that the
/// experiment is left in. Stops no trial itself. Pure.
class RunStop {
 public:
  /// All trials are being stopped. `why` becomes the reason of those that are
  /// left: "stopped by SIGTERM". A later call replaces it.
  void Stop(std::string why);
  /// A user ends the experiment, which cannot be resumed.
  void Cancel() { canceled_ = true; }
  /// The time limit has passed.
  void SetTimedOut() { timed_out_ = true; }
  /// The process was interrupted. False if that is a second signal.
  [[nodiscard]] bool SetSignal(int signal);
  /// The machine lacks what the run needs. False for all but the first call.
  [[nodiscard]] bool SetProblem(const Error& problem);
  /// The experiment ends in ERROR. False for all but the first call.
  [[nodiscard]] bool SetFailure(std::string why);

  bool stopping() const { return stopping_; }
  const std::string& why() const { return why_; }
  bool canceled() const { return canceled_; }
  bool failed() const { return !failure_.empty(); }

  /// The experiment's state once no trial has a process.
  State EndState(const SearchOutcome& search) const;
  /// State, error, signal and time limit of the result.
  RunResult Result(std::int64_t experiment, const SearchOutcome& search) const;

 private:
  bool stopping_ = false;
  std::string why_;
  bool canceled_ = false;
  bool timed_out_ = false;
  int signal_ = 0;
  std::optional<Error> problem_;
  std::string failure_;
};

}  // namespace dtrain
