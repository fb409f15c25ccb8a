// The commands of Slurm against a real controller with three nodes, and the
// reading of their output without one.

#include "engine/slurm/slurm.h"

#include <algorithm>
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
#include "engine/slurm/slurm_jobs.h"
#include "engine/slurm/worker_step.h"
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
  const std::pair<Phase, std::vector<std::string>> rows[] = {
      {Phase::kPending,
       {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
        "RESV_DEL_HOLD", "SPECIAL_EXIT"}},
      {Phase::kRunning,
       {"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
        "NEW_IN_A_LATER_VERSION"}},
      {Phase::kEnded,
       {"BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE",
        "EXPIRED", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "PREEMPTED",
        "OUT_OF_MEMORY", "TIMEOUT"}}};
  for (const auto& [phase, states] : rows) {
    for (const std::string& state : states) {
      EXPECT_EQ(ParsePhase(state), phase) << state;
    }
  }
}

// The first lines of an output say what was started, the last ones how it
// ended.
TEST(LastLinesTest, AreTheLastFive) {
  const TemporaryDirectory directory;
  const auto last_of = [&](const std::string& text) {
    std::ofstream(directory.path() / "out") << text;
    return LastLines(directory.path() / "out");
  };
  EXPECT_EQ(LastLines(directory.path() / "none"), "");
  EXPECT_EQ(last_of(""), "");
  EXPECT_EQ(last_of("1\n2\n"), "1; 2");
  EXPECT_EQ(last_of("1\n2\n3\n4\n5\n"), "1; 2; 3; 4; 5");
  EXPECT_EQ(last_of("1\n2\n\n3\n4\n  5 \n6\n7"), "3; 4; 5; 6; 7");
  EXPECT_EQ(last_of(std::string(5000, 'x') + "\n\x1b[2Jend\n"),
            std::string(4096 - 9, 'x') + "; \\x1b[2Jend");
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

// The commands of Slurm are scripts of the test, which need no controller.
class SlurmCommandsFakeTest : public testing::Test {
 protected:
  // Makes the command a script; its words are added to the file "calls".
  void Make(const std::string& command, const std::string& script) const {
    const auto path = directory_.path() / command;
    std::ofstream(path) << "#!/bin/sh\necho \"" + command + " $*\" >> " +
                               (directory_.path() / "calls").string() + "\n" +
                               script + "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // squeue lists job 7 in this state.
  void MakeSqueue(const std::string& state) const {
    Make("squeue", "echo '7|" + state + "|None|n1|1:00|dtrain-1|store.1'");
  }
  // Why a job would be refused; empty if it would not.
  std::string Refusal() const {
    try {
      slurm_.CheckSubmission(
          {.config = {.partition = "gpu"}, .script = "/none"});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
      return error.what();
    }
  }
  std::vector<std::string> Calls() const {
    std::ifstream file(directory_.path() / "calls");
    std::vector<std::string> calls;
    for (std::string line; std::getline(file, line);) calls.push_back(line);
    return calls;
  }

  TemporaryDirectory directory_;
  Slurm slurm_{
      {std::pair("PATH", directory_.path().string() + ":/bin:/usr/bin")},
      Patient(std::chrono::seconds(30))};
};

// As sbatch does where no controller can be found.
TEST_F(SlurmCommandsFakeTest, FailInOneLine) {
  Make("sbatch",
       "echo 'sbatch: error: fetch_config: DNS SRV lookup failed' >&2\n"
       "echo 'sbatch: error: failed to fetch config' >&2\n\n"
       "echo 'sbatch: fatal: no configuration source' >&2\n"
       "exit 1");
  EXPECT_EQ(Refusal(),
            "Slurm: sbatch: error: fetch_config: DNS SRV lookup failed; "
            "sbatch: error: failed to fetch config; sbatch: fatal: no "
            "configuration source");
  Make("sbatch", "exit 7");
  EXPECT_EQ(Refusal(), "Slurm: sbatch failed, exit code 7");
}

TEST_F(SlurmCommandsFakeTest, NodesThatStartNoJobsNowAreNoRefusal) {
  const std::string words = "Requested node configuration is not available";
  Make("sbatch", "echo '" + words + "' >&2; exit 1");
  const std::pair<std::string, bool> rows[] = {
      {"up|idle", true},        {"up|mixed\nup|allocated", true},
      {"up|drained", false},    {"up|idle\nup|draining", false},
      {"up|down", false},       {"up|maint", false},
      {"up|reserved", false},   {"up|unknown", false},
      {"up|idle*", false},      {"down|idle", false},
      {"inactive|idle", false}, {"up|fail", false}};
  for (const auto& [states, refused] : rows) {
    Make("sinfo", "printf '" + states + "\\n'");
    EXPECT_EQ(Refusal(), refused ? "Slurm: " + words : "") << states;
  }
  EXPECT_EQ(Calls().back(), "sinfo --noheader --format=%a|%T --partition=gpu");
  Make("sinfo", "exit 1");
  EXPECT_EQ(Refusal(), "Slurm: " + words);
}

TEST_F(SlurmCommandsFakeTest, SubmitReturnsTheNumberOfTheJob) {
  const auto submit = [this](const std::string& script) -> std::string {
    Make("sbatch", script);
    const auto answer = slurm_.Submit({.script = "/none"});
    if (const auto* id = std::get_if<std::string>(&answer)) return *id;
    const auto& failure = std::get<SlurmFailure>(answer);
    return (failure.away ? "away: " : "refused: ") + failure.text;
  };
  MakeSqueue("RUNNING");
  EXPECT_EQ(submit("echo 1234"), "1234");
  EXPECT_EQ(submit("echo '1234;cluster'; echo 5"), "1234");
  EXPECT_EQ(submit("echo hello 1"),
            "refused: sbatch printed 'hello 1' in place of the number of a "
            "job");
  EXPECT_EQ(submit("true"),
            "refused: sbatch printed '' in place of the number of a job");
  EXPECT_EQ(submit("echo no >&2; exit 1"), "refused: no");
  Make("squeue", "exit 1");
  EXPECT_EQ(submit("echo no >&2; exit 1"), "away: no");
}

TEST_F(SlurmCommandsFakeTest, CancelFailsOnlyForJobsThatLive) {
  const auto cancel = [this](const std::vector<std::string>& ids) {
    const auto failure = slurm_.Cancel(ids);
    if (!failure) return std::string("done");
    return (failure->away ? "away: " : "failed: ") + failure->text;
  };
  EXPECT_EQ(cancel({}), "done");
  EXPECT_THAT(Calls(), testing::IsEmpty());
  Make("scancel", "exit 0");
  EXPECT_EQ(cancel({"7", "8"}), "done");
  EXPECT_THAT(Calls(), testing::ElementsAre("scancel 7 8"));
  Make("scancel", "echo busy >&2; exit 1");
  const std::pair<std::string, std::string> rows[] = {
      {"RUNNING", "failed: busy"},
      {"PENDING", "failed: busy"},
      {"COMPLETING", "done"},
      {"CANCELLED", "done"}};
  for (const auto& [state, result] : rows) {
    MakeSqueue(state);
    EXPECT_EQ(cancel({"7", "8"}), result) << state;
  }
  MakeSqueue("RUNNING");
  EXPECT_EQ(cancel({"8"}), "done") << "7 is another's";
  Make("squeue", "exit 1");
  EXPECT_EQ(cancel({"7"}), "away: busy");
}

TEST_F(SlurmCommandsFakeTest, StateIsOfTheAccountingOrTheController) {
  Make("sacct", "echo 'CANCELLED by 0'; echo FAILED");
  Make("scontrol", "echo 'JobId=7 JobState=TIMEOUT Reason=None'");
  EXPECT_EQ(slurm_.FindState("7"), "CANCELLED");
  for (const char* script : {"exit 1", "exit 0"}) {
    Make("sacct", script);
    EXPECT_EQ(slurm_.FindState("7"), "TIMEOUT") << script;
  }
  EXPECT_EQ(Calls().back(), "scontrol --oneliner show job 7");
  Make("scontrol", "echo nothing");
  EXPECT_EQ(slurm_.FindState("7"), "");
}

TEST_F(SlurmCommandsFakeTest, JobsAreThoseOfTheUserAndTheOwner) {
  Make("squeue",
       "echo '1|RUNNING|None|n1|1:00|dtrain-1|store.1'\n"
       "echo '2|PENDING|None||1:00|dtrain-1|store.1'\n"
       "echo '3|COMPLETED|None|n1|1:00|dtrain-1|store.1'\n"
       "echo '4|RUNNING|None|n1|1:00|dtrain-2|store.2'");
  const auto answer = ListJobs(slurm_, "store.1");
  const auto& jobs = std::get<std::vector<SlurmJob>>(answer);
  EXPECT_THAT(jobs, testing::ElementsAre(Field(&SlurmJob::id, "1"),
                                         Field(&SlurmJob::id, "2")));
  EXPECT_EQ(Calls().back(), "squeue --noheader --states=all --user=" +
                                std::to_string(::getuid()) +
                                " --format=%A|%T|%r|%N|%L|%j|%k");
  Make("squeue", "echo gone >&2; exit 1");
  const auto failure = std::get<SlurmFailure>(slurm_.Jobs());
  EXPECT_EQ(failure.text, "gone");
  EXPECT_TRUE(failure.away);
}

TEST_F(SlurmCommandsFakeTest, ACommandThatHangsIsAway) {
  Make("squeue", "exec sleep 600");
  const Slurm slurm({std::pair("PATH", directory_.path().string() + ":/bin")},
                    std::chrono::milliseconds(200));
  const auto failure = std::get<SlurmFailure>(slurm.Jobs());
  EXPECT_TRUE(failure.away);
  EXPECT_EQ(failure.text, "squeue: no answer within 0.2s");
}

// Only a job that Slurm refuses counts as refused.
TEST_F(SlurmCommandsFakeTest, AnOutageAtTheSubmissionIsNoRefusal) {
  // The controller is away for two submissions and refuses the third.
  Make("sbatch",
       "[ $(grep -c sbatch " + (directory_.path() / "calls").string() +
           ") -gt 2 ] && echo no > " + (directory_.path() / "back").string() +
           "\necho no >&2; exit 1");
  Make("squeue", "test -e " + (directory_.path() / "back").string());
  SlurmJobs jobs({.request = {.owner = "store.1", .script = "/none"},
                  .plan = {.slots_per_job = 1,
                           .first_pause = std::chrono::milliseconds(1),
                           .max_pause = std::chrono::milliseconds(1)},
                  .slurm = slurm_,
                  .interval = std::chrono::milliseconds(1),
                  .end_patience = Duration(0)});
  jobs.Update(1, {});
  std::string failure;
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::seconds(10));
  while (failure.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    failure = jobs.Drain().failure;
  }
  EXPECT_EQ(failure, "Slurm refuses the jobs of the workers: no");
  EXPECT_EQ(
      std::ranges::count_if(
          Calls(), [](const auto& call) { return call.starts_with("sbatch"); }),
      5);
}

// The questions that nobody answers become rare, those after an outage do not.
TEST_F(SlurmCommandsFakeTest, AsksAsOftenAsBeforeAfterAnOutage) {
  Make("sbatch", "echo 7");
  Make("scancel", "true");
  Make("squeue", "[ $(grep -c squeue " +
                     (directory_.path() / "calls").string() +
                     ") -gt 13 ] || exit 1\n"
                     "echo '7|RUNNING|None|n1|1:00|dtrain-1|store.1'");
  SlurmJobs jobs({.request = {.owner = "store.1", .script = "/none"},
                  .plan = {.slots_per_job = 1},
                  .slurm = slurm_,
                  .interval = std::chrono::milliseconds(1),
                  .max_interval = std::chrono::hours(1),
                  .end_patience = Duration(0)});
  jobs.Update(1, {{.job = "7", .slots = 1, .used = 1}});
  const auto end =
      std::chrono::steady_clock::now() + Patient(std::chrono::seconds(10));
  while (Calls().size() < 50 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(Calls().size(), 50);
  EXPECT_THAT(jobs.Drain().notices,
              testing::ElementsAre(
                  HasSubstr("Slurm does not answer, trying again: squeue"),
                  "Slurm answers again"));
}

TEST_F(SlurmTest, StartsOneWorkerOnEachNode) {
  JobRequest request = RequestFor(
      {"sh", "-c", "echo $SLURMD_NODENAME $SLURM_JOB_END_TIME $KEY"});
  request.config.nodes = 3;
  request.variables = {{"KEY", "a b"}};
  const std::string id = Submit(request);

  EXPECT_EQ(Await(id, {"COMPLETED", "FAILED"}), "COMPLETED");
  const std::string output = ReadOutput(request, id);
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
  EXPECT_EQ(ReadOutput(request, id), "0,1\n");
}

TEST_F(SlurmTest, CancelSendsTermToTheWorker) {
  const JobRequest request =
      RequestFor({"sh", "-c",
                  "trap 'echo drained; exit 0' TERM; echo begun; "
                  "while :; do sleep 0.1; done"});
  const std::string id = Submit(request);
  ASSERT_EQ(Await(id, {"RUNNING"}), "RUNNING");
  while (ReadOutput(request, id).empty()) std::this_thread::yield();

  EXPECT_FALSE(slurm_->Cancel({id}));
  EXPECT_EQ(Await(id, {"CANCELLED"}), "CANCELLED");
  EXPECT_THAT(ReadOutput(request, id), HasSubstr("drained"));
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
  while (ReadOutput(request, id).empty()) std::this_thread::yield();

  cluster_->Run({"sbatch", "--partition=urgent", "--gpus-per-node=2",
                 "--output=/dev/null", "--wrap=true"});
  const std::string state = Await(id, {"PREEMPTED", "COMPLETED", "CANCELLED"});
  EXPECT_THAT(state, testing::AnyOf("PREEMPTED", "COMPLETED"));
  EXPECT_THAT(ReadOutput(request, id), HasSubstr("drained"));
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
