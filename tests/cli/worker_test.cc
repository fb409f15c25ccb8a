// Searches on workers, through the program. The tests are in worker_test.py,
// which starts several processes at a time and signals them.

#include <string>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

class WorkerCliTest : public testing::Test {
 protected:
  // Runs the test of that name in worker_test.py.
  void ExpectPasses(const std::string& test,
                    const std::string& suite = "WorkerTest") const {
    const CliRunner runner;
    const CliResult result = runner.RunProgram(
        {"python3", DTRAIN_SOURCE_DIR "/tests/cli/worker_test.py",
         DTRAIN_BINARY, suite + "." + test},
        // Compiled models, also of the tests of such models.
        {.environment = {{"MODEL_CACHE", DTRAIN_BINARY_DIR "/model_cache"}}});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
  }
};

TEST_F(WorkerCliTest, NamesAnExperimentThatDoesNotExist) {
  const CliRunner runner;
  const CliResult run =
      runner.Run({"worker", "--connect", "127.0.0.1:1", "--experiment", "99"});
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("experiment 99 does not exist in the store "));
}

TEST_F(WorkerCliTest, SearchOnTwoWorkersHasTheResultOfOneMachine) {
  ExpectPasses("test_search_on_two_workers_has_the_result_of_one_machine");
}

TEST_F(WorkerCliTest, LogsOfRemoteTrialsAreTheRunners) {
  ExpectPasses("test_logs_of_remote_trials_are_the_runners");
}

TEST_F(WorkerCliTest, TrialsHaveAsManyThreadsOnEachWorker) {
  ExpectPasses("test_trials_have_as_many_threads_on_each_worker");
}

TEST_F(WorkerCliTest, WorkerJoinsWhileATrialRunsHere) {
  ExpectPasses("test_worker_joins_while_a_trial_runs_here");
}

TEST_F(WorkerCliTest, AnotherWorkerContinuesAfterSigusr2) {
  ExpectPasses("test_another_worker_continues_after_sigusr2");
}

TEST_F(WorkerCliTest, Sigusr2ToAllProcessesOfAJobLosesNoWork) {
  ExpectPasses("test_sigusr2_to_all_processes_of_a_job_loses_no_work");
}

TEST_F(WorkerCliTest, AnotherWorkerContinuesAfterSigterm) {
  ExpectPasses("test_another_worker_continues_after_sigterm");
}

TEST_F(WorkerCliTest, WorkerDrainsBeforeItsEnd) {
  ExpectPasses("test_worker_drains_before_its_end");
}

TEST_F(WorkerCliTest, WorkerOffersTheSlotsItIsTold) {
  ExpectPasses("test_worker_offers_the_slots_it_is_told");
}

TEST_F(WorkerCliTest, WorkersAreListed) {
  ExpectPasses("test_workers_are_listed");
}

TEST_F(WorkerCliTest, WorkerHasTheNameOfItsNode) {
  ExpectPasses("test_worker_has_the_name_of_its_node");
}

TEST_F(WorkerCliTest, WatchCountsTheWorkers) {
  ExpectPasses("test_watch_counts_the_workers");
}

TEST_F(WorkerCliTest, RunnerWithoutSlotsHasNoTrialHost) {
  ExpectPasses("test_runner_without_slots_has_no_trial_host");
}

TEST_F(WorkerCliTest, IdleWorkerLeaves) {
  ExpectPasses("test_idle_worker_leaves");
}

TEST_F(WorkerCliTest, KilledWorkerCostsARestart) {
  ExpectPasses("test_killed_worker_costs_a_restart");
}

TEST_F(WorkerCliTest, WorkerSavesACheckpointWhenTheRunnerIsKilled) {
  ExpectPasses("test_worker_saves_a_checkpoint_when_the_runner_is_killed");
}

TEST_F(WorkerCliTest, WrongKeyIsRefused) {
  ExpectPasses("test_wrong_key_is_refused");
}

