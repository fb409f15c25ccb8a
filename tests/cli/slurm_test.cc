// dtrain under a real Slurm with three nodes, all of them on this machine.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/patience.h"
#include "tests/support/slurm_cluster.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// These need no Slurm.
class SlurmDryRunTest : public testing::Test {
 protected:
  CliRunner dtrain_;
};

TEST_F(SlurmDryRunTest, PrintsTheJob) {
  dtrain_.Write("one.yaml",
                "entrypoint: ['true']\n"
                "searcher: {name: single, metric: loss}\n");
  const CliResult run =
      dtrain_.Run({"create", "one.yaml", "--executor", "slurm", "--slurm",
                   "partition=gpu", "--slurm", "max_jobs=3", "--dry-run"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("up to 1 job would be submitted"));
  EXPECT_THAT(run.out, HasSubstr("--partition=gpu"));
  EXPECT_THAT(run.out, HasSubstr("  exec srun --ntasks=1 "));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

// A search of commands; `searcher` has its keys but the metric.
std::string SlurmPlanYaml(const std::string& searcher,
                          const std::string& resources) {
  return "entrypoint: ['true']\n"
         "searcher: {metric: loss, max_trials: 100, " +
         searcher +
         "}\n"
         "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
         "resources: {" +
         resources + "}\n";
}

constexpr char kSlurmModelSearcher[] =
    "name: bayesian, max_length: {batches: 8}";

TEST_F(SlurmDryRunTest, ASearchByAModelFillsAllJobs) {
  dtrain_.Write("search.yaml",
                SlurmPlanYaml(kSlurmModelSearcher, "executor: slurm") +
                    "slurm: {max_jobs: 3, nodes: 2, cpus_per_task: 4}\n");
  const CliResult planned = dtrain_.Run({"create", "search.yaml", "--dry-run"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("  max_concurrent_trials: 24\n"));
  EXPECT_THAT(planned.out, HasSubstr("up to 3 jobs would be submitted"));
  const auto brackets = dtrain_.Run({"preview-search", "search.yaml", "--json"})
                            .Json()
                            .at("brackets");
  EXPECT_EQ(brackets.at(0).at("max_concurrent_trials"), 24);

  const CliResult pairs = dtrain_.Run({"create", "search.yaml", "--dry-run",
                                       "--set", "resources.slots_per_trial=2"});
  EXPECT_THAT(pairs.out, HasSubstr("  max_concurrent_trials: 12\n"));
}

TEST_F(SlurmDryRunTest, ASearchByAModelDoesNotKnowTheSlotsOfWorkers) {
  dtrain_.Write("search.yaml", SlurmPlanYaml(kSlurmModelSearcher,
                                             "slots: 'cpu:2', listen: 0"));
  const std::vector<std::string> words = {"create", "search.yaml", "--dry-run"};
  const CliResult run = dtrain_.Run(words);
  EXPECT_THAT(run.err, HasSubstr("warning: searcher.max_concurrent_trials: is "
                                 "not set, and the slots of workers are not "
                                 "known yet; at most 2 trials run at once"));
  EXPECT_THAT(run.out, HasSubstr("  max_concurrent_trials: 2\n"));

  const CliResult elsewhere = dtrain_.Run(
      {"create", "search.yaml", "--dry-run", "--set", "resources.local=false"});
  EXPECT_THAT(elsewhere.err, HasSubstr("at most 4 trials run at once"));
  const CliResult set =
      dtrain_.Run({"create", "search.yaml", "--dry-run", "--set",
                   "searcher.max_concurrent_trials=6"});
  EXPECT_EQ(set.err, "");
}

TEST_F(SlurmDryRunTest, SaysThatASearchCannotFillItsJobs) {
  dtrain_.Write("search.yaml",
                SlurmPlanYaml("name: random", "executor: slurm") +
                    "slurm: {gpus_per_node: 4, max_jobs: 8}\n");
  const CliResult run = dtrain_.Run({"create", "search.yaml", "--dry-run"});
  EXPECT_THAT(run.err,
              HasSubstr("note: searcher.max_concurrent_trials: at most 16 "
                        "trials run at once, and 8 jobs (slurm.max_jobs) would "
                        "have slots for 32; raise it to use more than 4 jobs"));
  EXPECT_THAT(run.out, HasSubstr("up to 4 jobs would be submitted"));

  const CliResult raised =
      dtrain_.Run({"create", "search.yaml", "--dry-run", "--set",
                   "searcher.max_concurrent_trials=32"});
  EXPECT_EQ(raised.err, "");
  EXPECT_THAT(raised.out, HasSubstr("up to 8 jobs would be submitted"));
}

TEST_F(SlurmDryRunTest, CreateSaysWhereSbatchWasSearchedFor) {
  dtrain_.Write("one.yaml",
                "entrypoint: ['true']\n"
                "searcher: {name: single, metric: loss}\n"
                "resources: {executor: slurm}\n");
  const CliResult run = dtrain_.Run({"create", "one.yaml"},
                                    {.environment = {{"PATH", "/no/such"}}});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("sbatch: not found in PATH (/no/such)"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(SlurmDryRunTest, AnIntervalThatIsTooShortCreatesNothing) {
  dtrain_.Write("one.yaml",
                "entrypoint: ['true']\n"
                "searcher: {name: single, metric: loss}\n"
                "resources: {executor: slurm}\n");
  for (const std::string interval : {"soon", "99ms"}) {
    const CliResult run =
        dtrain_.Run({"create", "one.yaml"},
                    {.environment = {{"DTRAIN_SLURM_INTERVAL", interval}}});
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("DTRAIN_SLURM_INTERVAL: '" + interval));
  }
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(SlurmDryRunTest, SaysWhichKeysAnAllocationIgnores) {
  dtrain_.Write("search.yaml",
                SlurmPlanYaml("name: random", "executor: slurm") +
                    "slurm: {partition: nope, gpus_per_node: 4, nodes: 2}\n");
  const CliResult run = dtrain_.Run(
      {"create", "search.yaml", "--dry-run"},
      {.environment = {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}}});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err,
              HasSubstr("in allocation 7 of Slurm: uses its 3 nodes and "
                        "submits no jobs; slurm.partition, slurm.nodes have no "
                        "effect\n"));
}

TEST_F(SlurmDryRunTest, AWrongExecutorOrAddressIsOneError) {
  dtrain_.Write("search.yaml",
                SlurmPlanYaml("name: random", "executor: slurm") +
                    "slurm: {partition: gpu}\n");
  const CliResult executor =
      dtrain_.Run({"create", "search.yaml", "--executor", "slrum"});
  EXPECT_EQ(executor.code, 2);
  EXPECT_THAT(executor.err, HasSubstr("slrum"));
  EXPECT_THAT(executor.err, testing::Not(HasSubstr("has no effect")));
  const CliResult address =
      dtrain_.Run({"create", "search.yaml", "--listen", "abc"});
  EXPECT_EQ(address.code, 2);
  EXPECT_THAT(address.err, HasSubstr("abc"));
  EXPECT_THAT(address.err, testing::Not(HasSubstr("resources.local")));
}

class SlurmCliTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = StartSlurm(cluster_);
    if (!why.empty()) GTEST_SKIP() << why;
  }
  CliResult Run(const std::vector<std::string>& words) const {
    return RunWith(cluster_->environment(), words);
  }
  CliResult RunWith(
      const std::vector<std::pair<std::string, std::string>>& more,
      const std::vector<std::string>& words) const {
    std::map<std::string, std::string> environment(more.begin(), more.end());
    environment["DTRAIN_SLURM_INTERVAL"] = "200ms";
    environment["TMPDIR"] = temporary_.path().string();
    return dtrain_.RunProgram(words, {.environment = std::move(environment)});
  }
  // Waits until the list of jobs of experiment 1 contains `text`.
  nlohmann::json AwaitJobs(const std::string& text) const {
    const auto end =
        std::chrono::steady_clock::now() + Patient(std::chrono::seconds(60));
    nlohmann::json jobs;
    while (jobs.dump().find(text) == std::string::npos &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      jobs = dtrain_.Run({"workers", "1", "--json"}).Json().at("jobs");
    }
    return jobs;
  }
  // The script that starts the workers of experiment 1.
  std::string Script() const {
    std::ifstream file(dtrain_.store() / "experiments/1/slurm/worker.sh");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Waits until the workers have removed the files of their slots.
  bool SlotsAreRemoved() const {
    const auto end =
        std::chrono::steady_clock::now() + Patient(std::chrono::minutes(1));
    while (!std::filesystem::is_empty(temporary_.path())) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  CliRunner dtrain_;
  TemporaryDirectory temporary_;  // of jobs
  std::optional<SlurmCluster> cluster_;
};

TEST_F(SlurmCliTest, OneCommandRunsInOneTaskOnly) {
  dtrain_.Write("command.yaml",
                "entrypoint: ['true']\n"
                "searcher: {name: single, metric: loss}\n");
  const CliResult two =
      Run({"srun", "--ntasks=2", "dtrain", "create", "command.yaml"});
  EXPECT_EQ(two.code, 2) << two.err;
  EXPECT_THAT(two.err, HasSubstr("srun started 2 tasks: a command runs as one "
                                 "process on one machine"));
  EXPECT_THAT(two.err, HasSubstr("start one task ('srun -n1')"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));

  const CliResult one =
      Run({"srun", "--ntasks=1", "dtrain", "create", "command.yaml"});
  EXPECT_THAT(one.err, HasSubstr("experiment 1")) << one.code;
}

// A search of programs that report a loss, on workers of one CPU slot each.
// Each node has its own directory for the locks of slots, as machines have.
std::string SlurmSearchYaml(int trials, const std::string& slurm) {
  return "name: search\n"
         "entrypoint: ['sh', '-c', 'sleep 0.5; echo loss=$DTRAIN_HPARAM_lr']\n"
         "searcher: {name: random, metric: loss, max_trials: " +
         std::to_string(trials) +
         "}\n"
         "metrics: {loss: 'loss=(\\S+)'}\n"
         "hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}\n"
         "resources: {executor: slurm, slots: 'cpu:1', listen: "
         "'127.0.0.1:0'}\n"
         "slurm: {time: 5, grace: 10, " +
         slurm + "}\n";
}

TEST_F(SlurmCliTest, ASearchUsesAllNodesAndLeavesNoJobs) {
  dtrain_.Write("search.yaml",
                SlurmSearchYaml(6, "max_jobs: 3, cpus_per_task: 2"));
  const CliResult run = Run({"dtrain", "create", "search.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto trials = dtrain_.Run({"trials", "1", "--json"}).Json();
  EXPECT_EQ(trials.at("trials").size(), 6);
  EXPECT_EQ(cluster_->Run({"squeue", "--noheader", "--states=running,pending"}),
            "");
  EXPECT_TRUE(SlotsAreRemoved());
}

TEST_F(SlurmCliTest, AnAllocationIsUsedWithoutAnyJob) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(4, "partition: nix"));
  const CliResult run = Run({"salloc", "--nodes=1", "--ntasks-per-node=1",
                             "dtrain", "create", "search.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(cluster_->Run({"squeue", "--noheader", "--states=all"}),
              Not(HasSubstr("dtrain-1")));
  EXPECT_THAT(Script(),
              testing::ContainsRegex("SLURM_JOB_END_TIME:-[1-9][0-9]{9,}}"))
      << "its workers know its end";
}

TEST_F(SlurmCliTest, APendingJobIsListedWithSlurmsReason) {
  dtrain_.Write("search.yaml",
                SlurmSearchYaml(1, "sbatch_args: [--hold], idle_timeout: 10m"));
  ASSERT_EQ(Run({"dtrain", "create", "search.yaml", "--detach"}).code, 0);
  const nlohmann::json jobs = AwaitJobs("JobHeldUser");
  const std::string table = dtrain_.Run({"workers", "1"}).out;
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);

  ASSERT_EQ(jobs.size(), 1);
  EXPECT_EQ(jobs[0].at("state"), "pending");
  EXPECT_EQ(jobs[0].at("reason"), "JobHeldUser");
  EXPECT_EQ(jobs[0].at("nodes"), nullptr);
  EXPECT_THAT(table, HasSubstr("pending (JobHeldUser)"));
  EXPECT_EQ(cluster_->Run({"squeue", "--noheader", "--states=running,pending"}),
            "");
  EXPECT_TRUE(SlotsAreRemoved());
}

TEST_F(SlurmCliTest, AJobWithoutAWorkerIsStarting) {
  const auto gate = temporary_.path() / "gate";
  dtrain_.Write(
      "search.yaml",
      SlurmSearchYaml(1, "max_jobs: 1, prologue: ['until [ -e " +
                             gate.string() + " ]; do sleep 0.1; done']"));
  ASSERT_EQ(Run({"dtrain", "create", "search.yaml", "--detach"}).code, 0);
  const nlohmann::json jobs = AwaitJobs("running");
  const std::string table = dtrain_.Run({"workers", "1"}).out;
  std::ofstream(gate) << "open";
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 0);
  std::filesystem::remove(gate);

  ASSERT_EQ(jobs.size(), 1);
  EXPECT_EQ(jobs[0].at("state"), "running");
  EXPECT_EQ(jobs[0].at("reason"), nullptr);
  EXPECT_THAT(jobs[0].at("nodes").get<std::string>(),
              testing::StartsWith("127.0.0."));
  EXPECT_THAT(table, testing::ContainsRegex("127\\.0\\.0\\.[123] .*starting"));
  EXPECT_TRUE(SlotsAreRemoved());
}

TEST_F(SlurmCliTest, SlurmRecordsTheJobOfACompleteSearchAsCompleted) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(2, "max_jobs: 1"));
  const CliResult run = Run({"dtrain", "create", "search.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(
      cluster_->Run({"scontrol", "show", "job"}),
      AllOf(HasSubstr("JobName=dtrain-1"), HasSubstr("JobState=COMPLET"),
            HasSubstr("ExitCode=0:0"), Not(HasSubstr("CANCELLED"))));
}

TEST_F(SlurmCliTest, ResumingNeedsTheController) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "max_jobs: 1"));
  ASSERT_EQ(Run({"dtrain", "create", "search.yaml", "--paused"}).code, 0);
  cluster_->StopController();
  const CliResult run =
      RunWith(cluster_->impatient_environment(), {"dtrain", "resume", "1"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err,
              HasSubstr("jobs of an earlier run could not be canceled: "
                        "try again when Slurm answers"));
  const auto list = dtrain_.Run({"list", "--json"}).Json();
  EXPECT_EQ(list.at("experiments").at(0).at("state"), "PAUSED");
}

