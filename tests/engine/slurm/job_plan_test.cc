#include "engine/slurm/job_plan.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Plays Slurm: jobs with numbers from 1 on, in the states that a test sets.
class JobPlanTest : public testing::Test {
 protected:
  // Lets time pass, decides, and does as decided.
  JobDecision After(Duration time) {
    situation_.now += time;
    JobDecision decision = plan_.Decide(situation_);
    for (std::int64_t i = 0; i < decision.submit; ++i) {
      const std::string id = std::to_string(++last_);
      plan_.Submitted(id);
      situation_.jobs.push_back({.id = id, .state = "PENDING"});
    }
    for (const std::string& id : decision.cancel) Set(id, "CANCELLED");
    return decision;
  }
  JobDecision Now() { return After(Duration{0}); }
  void Set(const std::string& id, const std::string& state) {
    for (SlurmJob& job : situation_.jobs) {
      if (job.id != id) continue;
      job.state = state;
      job.phase = ParsePhase(state);
    }
    if (ParsePhase(state) != SlurmJob::Phase::kEnded) return;
    std::erase_if(situation_.workers,
                  [&](const JobWorkers& workers) { return workers.job == id; });
  }
  // The job runs and its workers have connected.
  void Connect(const std::string& id, std::int64_t slots, std::int64_t used) {
    Set(id, "RUNNING");
    situation_.workers.push_back({.job = id,
                                  .slots = slots,
                                  .used = used,
                                  .idle_since = situation_.now});
  }
  void Make(JobPlanOptions options) { plan_ = JobPlan(options); }

  JobPlan plan_{{.slots_per_job = 4}};
  JobSituation situation_{.now = seconds(1000)};
  int last_ = 0;
};

TEST_F(JobPlanTest, SubmitsNothingWithoutDemand) { EXPECT_EQ(Now().submit, 0); }

TEST_F(JobPlanTest, SubmitsAsManyJobsAsTheDemandFills) {
  situation_.demand = 9;
  EXPECT_EQ(Now().submit, 3);
  EXPECT_EQ(Now().submit, 0) << "they are pending";
  situation_.demand = 13;
  EXPECT_EQ(Now().submit, 1);
}

TEST_F(JobPlanTest, SubmitsAtMostMaxJobs) {
  situation_.demand = 1000;
  EXPECT_EQ(Now().submit, 8);
  EXPECT_EQ(After(minutes(1)).submit, 0);
}

TEST_F(JobPlanTest, KeepsMinJobs) {
  Make({.min_jobs = 2});
  EXPECT_EQ(Now().submit, 2);
  Connect("1", 4, 0);
  Connect("2", 4, 0);
  EXPECT_THAT(After(minutes(60)).release, IsEmpty());
}

TEST_F(JobPlanTest, CountsTheSlotsThatAJobHasShown) {
  situation_.demand = 4;
  Now();
  Connect("1", 2, 2);
  EXPECT_EQ(Now().submit, 1);
  situation_.workers[0].slots = 1;
  situation_.workers[0].complete = false;
  EXPECT_EQ(Now().submit, 0) << "more of its workers may come";
}

TEST_F(JobPlanTest, ReplacesAJobThatTimedOutAtOnce) {
  situation_.demand = 4;
  Now();
  Connect("1", 4, 4);
  Now();
  EXPECT_EQ(After(minutes(240)).submit, 0);
  Set("1", "TIMEOUT");
  const JobDecision decision = After(seconds(1));
  EXPECT_EQ(decision.submit, 1);
  EXPECT_THAT(decision.notices, IsEmpty());
}

TEST_F(JobPlanTest, ReplacesJobsThatEndEarlyAfterAGrowingPause) {
  situation_.demand = 4;
  Now();
  for (const int pause : {5, 10, 20}) {
    Connect(std::to_string(last_), 4, 4);
    After(seconds(1));
    Set(std::to_string(last_), "PREEMPTED");
    EXPECT_EQ(After(seconds(1)).submit, 0);
    EXPECT_EQ(After(seconds(pause - 1)).submit, 0) << pause;
    EXPECT_EQ(After(seconds(1)).submit, 1) << pause;
  }
}

TEST_F(JobPlanTest, JobsThatArePreemptedTogetherMakeOnePause) {
  situation_.demand = 16;
  ASSERT_EQ(Now().submit, 4);
  for (const char* id : {"1", "2", "3", "4"}) Connect(id, 4, 4);
  After(seconds(1));
  for (const char* id : {"1", "2", "3", "4"}) Set(id, "PREEMPTED");
  EXPECT_EQ(Now().submit, 0);
  EXPECT_EQ(After(seconds(5)).submit, 4);
}