TEST_F(WorkerCliTest, KeyFileIsEnough) {
  ExpectPasses("test_key_file_is_enough");
}

TEST_F(WorkerCliTest, StrangerLearnsNothingAndDoesNotDisturb) {
  ExpectPasses("test_stranger_learns_nothing_and_does_not_disturb");
}

TEST_F(WorkerCliTest, WorkerThatDoesNotSeeTheStoreIsRefused) {
  ExpectPasses("test_worker_that_does_not_see_the_store_is_refused");
}

TEST_F(WorkerCliTest, WorkerWithAnotherStoreIsRefused) {
  ExpectPasses("test_worker_with_another_store_is_refused");
}

TEST_F(WorkerCliTest, WorkerThatDoesNotSeeTheCheckpointsIsRefused) {
  ExpectPasses("test_worker_that_does_not_see_the_checkpoints_is_refused");
}

TEST_F(WorkerCliTest, WorkerWithoutTheProgramIsRefused) {
  ExpectPasses("test_worker_without_the_program_is_refused");
}

TEST_F(WorkerCliTest, AnotherPythonOfAWorkerIsNamedOnce) {
  ExpectPasses("test_another_python_of_a_worker_is_named_once");
}

TEST_F(WorkerCliTest, WorkerWithoutTheContextIsRefused) {
  ExpectPasses("test_worker_without_the_context_is_refused");
}

TEST_F(WorkerCliTest, WorkerWithoutTheCompiledModelIsRefused) {
  ExpectPasses("test_worker_without_the_compiled_model_is_refused");
}

TEST_F(WorkerCliTest, RefusesBadArguments) {
  ExpectPasses("test_refuses_bad_arguments");
}

TEST_F(WorkerCliTest, AddressThatCannotBeUsedCreatesNothing) {
  ExpectPasses("test_address_that_cannot_be_used_creates_nothing");
}

TEST_F(WorkerCliTest, GivesUpWithoutARunner) {
  ExpectPasses("test_gives_up_without_a_runner");
}

class DividedTrialCliTest : public WorkerCliTest {
 protected:
  void ExpectPasses(const std::string& test) const {
    WorkerCliTest::ExpectPasses(test, "DividedTrialTest");
  }
};

TEST_F(DividedTrialCliTest, TrialOnThreeWorkersHasTheResultOfOneMachine) {
  ExpectPasses("test_trial_on_three_workers_has_the_result_of_one_machine");
}

TEST_F(DividedTrialCliTest, TrialOnTheRunnerAndAWorkerIsListedOnBoth) {
  ExpectPasses("test_trial_on_the_runner_and_a_worker_is_listed_on_both");
}

TEST_F(DividedTrialCliTest, TrialWaitsUntilThereAreEnoughSlots) {
  ExpectPasses("test_trial_waits_until_there_are_enough_slots");
}

TEST_F(DividedTrialCliTest, ItContinuesAfterTheDrainOfTheWorkerOfRank0) {
  ExpectPasses("test_it_continues_after_the_drain_of_the_worker_of_rank_0");
}

TEST_F(DividedTrialCliTest, ItContinuesAfterTheDrainOfAnotherWorker) {
  ExpectPasses("test_it_continues_after_the_drain_of_another_worker");
}

TEST_F(DividedTrialCliTest, KilledWorkerCostsOneRestart) {
  ExpectPasses("test_killed_worker_costs_one_restart");
}

TEST_F(DividedTrialCliTest, WorkersSaveACheckpointWhenTheRunnerIsKilled) {
  ExpectPasses("test_workers_save_a_checkpoint_when_the_runner_is_killed");
}

TEST_F(DividedTrialCliTest, PauseSavesACheckpointAndDismissesTheWorkers) {
  ExpectPasses("test_pause_saves_a_checkpoint_and_dismisses_the_workers");
}

TEST_F(DividedTrialCliTest, ProgramIsNotDivided) {
  ExpectPasses("test_program_is_not_divided");
}

}  // namespace
}  // namespace dtrain
