// Decides from one view of the situation which jobs to submit, cancel and
// release. It calls no Slurm and reads no clock, so that every rule is tested
// by itself.
//
// A job is pending, running without a worker, heard (a worker has connected),
// or let go. The jobs wanted are the demand divided by the slots of a job,
// which are assumed until a job's workers are complete and then known. More
// jobs are submitted at once, fewer only after `idle_timeout`, pending ones
// first and never one whose workers train.
//
// Two guards keep a fault from filling the queue. A job that ended early or a
// refusal begins a pause that doubles; a job that served for `useful_time`
// resets it. And `max_silent` jobs in a row of which no worker was heard are
// reported in `silent`, upon which the caller gives up.

#include "engine/slurm/job_plan.h"

#include <algorithm>
#include <utility>

#include "engine/base/rounding.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using Phase = SlurmJob::Phase;

// A job that starts within this time needs no line about its wait.
constexpr Duration kUnreportedWait = std::chrono::seconds(15);
constexpr Duration kPendingInterval = std::chrono::minutes(1);

}  // namespace

void JobPlan::Submitted(const std::string& job) {
  jobs_[job] = {};
  ++submitted_;
  refused_ = 0;
}

void JobPlan::Refused(Duration now) {
  ++refused_;
  PauseFrom(now);
}

// Jobs that end together, as in a preemption, make one pause.
void JobPlan::PauseFrom(Duration now) {
  if (now < not_before_) return;
  pause_ = std::clamp(pause_ * 2, options_.first_pause, options_.max_pause);
  not_before_ = now + pause_;
}

// Counts the end of a job. One that was not needed any more, or that has worked
// for a while, has done what it was submitted for.
void JobPlan::End(const std::string& id, const Job& job,
                  const std::string& state, Duration now,
                  JobDecision& decision) {
  // A job that was canceled because no worker connected counts as a failure,
  // although it was let go.
  if (job.let_go && !job.overdue) return;
  if (job.first_contact && now - *job.first_contact >= options_.useful_time) {
    pause_ = Duration{0};
    not_before_ = now;
    return;
  }
  PauseFrom(now);
  if (job.first_contact) return;
  decision.notices.push_back(
      "job " + id + " of Slurm ended before a worker connected" +
      (state.empty() ? "" : ": " + EscapeForTerminal(state)));
  if (++silent_ == options_.max_silent) decision.silent = id;
}

std::vector<std::string> JobPlan::Unlisted(
    const std::vector<SlurmJob>& jobs) const {
  std::vector<std::string> unlisted;
  for (const auto& [id, job] : jobs_) {
    if (std::ranges::find(jobs, id, &SlurmJob::id) == jobs.end()) {
      unlisted.push_back(id);
    }
  }
  return unlisted;
}

bool JobPlan::HasContact(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && found->second.first_contact;
}

void JobPlan::Update(const JobSituation& situation, JobDecision& decision) {
  std::set<std::string> contacted = situation.contacted;
  for (const JobWorkers& workers : situation.workers)
    contacted.insert(workers.job);
  for (auto& [id, job] : jobs_) {
    if (!contacted.contains(id)) continue;
    job.last_contact = situation.now;
    if (job.first_contact) continue;
    job.first_contact = situation.now;
    silent_ = 0;
  }
  for (const SlurmJob& seen : situation.jobs) {
    const auto found = jobs_.find(seen.id);
    if (found == jobs_.end()) continue;
    Job& job = found->second;
    job.phase = seen.phase;
    if (seen.phase == Phase::kRunning && !job.running_since) {
      job.running_since = situation.now;
    }
    if (seen.phase != Phase::kEnded) continue;
    End(seen.id, job, seen.state, situation.now, decision);
    jobs_.erase(found);
  }
}

std::int64_t JobPlan::WantedJobs(const JobSituation& situation) const {
  // The slots of connected workers replace the assumed number.
  std::int64_t slots = 0;
  for (const JobWorkers& workers : situation.workers) {
    if (workers.complete) slots = std::max(slots, workers.slots);
  }
  if (slots == 0) slots = std::max<std::int64_t>(options_.slots_per_job, 1);
  const std::int64_t needed = (situation.demand + slots - 1) / slots;
  return std::clamp(needed, std::min(options_.min_jobs, options_.max_jobs),
                    options_.max_jobs);
}

