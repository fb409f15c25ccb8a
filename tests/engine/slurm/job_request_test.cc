#include "engine/slurm/job_request.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

JobRequest WorkersOfSeven() {
  return {.name = "dtrain-7",
          .owner = "store.7",
          .worker = {"/opt/dtrain", "worker", "--connect", "node1:4000"},
          .script = "/data/7/worker.sh",
          .directory = "/data/7"};
}

TEST(JobRequestTest, AsksOnlyForWhatIsConfigured) {
  EXPECT_THAT(
      WorkersOfSeven().SubmitCommand(),
      ElementsAre("sbatch", "--parsable", "--no-requeue", "--open-mode=append",
                  "--signal=USR2@120", "--job-name=dtrain-7",
                  "--comment=store.7", "--output=/data/7/slurm-%j.out",
                  "--time=04:00:00", "--nodes=1", "--ntasks-per-node=1",
                  "/data/7/worker.sh"));
}

TEST(JobRequestTest, PassesEachSetting) {
  JobRequest request = WorkersOfSeven();
  request.config = {.partition = "gpu",
                    .account = "lab",
                    .qos = "high",
                    .time = std::chrono::hours(30),
                    .nodes = 2,
                    .gpus_per_node = 4,
                    .cpus_per_task = 16,
                    .mem = "64G",
                    .constraint = "a100|h100",
                    .grace = std::chrono::seconds(300),
                    .sbatch_args = {"--exclusive"}};
  const auto words = request.SubmitCommand();
  for (const char* const word :
       {"--partition=gpu", "--account=lab", "--qos=high", "--time=1-06:00:00",
        "--nodes=2", "--gpus-per-node=4", "--cpus-per-task=16", "--mem=64G",
        "--constraint=a100|h100", "--signal=USR2@300", "--exclusive"}) {
    EXPECT_THAT(words, Contains(word));
  }
}

TEST(JobRequestTest, AFileNameWithAPercentSignIsNoPattern) {
  JobRequest request = WorkersOfSeven();
  request.directory = "/data/100%j";
  EXPECT_THAT(request.SubmitCommand(),
              Contains("--output=/data/100%%j/slurm-%j.out"));
  EXPECT_EQ(request.OutputFile("12"), "/data/100%j/slurm-12.out");
}

TEST(JobRequestTest, TheScriptEndsInSrunWithTheWorker) {
  JobRequest request = WorkersOfSeven();
  request.config.prologue = {"module load cuda", "export OMP_NUM_THREADS=4"};
  request.variables = {{"DTRAIN_SECRET_FILE", "/data/it's/key"}};
  EXPECT_EQ(request.Script(),
            "#!/bin/bash\n"
            "# Starts workers of dtrain, one on each node of a job of Slurm.\n"
            "export SLURM_JOB_END_TIME=${SLURM_JOB_END_TIME:-$(($(date +%s) + "
            "14400))}\n"
            "module load cuda\n"
            "export OMP_NUM_THREADS=4\n"
            "export DTRAIN_SECRET_FILE='/data/it'\\''s/key'\n"
            "export DTRAIN_RUNTIME_DIR=${TMPDIR:-/tmp}/dtrain-$UID-"
            "$SLURM_JOB_ID-store\n"
            "exec srun --ntasks=1 --ntasks-per-node=1 --kill-on-bad-exit=0 "
            "--mpi=none --input=none /opt/dtrain worker --connect "
            "node1:4000\n");
}

TEST(JobRequestTest, SrunGetsTheCpusOfATaskAndLabelsSeveral) {
  JobRequest request = WorkersOfSeven();
  EXPECT_THAT(request.Script(), Not(HasSubstr("--label")));
  request.config.nodes = 3;
  request.config.cpus_per_task = 8;
  EXPECT_THAT(request.Script(), HasSubstr(" --cpus-per-task=8 --label /opt"));
  EXPECT_THAT(request.Script(), HasSubstr("srun --ntasks=3 "));
}

TEST(JobRequestTest, AnAllocationKeepsItsOwnResourcesAndEnd) {
  JobRequest request = WorkersOfSeven();
  request.config.cpus_per_task = 8;
  request.in_allocation = true;
  EXPECT_THAT(request.Script(), Not(HasSubstr("SLURM_JOB_END_TIME")));
  EXPECT_THAT(request.Script(), Not(HasSubstr("--cpus-per-task")));
  EXPECT_THAT(request.Script(), HasSubstr("-$UID-$SLURM_JOB_ID\n"));
  request.allocation_end = std::chrono::seconds(1800000000);
  EXPECT_THAT(request.Script(),
              HasSubstr("export SLURM_JOB_END_TIME=${SLURM_JOB_END_TIME:-"
                        "1800000000}\n"));
}

}  // namespace
}  // namespace dtrain
