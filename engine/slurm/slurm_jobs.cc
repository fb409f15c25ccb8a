// The thread that keeps the jobs of an experiment: it asks Slurm, lets JobPlan
// decide, and obeys.
//
// Programs of Slurm may take long or hang for a while, so they are called by
// this thread only; the runner's thread exchanges values with it through
// `mutex_` (demand and workers in, news and jobs out) and never waits for it,
// except in End. No lock is held while Slurm is called. `plan_`, `interval_`
// and `away_` belong to the thread alone; End uses the plan after it has joined
// the thread.
//
// Slurm is asked only while there are jobs. If it does not answer, nothing is
// decided and the interval doubles: jobs that are not listed by a controller
// that is away have not ended. End cancels jobs that never had a worker at
// once, and gives the others time to end by themselves, since their workers may
// still save checkpoints.

#include "engine/slurm/slurm_jobs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "engine/base/text.h"
#include "engine/os/signals.h"
#include "engine/slurm/worker_step.h"

namespace dtrain {
namespace {

using Phase = SlurmJob::Phase;

// So many refusals in a row, without any job, are not worth another try.
constexpr int kMaxRefusals = 3;
// Between two looks at jobs that end; it doubles up to the second.
constexpr Duration kFirstLook = std::chrono::milliseconds(200);
constexpr Duration kMaxLook = std::chrono::seconds(2);

}  // namespace

SlurmAnswer<std::vector<SlurmJob>> ListJobs(const Slurm& slurm,
                                            const std::string& owner) {
  auto answer = slurm.Jobs();
  if (auto* jobs = std::get_if<std::vector<SlurmJob>>(&answer)) {
    std::erase_if(*jobs, [&](const SlurmJob& job) {
      return job.owner != owner || job.phase == Phase::kEnded;
    });
  }
  return answer;
}

SlurmJobs::SlurmJobs(SlurmJobsOptions options)
    : options_(std::move(options)),
      plan_(options_.plan),
      interval_(options_.interval) {
  // The main thread handles signals.
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { Run(); });
}

void SlurmJobs::Update(std::int64_t demand, std::vector<JobWorkers> workers) {
  const std::lock_guard lock(mutex_);
  demand_ = demand;
  workers_ = std::move(workers);
  for (const JobWorkers& job : workers_) contacted_.insert(job.job);
  // A turn without jobs asks Slurm nothing, so it may come early.
  if (!idle_ || demand == 0) return;
  wake_ = true;
  changed_.notify_all();
}

SlurmJobs::News SlurmJobs::Drain() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

std::vector<SlurmJob> SlurmJobs::Jobs() {
  const std::lock_guard lock(mutex_);
  return jobs_;
}

std::string SlurmJobs::End() {
  if (!thread_.joinable()) return "";
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  std::vector<std::string> ids = plan_.Unlisted({});
  const auto others = std::stable_partition(
      ids.begin(), ids.end(), [this](const std::string& id) {
        return plan_.HasContact(id) || contacted_.contains(id);
      });
  const std::vector<std::string> served(ids.begin(), others);
  const std::vector<std::string> rest(others, ids.end());
  auto failure = options_.slurm.Cancel(rest);
  if (!failure) failure = options_.slurm.Cancel(ids = AwaitEnds(served));
  if (!failure) return "";
  return "the jobs of Slurm could not be canceled: " + failure->text +
         "; run: scancel " + Join(ids, " ");
}

// Returns those that have not ended by themselves after a while.
std::vector<std::string> SlurmJobs::AwaitEnds(
    std::vector<std::string> ids) const {
  const Duration end = clock_.monotonic() + options_.end_patience;
  Duration pause = kFirstLook;
  while (!ids.empty() && clock_.monotonic() < end) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kMaxLook);
    const auto answer = options_.slurm.Jobs();
    const auto* const jobs = std::get_if<std::vector<SlurmJob>>(&answer);
    if (jobs == nullptr) return ids;
    std::erase_if(ids, [&](const std::string& id) {
      const auto found = std::ranges::find(*jobs, id, &SlurmJob::id);
      return found == jobs->end() || found->phase == Phase::kEnded;
    });
  }
  return ids;
}

