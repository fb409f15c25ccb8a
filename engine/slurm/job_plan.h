#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/slurm/slurm.h"

namespace dtrain {

/// The workers of one job that are connected to the runner.
struct JobWorkers {
  std::string job;
  std::int64_t slots = 0;
  std::int64_t used = 0;   // by trials
  Duration idle_since{0};  // monotonic; if no slot is used
  bool complete = true;    // the workers of all its nodes are connected
};

struct JobPlanOptions {
  std::int64_t max_jobs = 8;
  std::int64_t min_jobs = 0;
  std::int64_t slots_per_job = 1;  // until a job has shown how many it has
  Duration idle_timeout = std::chrono::seconds(60);
  // A job whose workers have not connected after this long is ended.
  Duration connect_timeout = std::chrono::minutes(10);
  // So is one whose workers were connected and have been gone for this long,
  // such as those of a node that does not answer.
  Duration gone_timeout = std::chrono::minutes(1);
  // Before a job replaces one that ended too early; it doubles each time.
  Duration first_pause = std::chrono::seconds(5);
  Duration max_pause = std::chrono::minutes(5);
  // A job that its workers have served for this long has not ended too early.
  Duration useful_time = std::chrono::minutes(1);
  // Number of consecutive jobs whose workers never connected after which no
  // more are submitted.
  int max_silent = 3;
};

/// State of the jobs and of the demand at one moment.
struct JobSituation {
  Duration now{0};             // monotonic
  std::int64_t demand = 0;     // slots that trials could use now
  std::vector<SlurmJob> jobs;  // of the experiment, ended ones included
  std::vector<JobWorkers> workers;
  // Jobs whose workers were connected at any time since the last one.
  std::set<std::string> contacted = {};
};

/// Actions that follow from a JobSituation.
struct JobDecision {
  std::int64_t submit = 0;           // number of jobs
  std::vector<std::string> cancel;   // jobs without work
  std::vector<std::string> release;  // jobs whose workers are to end themselves
  std::vector<std::string> notices;  // lines for the user
  std::string silent;                // the last of max_silent jobs, or empty
};

/// Decides how many jobs an experiment has. The number follows the demand at
/// once when it rises, and after `idle_timeout` when it falls. A job that ends
/// early is replaced after a pause. Calls nothing; one thread.
class JobPlan {
 public:
  explicit JobPlan(JobPlanOptions options) : options_(options) {}

  /// Returns the jobs that are pending or running and not in `jobs`: Slurm does
  /// not list them any more. Decide has to be given their ends.
  std::vector<std::string> Unlisted(const std::vector<SlurmJob>& jobs) const;
  /// Records that a job was submitted.
  void Submitted(const std::string& job);
  /// Records that Slurm has refused a job: the next one is tried after a pause.
  void Refused(Duration now);
  /// Begins a pause before the next job, unless there is one.
  void PauseFrom(Duration now);
  /// Returns what to do. Call it with each list of jobs.
  JobDecision Decide(const JobSituation& situation);

  /// True if a worker of the job has been connected, as far as Decide knows.
  bool HasContact(const std::string& job) const;
  /// Number of jobs that were submitted.
  std::int64_t submitted() const { return submitted_; }
  /// Number of refusals since the last job was submitted.
  int refused() const { return refused_; }

 private:
  struct Job {
    SlurmJob::Phase phase = SlurmJob::Phase::kPending;
    std::optional<Duration> running_since;
    std::optional<Duration>
        first_contact;         // first time that a worker was connected
    Duration last_contact{0};  // last time, if there is a first
    bool let_go = false;       // canceled or released by this plan
    bool overdue = false;      // let go because no worker has connected
  };

  // Orders the numbers of jobs.
  struct ByNumber {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };

  void Update(const JobSituation& situation, JobDecision& decision);
  void End(const std::string& id, const Job& job, const std::string& state,
           Duration now, JobDecision& decision);
  void EndUselessJobs(Duration now, JobDecision& decision);
  void Shrink(const JobSituation& situation, std::int64_t surplus,
              JobDecision& decision);
  void ReportPending(const JobSituation& situation, JobDecision& decision);
  std::int64_t WantedJobs(const JobSituation& situation) const;

  JobPlanOptions options_;
  std::map<std::string, Job, ByNumber> jobs_;  // that have not ended
  std::int64_t submitted_ = 0;
  int silent_ = 0;   // jobs in a row
  int refused_ = 0;  // submissions in a row
  Duration pause_{0};
  Duration not_before_{0};
  Duration pause_reported_{0};  // the not_before_ of the last line about it
  std::optional<Duration> surplus_since_;
  std::optional<Duration> pending_reported_;
};

}  // namespace dtrain
