#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/slurm/job_plan.h"
#include "engine/slurm/job_request.h"
#include "engine/slurm/slurm.h"

namespace dtrain {

struct SlurmJobsOptions {
  JobRequest request;  // its script exists
  JobPlanOptions plan;
  Slurm slurm = Slurm();
  // Between two questions to Slurm; the pauses grow while its controller does
  // not answer.
  Duration interval = std::chrono::seconds(5);
  Duration max_interval = std::chrono::minutes(1);
  // At the end, until the jobs whose workers exit have ended.
  Duration end_patience = std::chrono::seconds(20);
};

/// Keeps an experiment supplied with jobs for its workers, as JobPlan decides.
/// A thread of its own calls Slurm, whose answers can take a minute. The
/// functions may be called by one other thread and return at once, except End.
class SlurmJobs {
 public:
  /// Results of the thread since the last call.
  struct News {
    std::vector<std::string> notices;  // lines for the user
    std::vector<std::string> release;  // jobs whose workers are to end
    // Reason that further jobs would be useless: the experiment should be
    // paused. No more are submitted. Otherwise empty.
    std::string failure;
  };

  explicit SlurmJobs(SlurmJobsOptions options);
  SlurmJobs(const SlurmJobs&) = delete;
  SlurmJobs& operator=(const SlurmJobs&) = delete;
  ~SlurmJobs() { End(); }

  /// Sets the number of slots that trials could use, and the workers that are
  /// connected.
  void Update(std::int64_t demand, std::vector<JobWorkers> workers);
  News Drain();
  /// Returns the jobs that are pending or running.
  std::vector<SlurmJob> Jobs();
  /// Ends the thread, and the jobs. Those whose workers were connected should
  /// have been told to exit: they end by themselves, which Slurm records as
  /// success, or are canceled after a while. Others are canceled at once.
  /// Returns a line for the user if that fails, otherwise an empty text.
  std::string End();

 private:
  void Run();
  void Turn();
  bool WaitFor(Duration time);
  SlurmAnswer<std::vector<SlurmJob>> OwnJobs() const;
  void Submit(std::int64_t count, Duration now);
  std::vector<std::string> AwaitEnds(std::vector<std::string> ids) const;
  void ReportAway(const SlurmFailure& failure);
  void AddNotice(const std::string& notice);

  const SlurmJobsOptions options_;
  const Clock clock_ = Clock::System();

  // Of the thread.
  JobPlan plan_;
  Duration interval_;
  bool away_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  bool stop_ = false;
  bool idle_ = false;  // no job is pending or running
  bool wake_ = false;  // the next turn is due
  std::int64_t demand_ = 0;
  std::vector<JobWorkers> workers_;
  std::set<std::string> contacted_;  // jobs with workers since the last turn
  std::vector<SlurmJob> jobs_;
  News news_;
  bool failed_ = false;

  std::thread thread_;
};

/// Returns the jobs of this owner that are pending or running, of this or an
/// earlier runner.
SlurmAnswer<std::vector<SlurmJob>> ListJobs(const Slurm& slurm,
                                            const std::string& owner);

}  // namespace dtrain
