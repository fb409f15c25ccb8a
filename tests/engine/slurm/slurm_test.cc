// The commands of Slurm against a real controller with three nodes, and the
// reading of their output without one.

#include "engine/slurm/slurm.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/slurm/job_request.h"
#include "tests/engine/slurm/slurm_fixture.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using Phase = SlurmJob::Phase;

TEST(ParseJobsTest, ReadsAPendingAndARunningJob) {
  const auto jobs = ParseJobs(
      "12|PENDING|QOSMaxGRESPerUser||4:00:00|dtrain-7|store.7\n"
      "13|RUNNING|None|n[1-3]|1-02:03:04|dtrain-7|a|b\n");
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0], (SlurmJob{.id = "12",
                               .phase = Phase::kPending,
                               .state = "PENDING",
                               .reason = "QOSMaxGRESPerUser",
                               .left = std::chrono::hours(4),
                               .name = "dtrain-7",
                               .owner = "store.7"}));
  EXPECT_EQ(jobs[1].phase, Phase::kRunning);
  EXPECT_EQ(jobs[1].nodes, "n[1-3]");
  EXPECT_EQ(jobs[1].left, std::chrono::seconds(93784));
  EXPECT_EQ(jobs[1].owner, "a|b");
}

TEST(ParseJobsTest, AnEmptyCommentIsEmpty) {
  EXPECT_EQ(
      ParseJobs("1|FAILED|NonZeroExitCode|n1|INVALID|x|(null)\n").at(0).owner,
      "");
}

TEST(ParseJobsTest, SkipsOtherLines) {
  EXPECT_TRUE(ParseJobs("").empty());
  EXPECT_TRUE(ParseJobs("slurm is busy\n\n1|PENDING|None\n").empty());
  EXPECT_EQ(ParseJobs("1|PENDING|None||0:00|a|b").size(), 1);
}

TEST(PhaseOfTest, KnowsSlurmsStates) {
  EXPECT_EQ(PhaseOf("CONFIGURING"), Phase::kPending);
  EXPECT_EQ(PhaseOf("REQUEUE_HOLD"), Phase::kPending);
  EXPECT_EQ(PhaseOf("RUNNING"), Phase::kRunning);
  EXPECT_EQ(PhaseOf("SUSPENDED"), Phase::kRunning);
  EXPECT_EQ(PhaseOf("TIMEOUT"), Phase::kEnded);
  EXPECT_EQ(PhaseOf("OUT_OF_MEMORY"), Phase::kEnded);
  EXPECT_EQ(PhaseOf("NEW_IN_A_LATER_VERSION"), Phase::kRunning);
}

TEST(SlurmCommandsTest, SayWhereTheyAreSearchedFor) {
  const Slurm slurm({std::pair("PATH", "/no/such:/usr/none")});
  try {
    slurm.CheckSubmission({.script = "/none"});
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(),
                HasSubstr("sbatch: not found in PATH (/no/such:/usr/none)"));
  }
  EXPECT_TRUE(std::get<SlurmFailure>(slurm.Jobs()).away);
}

// As sbatch does where no controller can be found.
TEST(SlurmCommandsTest, FailInOneLine) {
  const TemporaryDirectory directory;
  const auto sbatch = directory.path() / "sbatch";
  std::ofstream(sbatch)
      << "#!/bin/sh\n"
         "echo 'sbatch: error: fetch_config: DNS SRV lookup failed' >&2\n"
         "echo 'sbatch: error: failed to fetch config' >&2\n\n"
         "echo 'sbatch: fatal: no configuration source' >&2\n"
         "exit 1\n";
  std::filesystem::permissions(sbatch, std::filesystem::perms::owner_all);
  const Slurm slurm({std::pair("PATH", directory.path().string())});
  try {
    slurm.CheckSubmission({.script = "/none"});
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_STREQ(error.what(),
                 "Slurm: sbatch: error: fetch_config: DNS SRV lookup failed; "
                 "sbatch: error: failed to fetch config; sbatch: fatal: no "
                 "configuration source");
  }
}

TEST_F(SlurmTest, StartsOneWorkerOnEachNode) {
  JobRequest request = RequestFor(
      {"sh", "-c", "echo $SLURMD_NODENAME $SLURM_JOB_END_TIME $KEY"});
  request.config.nodes = 3;
  request.variables = {{"KEY", "a b"}};
  const std::string id = Submit(request);

  EXPECT_EQ(Await(id, {"COMPLETED", "FAILED"}), "COMPLETED");
  const std::string output = OutputOf(request, id);
  EXPECT_THAT(output, AllOf(HasSubstr(": 127.0.0.1 "), HasSubstr("127.0.0.2 "),
                            HasSubstr("127.0.0.3 "), HasSubstr(" a b\n")));
  const auto job = Find(id);
  EXPECT_EQ(job->phase, Phase::kEnded);
  EXPECT_EQ(job->owner, "store.7");
  EXPECT_EQ(job->name, "dtrain-7");
}