// A job that runs without a worker occupies nodes for nothing.
void JobPlan::EndUselessJobs(Duration now, JobDecision& decision) {
  for (auto& [id, job] : jobs_) {
    if (job.let_go || !job.running_since) continue;
    const Duration limit =
        job.first_contact ? options_.gone_timeout : options_.connect_timeout;
    const Duration since =
        job.first_contact ? job.last_contact : *job.running_since;
    if (now - since < limit) continue;
    job.let_go = true;
    job.overdue = !job.first_contact;
    decision.cancel.push_back(id);
    decision.notices.push_back("job " + id + " of Slurm runs, but " +
                               (job.first_contact
                                    ? "its workers have been gone for "
                                    : "no worker has connected in ") +
                               FormatDuration(limit) + "; canceling it");
  }
}

// Lets go up to `surplus` jobs: pending ones, the latest first, then those
// whose workers have been idle.
void JobPlan::Shrink(const JobSituation& situation, std::int64_t surplus,
                     JobDecision& decision) {
  if (surplus <= 0) {
    surplus_since_.reset();
    return;
  }
  if (!surplus_since_) surplus_since_ = situation.now;
  if (situation.now - *surplus_since_ < options_.idle_timeout) return;
  for (auto job = jobs_.rbegin(); job != jobs_.rend() && surplus > 0; ++job) {
    if (job->second.let_go || job->second.phase != Phase::kPending) continue;
    job->second.let_go = true;
    decision.cancel.push_back(job->first);
    --surplus;
  }
  for (const JobWorkers& workers : situation.workers) {
    const auto job = jobs_.find(workers.job);
    if (surplus <= 0) break;
    if (job == jobs_.end() || job->second.let_go || workers.used > 0 ||
        situation.now - workers.idle_since < options_.idle_timeout) {
      continue;
    }
    job->second.let_go = true;
    decision.release.push_back(job->first);
    --surplus;
  }
}

void JobPlan::ReportPending(const JobSituation& situation,
                            JobDecision& decision) {
  std::vector<const SlurmJob*> pending;
  for (const SlurmJob& job : situation.jobs) {
    if (job.phase == Phase::kPending && jobs_.count(job.id) > 0) {
      pending.push_back(&job);
    }
  }
  if (pending.empty()) {
    pending_reported_.reset();
    return;
  }
  // As if it had been reported, so that a short wait is not.
  if (!pending_reported_) {
    pending_reported_ = situation.now + kUnreportedWait - kPendingInterval;
  }
  if (situation.now - *pending_reported_ < kPendingInterval) return;
  pending_reported_ = situation.now;
  // "2 jobs of Slurm are pending: 1 Resources, 1 QOSMaxGRESPerUser".
  std::map<std::string, int> reasons;
  for (const SlurmJob* job : pending) ++reasons[job->reason];
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons) {
    const std::string word = reason.empty() ? "no reason given" : reason;
    parts.push_back(reasons.size() == 1 ? word
                                        : std::to_string(count) + " " + word);
  }
  decision.notices.push_back(
      CountText(std::ssize(pending),
                "job of Slurm is pending: ", "jobs of Slurm are pending: ") +
      EscapeForTerminal(Join(parts, ", ")));
}

JobDecision JobPlan::Decide(const JobSituation& situation) {
  JobDecision decision;
  Update(situation, decision);
  EndUselessJobs(situation.now, decision);
  const std::int64_t wanted = WantedJobs(situation);
  const std::int64_t live = std::ranges::count_if(
      jobs_, [](const auto& job) { return !job.second.let_go; });
  Shrink(situation, live - wanted, decision);
  ReportPending(situation, decision);
  const std::int64_t missing = std::max<std::int64_t>(wanted - live, 0);
  if (missing == 0 || !decision.silent.empty()) return decision;
  if (situation.now >= not_before_) {
    decision.submit = missing;
  } else {
    // Once for each pause.
    if (std::exchange(pause_reported_, not_before_) != not_before_) {
      decision.notices.push_back("the next job of Slurm is submitted in " +
                                 FormatDuration(not_before_ - situation.now));
    }
  }
  return decision;
}

}  // namespace dtrain
