#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/run/reporter.h"
#include "engine/store/rows.h"

namespace dtrain {

/// Progress of a search when its run ends.
struct SearchOutcome {
  bool over = false;          // the searcher has asked for the end
  bool failed = false;        // … because every trial failed
  std::int64_t ended = 0;     // trials
  std::int64_t finished = 0;  // … completed, or stopped by the searcher
  std::int64_t killed = 0;    // … by a user
  std::string last_error;     // of a trial
  // Reason that a finished search has no result although trials finished, or
  // "".
  std::string no_result;
};

/// Reason that a run stops before its search is over, and the state that the
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
  /// A trial has to do this again when the experiment resumes: "batches 81-90
  /// of trial 3.2".
  void AddLoss(std::string what) { lost_.push_back(std::move(what)); }

  bool stopping() const { return stopping_; }
  const std::string& why() const { return why_; }
  bool canceled() const { return canceled_; }
  bool failed() const { return !failure_.empty(); }

  /// The experiment's state once no trial has a process.
  State EndState(const SearchOutcome& search) const;
  /// State, error, signal, time limit and losses of the result.
  RunResult Result(std::int64_t experiment, const SearchOutcome& search) const;

 private:
  bool stopping_ = false;
  std::string why_;
  bool canceled_ = false;
  bool timed_out_ = false;
  int signal_ = 0;
  std::optional<Error> problem_;
  std::string failure_;
  std::vector<std::string> lost_;
};

/// Running time of an experiment, whose loop looks at it in each turn, and what
/// is due by it. All times are monotonic. Pure.
class RunTime {
 public:
  /// `limits` end the run; the shortest counts.
  RunTime(std::optional<Duration> timeout,
          std::optional<double> limit_in_seconds);

  void Start(Duration now) { start_ = recorded_at_ = now; }
  /// Sets the seconds of earlier runs, as recorded.
  void SetEarlier(double seconds) { earlier_ = seconds; }
  /// Returns the seconds of all runs.
  double Seconds(Duration now) const;
  /// True if the run has reached its limit.
  bool IsOver(Duration now) const { return limit_ && now - start_ >= *limit_; }

  /// True if running time has to be recorded: other processes read it, and a
  /// crash of the runner loses at most the second since the last record.
  bool IsRecordDue(Duration now) const;
  /// Returns the seconds of this run since the last call, which are recorded.
  double Drain(Duration now);
  /// True, once in a tenth of a second, if the status is due, and what looks at
  /// all trials or at the store.
  [[nodiscard]] bool PopStatus(Duration now);
  /// True, once in a second, if the check whether the store was moved is due.
  [[nodiscard]] bool PopFilesCheck(Duration now);

 private:
  std::optional<Duration> limit_;
  double earlier_ = 0;
  double recorded_ = 0;  // of this run
  Duration recorded_at_{0};
  Duration start_{0};
  Duration last_status_{0};
  Duration checked_files_at_{0};
};

/// Returns resources.max_slots of a recorded configuration.
std::optional<std::int64_t> FindMaxSlots(const nlohmann::json& config);

/// Requests of other processes to a run, each of which is executed once, and
/// the limit resources.max_slots, which they may change. Pure.
class RunRequests {
 public:
  /// The search may run `most_trials` at once.
  RunRequests(double gpu_share, std::int64_t slots_per_trial,
              std::int64_t most_trials)
      : gpu_share_(gpu_share),
        slots_per_trial_(slots_per_trial),
        most_trials_(most_trials) {}

  /// False if the request was added before. One to the whole experiment is kept
  /// open until the run ends.
  [[nodiscard]] bool Add(const RequestRow& request);
  /// The request is never executed.
  void Skip(std::int64_t request) { seen_.insert(request); }
  const std::vector<std::int64_t>& until_end() const { return until_end_; }

  /// Sets the limit as it is recorded. True if it differs from the last one.
  /// It counts from now on only with `limit`: the slots that a run begins with
  /// may be planned within it.
  [[nodiscard]] bool SetMaxSlots(std::optional<std::int64_t> most, bool limit);
  /// Sets how many trials the search may run at once.
  void SetMostTrials(std::int64_t trials) { most_trials_ = trials; }
  /// Returns how many trials may run at once.
  std::size_t MaxTrials() const;
  /// Returns how many of this number of slots the trials may use.
  std::int64_t LimitSlots(std::int64_t slots) const;

 private:
  double gpu_share_;
  std::int64_t slots_per_trial_;
  std::int64_t most_trials_;
  std::set<std::int64_t> seen_;
  std::vector<std::int64_t> until_end_;
  std::optional<std::int64_t> max_slots_;
  std::optional<std::int64_t> trials_;  // that fit into the limit
};

}  // namespace dtrain
