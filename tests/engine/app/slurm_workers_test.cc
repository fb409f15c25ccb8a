// The slots and jobs that a configuration asks of Slurm, and those of an
// allocation by the variables that Slurm sets in it.

#include "engine/app/slurm_workers.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

class SlurmWorkersTest : public testing::Test {
 protected:
  SlurmWorkersTest() { SetVariables({}); }
  ~SlurmWorkersTest() override { SetVariables({}); }

  // Sets variables of Slurm, and removes all others.
  static void SetVariables(const std::map<std::string, std::string>& values) {
    for (const char* const name :
         {"SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE",
          "SLURM_GPUS_PER_NODE", "SLURM_CPUS_ON_NODE",
          "SLURM_JOB_CPUS_PER_NODE"}) {
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

  static ExperimentConfig Search(int at_once, const std::string& resources,
                                 const std::string& slurm,
                                 const std::string& entrypoint = "['true']") {
    return ReadConfig(
               "entrypoint: " + entrypoint +
                   "\nhyperparameters: {lr: {type: double, minval: 0, maxval: "
                   "1}}\n"
                   "searcher: {name: random, metric: loss, max_trials: 100, "
                   "max_length: {batches: 8}, max_concurrent_trials: " +
                   std::to_string(at_once) +
                   "}\n"
                   "resources: {executor: slurm" +
                   resources + "}\nslurm: {" + slurm + "}\n",
               {.file_name = "x.yaml"})
        .config.value();
  }
};

TEST_F(SlurmWorkersTest, JobsHaveSlotsForAllTrialsThatRunAtOnce) {
  struct Row {
    int at_once;  // trials; 0: all 100
    std::string resources;
    std::string slurm;
    int jobs;
  };
  const std::vector<Row> rows = {
      {1, "", "gpus_per_node: 4", 1},
      {8, "", "gpus_per_node: 4", 2},
      {9, "", "gpus_per_node: 4", 3},
      {9, "", "gpus_per_node: 4, nodes: 2", 2},
      {9, "", "cpus_per_task: 2", 5},
      {9, "", "max_jobs: 20", 9},
      {0, "", "gpus_per_node: 4, max_jobs: 50", 25},
      {9, ", slots: 'cpu:2'", "cpus_per_task: 4", 5},
      {9, ", slots: 'gpu:2'", "gpus_per_node: 4", 5},
      {9, ", slots_per_trial: 2", "gpus_per_node: 4", 5},
      // A slot of each job is left over.
      {9, ", slots_per_trial: 3", "gpus_per_node: 4, max_jobs: 20", 9},
      {9, ", slots_per_trial: 0.5", "gpus_per_node: 4", 2},
      {9, ", max_slots: 4", "gpus_per_node: 4", 1},
      {9, ", max_slots: 6", "gpus_per_node: 4", 2},
      {1, "", "gpus_per_node: 4, min_jobs: 5", 5},
      {0, "", "gpus_per_node: 4, max_jobs: 2", 2}};
  for (const Row& row : rows) {
    EXPECT_EQ(MaxJobs(Search(row.at_once, row.resources, row.slurm)), row.jobs)
        << row.at_once << row.resources << row.slurm;
  }
}

TEST_F(SlurmWorkersTest, TrialsFillTheJobsOrTheAllocation) {
  const ExperimentConfig jobs =
      Search(9, "", "max_jobs: 3, nodes: 2, cpus_per_task: 4");
  EXPECT_EQ(TrialsOnSlurm(jobs), 24);
  const std::pair<std::map<std::string, std::string>, int> rows[] = {
      {{{"SLURM_JOB_CPUS_PER_NODE", "16(x3)"}}, 48},
      {{{"SLURM_CPUS_ON_NODE", "8"}}, 24},
      {{{"SLURM_GPUS_ON_NODE", "2"}, {"SLURM_CPUS_ON_NODE", "8"}}, 6},
      {{{"SLURM_GPUS_PER_NODE", "a100:2"}, {"SLURM_CPUS_ON_NODE", "8"}}, 6},
      {{}, 3}};
  for (auto [variables, trials] : rows) {
    variables["SLURM_JOB_ID"] = "7";
    variables["SLURM_JOB_NUM_NODES"] = "3";
    SetVariables(variables);
    EXPECT_TRUE(InAllocation());
    EXPECT_EQ(TrialsOnSlurm(Search(9, "", "")), trials)
        << testing::PrintToString(variables);
  }
}

TEST_F(SlurmWorkersTest, TellsOfSlotsWithoutTrials) {
  EXPECT_EQ(SlotsWithoutTrials(Search(32, "", "gpus_per_node: 4, max_jobs: 8")),
            std::nullopt);
  EXPECT_THAT(
      SlotsWithoutTrials(Search(16, "", "gpus_per_node: 4, max_jobs: 8"))
          .value_or(""),
      HasSubstr("at most 16 trials run at once, and 8 jobs (slurm.max_jobs) "
                "would have slots for 32; raise it to use more than 4 jobs"));
}

TEST_F(SlurmWorkersTest, AnAllocationNamesTheKeysThatHaveNoEffect) {
  SetVariables({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}});
  EXPECT_THAT(
      AllocationText(Search(9, "",
                            "partition: nope, gpus_per_node: 4, "
                            "nodes: 2")),
      HasSubstr("in allocation 7 of Slurm: uses its 3 nodes and submits no "
                "jobs; slurm.partition, slurm.nodes have no effect"));
}

TEST_F(SlurmWorkersTest, RefusesATrialThatTheNodesCannotHold) {
  struct Row {
    const char* entrypoint;
    int slots_per_trial;
    bool in_allocation;  // of two nodes
    const char* refusal;
  };
  const char* const model = "builtin:FaultTrial";
  const char* const command = "['true']";
  for (const Row& row :
       {Row{model, 24, false, ""},
        Row{model, 25, false,
            "the nodes of all jobs have 24 (6 × 4); raise slurm.max_jobs or "
            "slurm.nodes, or lower it"},
        Row{command, 4, false, ""},
        Row{command, 5, false, "a node has 4; use nodes with more slots"},
        Row{model, 8, true, ""},
        Row{model, 9, true,
            "the nodes of this allocation have 8 (2 × 4); use a larger "
            "allocation"},
        Row{command, 5, true, "a node has 4; use nodes with more slots"}}) {
    SCOPED_TRACE(row.slots_per_trial);
    SetVariables({});
    if (row.in_allocation) {
      SetVariables({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}});
    }
    std::string refusal;
    try {
      RequireSlotsOfNodes(Search(9,
                                 ", slots: 'cpu:4', slots_per_trial: " +
                                     std::to_string(row.slots_per_trial),
                                 "gpus_per_node: 4, max_jobs: 3, nodes: 2",
                                 row.entrypoint));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
      refusal = error.what();
    }
    EXPECT_THAT(refusal, HasSubstr(row.refusal));
    EXPECT_EQ(refusal.empty(), row.refusal == std::string());
  }
}

}  // namespace
}  // namespace dtrain