TEST_F(JobPlanTest, AJobThatHasWorkedEndsThePause) {
  situation_.demand = 4;
  Now();
  Connect("1", 4, 4);
  Now();
  Set("1", "NODE_FAIL");
  Now();
  ASSERT_EQ(After(seconds(5)).submit, 1);
  Connect("2", 4, 4);
  Now();
  After(minutes(2));
  Set("2", "NODE_FAIL");
  EXPECT_EQ(Now().submit, 1);
  Connect("3", 4, 4);
  Now();
  Set("3", "NODE_FAIL");
  Now();
  EXPECT_EQ(After(seconds(5)).submit, 1) << "it begins with the first pause";
}

TEST_F(JobPlanTest, ReportsTheLastOfThreeSilentJobs) {
  situation_.demand = 4;
  Now();
  Set("1", "FAILED");
  JobDecision decision = Now();
  EXPECT_THAT(decision.notices,
              ElementsAre("job 1 of Slurm ended before a worker connected: "
                          "FAILED",
                          "the next job of Slurm is submitted in 5.0s"));
  EXPECT_THAT(After(seconds(1)).notices, IsEmpty()) << "it is said once";
  EXPECT_EQ(decision.silent, "");
  EXPECT_EQ(After(seconds(4)).submit, 1);
  Set("2", "FAILED");
  Now();
  EXPECT_EQ(After(seconds(10)).submit, 1);
  Set("3", "FAILED");
  decision = Now();
  EXPECT_EQ(decision.silent, "3");
  EXPECT_EQ(decision.submit, 0);
}

TEST_F(JobPlanTest, AConnectedWorkerEndsTheCountOfSilentJobs) {
  situation_.demand = 4;
  Now();
  for (int i = 0; i < 2; ++i) {
    Set(std::to_string(last_), "FAILED");
    Now();
    After(minutes(1));
  }
  Connect("3", 4, 4);
  Now();
  Set("3", "FAILED");
  Now();
  After(minutes(1));
  Set("4", "FAILED");
  EXPECT_EQ(Now().silent, "");
}

TEST_F(JobPlanTest, AWorkerThatWasThereBetweenTwoListsCounts) {
  situation_.demand = 4;
  Now();
  situation_.contacted = {"1"};
  Set("1", "CANCELLED");
  EXPECT_THAT(Now().notices,
              ElementsAre("the next job of Slurm is submitted in 5.0s"));
}

TEST_F(JobPlanTest, CancelsAJobWithoutWorkersAndCountsItAsSilent) {
  Make({.max_silent = 1});
  situation_.demand = 1;
  Now();
  Set("1", "RUNNING");
  Now();
  EXPECT_THAT(After(minutes(9)).cancel, IsEmpty());
  const JobDecision decision = After(minutes(1));
  EXPECT_THAT(decision.cancel, ElementsAre("1"));
  EXPECT_THAT(decision.notices[0], HasSubstr("no worker has connected in 10m"));
  EXPECT_EQ(Now().silent, "1");
}

TEST_F(JobPlanTest, CancelsAJobWhoseWorkersAreGoneAndReplacesIt) {
  situation_.demand = 1;
  Now();
  Connect("1", 4, 4);
  After(minutes(30));
  situation_.workers.clear();  // its node does not answer
  EXPECT_THAT(After(seconds(59)).cancel, IsEmpty());
  const JobDecision decision = After(seconds(1));
  EXPECT_THAT(decision.cancel, ElementsAre("1"));
  EXPECT_THAT(decision.notices,
              ElementsAre("job 1 of Slurm runs, but its workers have been gone "
                          "for 1m00s; canceling it"));
  EXPECT_EQ(decision.submit, 1);
  EXPECT_EQ(Now().silent, "");
}

TEST_F(JobPlanTest, ReleasesAnIdleJobAfterTheTimeout) {
  situation_.demand = 8;
  Now();
  Connect("1", 4, 4);
  Connect("2", 4, 0);
  situation_.demand = 4;
  EXPECT_THAT(Now().release, IsEmpty());
  EXPECT_THAT(After(seconds(59)).release, IsEmpty());
  EXPECT_THAT(After(seconds(1)).release, ElementsAre("2"));
  EXPECT_THAT(After(seconds(1)).release, IsEmpty()) << "it is released once";
  Set("2", "COMPLETED");
  const JobDecision decision = Now();
  EXPECT_THAT(decision.notices, IsEmpty());
  EXPECT_EQ(decision.submit, 0);
  situation_.demand = 8;
  EXPECT_EQ(Now().submit, 1);
}