// False if the thread has to end.
bool SlurmJobs::WaitFor(Duration time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stop_ || wake_; });
  wake_ = false;
  return !stop_;
}

void SlurmJobs::Run() {
  do {
    Turn();
    const std::lock_guard lock(mutex_);
    idle_ = plan_.Unlisted({}).empty();
  } while (WaitFor(interval_));
}

void SlurmJobs::AddNotice(const std::string& notice) {
  const std::lock_guard lock(mutex_);
  news_.notices.push_back(notice);
}

void SlurmJobs::ReportAway(const SlurmFailure& failure) {
  if (!std::exchange(away_, true)) {
    AddNotice("Slurm does not answer, trying again: " + failure.text);
  }
  interval_ = std::min(interval_ * 2, options_.max_interval);
}

void SlurmJobs::Turn() {
  JobSituation situation;
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    situation.demand = demand_;
    situation.workers = workers_;
    situation.contacted = contacted_;
    failed = failed_;
  }
  // No question without a job: there is nothing to know.
  auto answer = plan_.Unlisted({}).empty()
                    ? SlurmAnswer<std::vector<SlurmJob>>()
                    : options_.slurm.Jobs();
  if (const auto* failure = std::get_if<SlurmFailure>(&answer)) {
    return ReportAway(*failure);
  }
  situation.jobs = std::get<std::vector<SlurmJob>>(std::move(answer));
  if (std::exchange(away_, false)) AddNotice("Slurm answers again");
  interval_ = options_.interval;
  for (const std::string& id : plan_.Unlisted(situation.jobs)) {
    situation.jobs.push_back({.id = id,
                              .phase = Phase::kEnded,
                              .state = options_.slurm.FindState(id)});
  }
  situation.now = clock_.monotonic();
  JobDecision decision = plan_.Decide(situation);
  if (failed) decision.submit = 0;
  const std::vector<std::string> alive = plan_.Unlisted({});
  std::erase_if(situation.jobs, [&](const SlurmJob& job) {
    return std::ranges::find(alive, job.id) == alive.end();
  });
  {
    const std::lock_guard lock(mutex_);
    jobs_ = std::move(situation.jobs);
    for (const std::string& id : situation.contacted) contacted_.erase(id);
  }
  {
    const std::lock_guard lock(mutex_);
    news_.notices.insert(news_.notices.end(), decision.notices.begin(),
                         decision.notices.end());
    news_.release.insert(news_.release.end(), decision.release.begin(),
                         decision.release.end());
    if (!decision.silent.empty()) {
      const std::filesystem::path output =
          options_.request.OutputFile(decision.silent);
      const std::string lines = LastLines(output);
      news_.failure = "no worker of the last " +
                      std::to_string(options_.plan.max_silent) +
                      " jobs of Slurm has connected; job " + decision.silent +
                      (lines.empty() ? " has printed nothing to "
                                     : " has printed: " + lines + "; see ") +
                      EscapeForTerminal(output.string());
      failed_ = true;
    }
  }
  if (const auto failure = options_.slurm.Cancel(decision.cancel)) {
    AddNotice("scancel failed: " + failure->text);
  }
  Submit(decision.submit, situation.now);
}

void SlurmJobs::Submit(std::int64_t count, Duration now) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto answer = options_.slurm.Submit(options_.request);
    if (const auto* id = std::get_if<std::string>(&answer)) {
      plan_.Submitted(*id);
      const std::lock_guard lock(mutex_);
      jobs_.push_back({.id = *id, .phase = Phase::kPending});
      continue;
    }
    const auto& failure = std::get<SlurmFailure>(answer);
    if (failure.away) {
      plan_.PauseFrom(now);
      return ReportAway(failure);
    }
    plan_.Refused(now);
    AddNotice("Slurm has refused a job: " + failure.text);
    if (plan_.refused() < kMaxRefusals || !plan_.Unlisted({}).empty()) return;
    const std::lock_guard lock(mutex_);
    failed_ = true;
    news_.failure = "Slurm refuses the jobs of the workers: " + failure.text;
    return;
  }
}

}  // namespace dtrain