TEST_F(SlurmTest, SharesOutTheGpusOfANode) {
  JobRequest request = RequestFor({"sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
  request.config.gpus_per_node = 2;
  const std::string id = Submit(request);
  EXPECT_EQ(Await(id, {"COMPLETED", "FAILED"}), "COMPLETED");
  EXPECT_EQ(OutputOf(request, id), "0,1\n");
}

TEST_F(SlurmTest, CancelSendsTermToTheWorker) {
  const JobRequest request =
      RequestFor({"sh", "-c",
                  "trap 'echo drained; exit 0' TERM; echo begun; "
                  "while :; do sleep 0.1; done"});
  const std::string id = Submit(request);
  ASSERT_EQ(Await(id, {"RUNNING"}), "RUNNING");
  while (OutputOf(request, id).empty()) std::this_thread::yield();

  EXPECT_FALSE(slurm_->Cancel({id}));
  EXPECT_EQ(Await(id, {"CANCELLED"}), "CANCELLED");
  EXPECT_THAT(OutputOf(request, id), HasSubstr("drained"));
  EXPECT_FALSE(slurm_->Cancel({id})) << "it has ended already";
  EXPECT_EQ(slurm_->FindState(id), "CANCELLED");
}

TEST_F(SlurmTest, ReportsWhyAJobIsPending) {
  JobRequest request = RequestFor({"sleep", "600"});
  request.config.nodes = 3;
  request.config.gpus_per_node = 2;
  Submit(request);
  const std::string second = Submit(request);
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::minutes(1));
  while (std::chrono::steady_clock::now() < end &&
         Find(second)->reason != "Resources") {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(Find(second)->reason, "Resources");
  EXPECT_EQ(Find(second)->phase, Phase::kPending);
}

TEST_F(SlurmTest, PreemptionSignalsTheWorkerAndDoesNotRequeue) {
  JobRequest request =
      RequestFor({"sh", "-c",
                  "trap 'echo drained; exit 0' USR2; echo begun; "
                  "while :; do sleep 0.1; done"});
  request.config.partition = "scav";
  request.config.nodes = 3;
  request.config.gpus_per_node = 2;
  const std::string id = Submit(request);
  ASSERT_EQ(Await(id, {"RUNNING"}), "RUNNING");
  while (OutputOf(request, id).empty()) std::this_thread::yield();

  cluster_->Run({"sbatch", "--partition=urgent", "--gpus-per-node=2",
                 "--output=/dev/null", "--wrap=true"});
  const std::string state = Await(id, {"PREEMPTED", "COMPLETED", "CANCELLED"});
  EXPECT_THAT(state, testing::AnyOf("PREEMPTED", "COMPLETED"));
  EXPECT_THAT(OutputOf(request, id), HasSubstr("drained"));
}

TEST_F(SlurmTest, AnUnknownPartitionIsRefusedInSlurmsWords) {
  JobRequest request = RequestFor({"true"});
  slurm_->CheckSubmission(request);
  request.config.partition = "nix";
  try {
    slurm_->CheckSubmission(request);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("invalid partition specified: nix"),
                      Not(HasSubstr("\n"))));
  }
  const auto answer = slurm_->Submit(request);
  EXPECT_FALSE(std::get<SlurmFailure>(answer).away);
  EXPECT_EQ(cluster_->Run({"squeue", "--noheader", "--states=pending,running"}),
            "");
}

TEST_F(SlurmTest, AControllerThatRestartsIsAwayAndKeepsItsJobs) {
  const JobRequest request = RequestFor({"sleep", "600"});
  const std::string id = Submit(request);
  cluster_->StopController();

  const Slurm impatient(cluster_->impatient_environment());
  EXPECT_TRUE(std::get<SlurmFailure>(impatient.Jobs()).away);
  const auto submitted = impatient.Submit(request);
  EXPECT_TRUE(std::get<SlurmFailure>(submitted).away);
  EXPECT_THAT(std::get<SlurmFailure>(submitted).text,
              HasSubstr("Unable to contact slurm controller"));

  cluster_->StartController();
  EXPECT_EQ(Await(id, {"RUNNING"}), "RUNNING");
}

TEST_F(SlurmTest, VariablesOfTheUserDoNotChangeWhatIsRead) {
  auto environment = cluster_->environment();
  environment.insert(environment.end(),
                     {{"SQUEUE_FORMAT", "%A"}, {"SQUEUE_PARTITION", "urgent"}});
  const Slurm slurm(environment);
  const std::string id = Submit(RequestFor({"sleep", "600"}));
  const auto jobs = std::get<std::vector<SlurmJob>>(slurm.Jobs());
  EXPECT_THAT(jobs, Contains(Field(&SlurmJob::id, id)));
  EXPECT_EQ(slurm.FindState("999999"), "") << "it has no such job";
}

}  // namespace
}  // namespace dtrain