TEST_F(JobPlanTest, KeepsASurplusJobWhoseWorkersWereJustBusy) {
  situation_.demand = 8;
  Now();
  Connect("1", 4, 4);
  Connect("2", 4, 4);
  situation_.demand = 4;
  Now();
  EXPECT_THAT(After(minutes(10)).release, IsEmpty()) << "both are busy";
  situation_.workers[1].used = 0;
  situation_.workers[1].idle_since = situation_.now;
  EXPECT_THAT(After(seconds(59)).release, IsEmpty());
  EXPECT_THAT(After(seconds(1)).release, ElementsAre("2"));
}

// Refusals, and jobs whose workers said nothing, are counted in a row.
TEST_F(JobPlanTest, AJobThatSlurmTakesEndsTheCountOfRefusals) {
  for (int i = 0; i < 2; ++i) plan_.Refused(situation_.now);
  EXPECT_EQ(plan_.refused(), 2);
  plan_.Submitted("1");
  EXPECT_EQ(plan_.refused(), 0);
  EXPECT_EQ(plan_.submitted(), 1);
}

TEST_F(JobPlanTest, SubmitsWhatTheDemandNeeds) {
  const std::pair<std::int64_t, std::int64_t> rows[] = {
      {0, 0}, {1, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}, {32, 8}, {33, 8}};
  for (const auto& [demand, jobs] : rows) {
    JobPlan plan({.slots_per_job = 4});
    EXPECT_EQ(plan.Decide({.now = seconds(1000), .demand = demand}).submit,
              jobs)
        << demand;
  }
}

TEST_F(JobPlanTest, KeepsAnIdleJobThatTheDemandNeeds) {
  situation_.demand = 4;
  Now();
  Connect("1", 4, 0);
  EXPECT_THAT(After(minutes(10)).release, IsEmpty());
}

TEST_F(JobPlanTest, ABriefDropOfTheDemandReleasesNothing) {
  situation_.demand = 8;
  Now();
  Connect("1", 4, 4);
  Connect("2", 4, 0);
  After(minutes(10));
  situation_.demand = 4;
  Now();
  EXPECT_THAT(After(seconds(30)).release, IsEmpty());
  situation_.demand = 8;
  Now();
  situation_.demand = 4;
  EXPECT_THAT(After(seconds(40)).release, IsEmpty());
}

TEST_F(JobPlanTest, CancelsTheLatestPendingJobsFirst) {
  Make({.max_jobs = 12});
  situation_.demand = 12;
  Now();
  Connect("1", 1, 1);
  situation_.demand = 3;
  Now();
  EXPECT_THAT(
      After(minutes(1)).cancel,
      UnorderedElementsAre("12", "11", "10", "9", "8", "7", "6", "5", "4"));
  EXPECT_EQ(Now().silent, "") << "they were not needed";
}

TEST_F(JobPlanTest, TriesAgainAfterARefusal) {
  situation_.demand = 1;
  plan_.Refused(situation_.now);
  EXPECT_EQ(After(seconds(4)).submit, 0);
  EXPECT_EQ(plan_.refused(), 1);
  EXPECT_EQ(After(seconds(1)).submit, 1);
  EXPECT_EQ(plan_.refused(), 0);
}

TEST_F(JobPlanTest, ReportsWhyJobsArePendingOnceAMinute) {
  situation_.demand = 8;
  Now();
  situation_.jobs[0].reason = "Resources";
  situation_.jobs[1].reason = "QOSMaxGRESPerUser";
  EXPECT_THAT(After(seconds(5)).notices, IsEmpty());
  EXPECT_THAT(After(seconds(15)).notices,
              ElementsAre("2 jobs of Slurm are pending: 1 QOSMaxGRESPerUser, 1 "
                          "Resources"));
  EXPECT_THAT(After(seconds(59)).notices, IsEmpty());
  Connect("2", 4, 4);
  EXPECT_THAT(After(seconds(1)).notices,
              ElementsAre("1 job of Slurm is pending: Resources"));
}

TEST_F(JobPlanTest, NamesJobsThatSlurmDoesNotList) {
  situation_.demand = 8;
  Now();
  EXPECT_THAT(plan_.Unlisted({{.id = "1"}}), ElementsAre("2"));
  Set("2", "FAILED");
  Now();
  EXPECT_THAT(plan_.Unlisted({{.id = "1"}}), IsEmpty());
}

TEST_F(JobPlanTest, IgnoresJobsOfOthers) {
  situation_.demand = 1;
  situation_.jobs.push_back({.id = "99", .state = "PENDING"});
  EXPECT_EQ(Now().submit, 1);
}

}  // namespace
}  // namespace dtrain