TEST_F(SlurmCliTest, ARefusalLeavesNothingBehind) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "partition: nix"));
  const CliResult run = Run({"dtrain", "create", "search.yaml"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("invalid partition specified: nix"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(SlurmCliTest, APausedExperimentIsCheckedToo) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "partition: nix"));
  const CliResult run = Run({"dtrain", "create", "search.yaml", "--paused"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("Slurm: "));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(SlurmCliTest, NodesThatAreDrainedAreNoRefusal) {
  cluster_->Run(
      {"scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=test"});
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "max_jobs: 1"));
  const CliResult run = Run({"dtrain", "create", "search.yaml", "--paused"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: some nodes start no jobs now"));
}

TEST_F(SlurmCliTest, AnAllocationThatHasEndedCreatesNothing) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "max_jobs: 1"));
  std::vector<std::pair<std::string, std::string>> environment =
      cluster_->environment();
  environment.emplace_back("SLURM_JOB_ID", "99999");
  const CliResult run =
      RunWith(environment, {"dtrain", "create", "search.yaml"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("SLURM_JOB_ID=99999: there is no such "
                                 "allocation of Slurm any more; unset "
                                 "SLURM_JOB_ID to submit jobs"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

// The walltime is a minute, of which the workers leave 55 s unused.
TEST_F(SlurmCliTest, TheEndOfAnAllocationPausesTheExperiment) {
  dtrain_.Write("long.yaml",
                "entrypoint: ['sleep', '1000']\n"
                "searcher: {name: single, metric: loss}\n"
                "resources: {executor: slurm, slots: 'cpu:1', listen: "
                "'127.0.0.1:0'}\n"
                "slurm: {grace: 55}\n");
  const CliResult run = Run({"salloc", "--nodes=1", "--ntasks-per-node=1",
                             "--time=1", "dtrain", "create", "long.yaml"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the time of allocation "));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("srun has ended")));
  const auto list = dtrain_.Run({"list", "--json"}).Json();
  EXPECT_EQ(list.at("experiments").at(0).at("state"), "PAUSED");
}

TEST_F(SlurmCliTest, JobsWithoutTheirGpusPauseTheExperiment) {
  dtrain_.Write("search.yaml", SlurmSearchYaml(1, "max_jobs: 1"));
  const CliResult run = Run(
      {"dtrain", "create", "search.yaml", "--set", "resources.slots=gpu:64"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no worker of the last 3 jobs of Slurm has "
                                 "connected"));
  EXPECT_THAT(run.err, HasSubstr("asks for 64 GPUs"));
}

#ifdef DTRAIN_HAS_TRIALS

// A search of 200 trials, of 2 s or 8 s each, on three jobs of two slots. At
// its end some slots wait for the last trials.
constexpr char kLongSearchYaml[] =
    "name: scale\n"
    "entrypoint: builtin:FaultTrial\n"
    "hyperparameters:\n"
    "  x: {type: double, minval: 0, maxval: 1}\n"
    "  step_ms: 200\n"
    "searcher: {name: asha, metric: loss, max_length: {batches: 40},\n"
    "  num_rungs: 2, divisor: 4, max_trials: 200, max_concurrent_trials: 6}\n"
    "scheduling_unit: 10\n"
    "reproducibility: {experiment_seed: 11}\n"
    "resources: {executor: slurm, slots: 'cpu:2', listen: '127.0.0.1:0'}\n"
    "slurm:\n"
    "  time: 30\n"
    "  max_jobs: 3\n"
    "  gpus_per_node: 2\n"
    "  cpus_per_task: 2\n";

class SlurmScaleTest : public SlurmCliTest {
 protected:
  void SetUp() override {
    if (std::getenv("DTRAIN_TEST_SCALE") == nullptr) {
      GTEST_SKIP() << "takes two minutes (DTRAIN_TEST_SCALE=1)";
    }
    SlurmCliTest::SetUp();
  }
  // Share of the time, from the first start to the last end of a trial, that
  // `slots` were in use.
  double BusyShare(double slots) const {
    double used = 0;
    Timestamp start = Timestamp::max();
    Timestamp end{0};
    const StoreLayout layout(dtrain_.store());
    for (const TrialRow& trial : Store::OpenForReading(layout).Trials(1)) {
      used += trial.seconds;
      start = std::min(start, trial.started.value());
      end = std::max(end, trial.ended.value());
    }
    return used / slots / std::chrono::duration<double>(end - start).count();
  }
};

TEST_F(SlurmScaleTest, KeepsTheSlotsBusyWithThreeJobs) {
  dtrain_.Write("search.yaml", kLongSearchYaml);
  const CliResult run = Run({"dtrain", "create", "search.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;

  const double busy = BusyShare(6);
  const std::string jobs =
      cluster_->Run({"squeue", "--noheader", "--states=all", "--format=%i %j"});
  std::cout << "slots in use: " << 100 * busy << " % of the time\njobs:\n"
            << jobs;
  // One slot that stays idle makes it 0.83; a machine with ten runnable
  // processes on two cores 0.93.
  EXPECT_GE(busy, 0.9);
  EXPECT_LE(std::ranges::count(jobs, '\n'), 3);
}

// LeNet on drawn digits.
std::string DigitsYaml(const std::string& resources) {
  return "entrypoint: digits:LeNetTrial\n"
         "hyperparameters: {global_batch_size: 20, lr: 0.1}\n"
         "searcher: {name: single, metric: val_loss, max_length: {batches: "
         "5}}\n"
         "reproducibility: {experiment_seed: 3}\n"
         "resources: {" +
         resources + "}\n";
}

TEST_F(SlurmCliTest, TasksOnTwoNodesTrainOneModelWithoutAnyVariable) {
  dtrain_.Write("one.yaml", DigitsYaml("slots: cpu:2, slots_per_trial: 2"));
  dtrain_.Write("two.yaml", DigitsYaml("slots: cpu:2, slots_per_trial: 1"));
  const CliResult alone = dtrain_.Run({"create", "one.yaml"});
  ASSERT_EQ(alone.code, 0) << alone.err;

  const CliResult run = Run({"srun", "--nodes=2", "--ntasks-per-node=1",
                             "dtrain", "create", "two.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ReadMetrics(dtrain_, "2.1").count({"training", 5, "loss"}), 1);
  EXPECT_EQ(ReadMetrics(dtrain_, "1.1"), ReadMetrics(dtrain_, "2.1"));
}

// The variables of an allocation suffice: the checks ask Slurm nothing.
class SlurmAllocationTest : public SlurmDryRunTest {
 protected:
  // Allocation 7, which Slurm lists as running.
  CliResult In(const std::string& nodes,
               const std::vector<std::string>& words) const {
    const auto squeue = dtrain_.Write(
        "squeue",
        "#!/bin/bash\necho '7|RUNNING|None|n1|1:00:00|dtrain-1|other'\n");
    std::filesystem::permissions(squeue, std::filesystem::perms(0700));
    return dtrain_.Run(
        words, {.environment = {
                    {"PATH", squeue.parent_path().string() + ":/usr/bin:/bin"},
                    {"SLURM_JOB_ID", "7"},
                    {"SLURM_JOB_NUM_NODES", nodes}}});
  }
  void WriteModel(const std::string& max_jobs) const {
    dtrain_.Write("model.yaml",
                  DigitsYaml("slots_per_trial: 4, executor: slurm") +
                      "slurm: {cpus_per_task: 2, max_jobs: " + max_jobs +
                      "}\n");
  }
};

TEST_F(SlurmAllocationTest, TrialMayHaveMoreSlotsThanMaxJobs) {
  WriteModel("1");
  EXPECT_EQ(dtrain_.Run({"create", "model.yaml", "--dry-run"}).code, 2);
  EXPECT_EQ(In("2", {"create", "model.yaml", "--dry-run"}).code, 0);
  EXPECT_EQ(In("2", {"validate", "model.yaml"}).code, 0);
}

TEST_F(SlurmAllocationTest, TrialThatNeedsMoreNodesIsRefused) {
  WriteModel("8");
  const std::string why =
      "resources.slots_per_trial: a trial takes 4 slots, and the nodes of "
      "this allocation have 2 (1 × 2); use a larger allocation";
  for (const std::string option : {"--dry-run", "--json"}) {
    const CliResult run = In("1", {"create", "model.yaml", option});
    EXPECT_EQ(run.code, 6) << run.err;
    EXPECT_THAT(run.err, HasSubstr(why));
  }
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
  EXPECT_THAT(In("1", {"validate", "model.yaml"}).err, HasSubstr(why));
}

TEST_F(SlurmAllocationTest, ResumingNeedsTheNodes) {
  WriteModel("1");
  ASSERT_EQ(In("2", {"create", "model.yaml", "--paused"}).code, 0);
  const CliResult small = In("1", {"resume", "1"});
  EXPECT_EQ(small.code, 6) << small.err;
  EXPECT_THAT(small.err, HasSubstr("this allocation have 2 (1 × 2)"));
  const CliResult outside = dtrain_.Run({"resume", "1"});
  EXPECT_EQ(outside.code, 6) << outside.err;
  EXPECT_THAT(outside.err, HasSubstr("the nodes of all jobs have 2 (1 × 2)"));
  const auto list = dtrain_.Run({"list", "--json"}).Json();
  EXPECT_EQ(list.at("experiments").at(0).at("state"), "PAUSED");
}

TEST_F(SlurmCliTest, TrialIsDividedBetweenTheNodesOfTwoJobs) {
  // With as many slots as CPUs, each has one thread, as a worker's has.
  const unsigned cpus = std::max(std::thread::hardware_concurrency(), 2U);
  dtrain_.Write("one.yaml", DigitsYaml("slots_per_trial: 2, slots: cpu:" +
                                       std::to_string(cpus)));
  dtrain_.Write("jobs.yaml",
                DigitsYaml("slots_per_trial: 2, slots: cpu:1, executor: slurm, "
                           "listen: '127.0.0.1:0'") +
                    "slurm: {time: 5, grace: 10, max_jobs: 2}\n");
  const CliResult alone = dtrain_.Run({"create", "one.yaml"});
  ASSERT_EQ(alone.code, 0) << alone.err;

  const CliResult run = Run({"dtrain", "create", "jobs.yaml"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("with 1 of the 2 slots of a trial"));
  EXPECT_EQ(ReadMetrics(dtrain_, "2.1").count({"training", 5, "loss"}), 1);
  EXPECT_EQ(ReadMetrics(dtrain_, "1.1"), ReadMetrics(dtrain_, "2.1"));
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain
