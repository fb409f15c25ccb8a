// Experiment: handling of failed trials.

#include <csignal>
#include <string>

#include "tests/engine/run/experiment_fixture.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ExperimentFailureTest : public ExperimentTest {
 protected:
  // Every process of a program ends so, before its first report.
  void AllEnd(TrialExited end) {
    config_.entrypoint = std::vector<std::string>{"python3", "train.py"};
    config_.max_restarts = 5;
    launcher_.on_start = [this, end](const TrialSpec& spec) {
      launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
      TrialExited exited = end;
      exited.trial = spec.id;
      launcher_.Push(exited);
    };
  }
  // Searches 30 trials, two at a time.
  void Search() {
    config_.searcher = {.name = "random",
                        .metric = "loss",
                        .max_length = 100,
                        .max_trials = 30,
                        .max_concurrent_trials = 2};
    launcher_.set_slots(2);
  }
  void FailOnGpu(TrialId trial, GpuFault fault) {
    launcher_.Push(TrialStarted{.trial = trial});
    launcher_.Report(
        trial, Finished{.reason = EndReason::kError, .message = "broken"});
    launcher_.Push(TrialExited{
        .trial = trial, .exit_code = 1, .gpu_fault = std::move(fault)});
  }
};

TEST_F(ExperimentFailureTest, FailsIfItsOnlyTrialFails) {
  trials_.crashes = 1;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error, HasSubstr("trial 1.1: exited with code 3"));
  EXPECT_EQ(Trial().state, State::kError);
  EXPECT_EQ(Trial().reason, "exited with code 3");
}

TEST_F(ExperimentFailureTest, NamesTheRankThatFailed) {
  ranks_ = 2;
  launcher_.on_start = [this](const TrialSpec& spec) {
    EXPECT_EQ(spec.world_size, 2);
    launcher_.Push(TrialStarted{.trial = spec.id});
    launcher_.Push(TrialExited{
        .trial = spec.id, .exit_code = -1, .signal = SIGSEGV, .rank = 1});
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "rank 1: killed by signal 11 (SIGSEGV)");
}

TEST_F(ExperimentFailureTest, RestartsAFailedTrial) {
  config_.max_restarts = 2;
  trials_.crashes = 2;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(Trial().restarts, 2);
  EXPECT_EQ(Trial().runs, 3);
  EXPECT_THAT(reporter_.notices, Contains(HasSubstr("restart 2 of 2")));
}

TEST_F(ExperimentFailureTest, PausesIfTheLogOfAFailedTrialNamesAFullDisk) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id});
    launcher_.Push(
        TrialExited{.trial = spec.id,
                    .exit_code = 1,
                    .last_lines = {"Traceback (most recent call last):",
                                   "OSError: [Errno 28] No space left on "
                                   "device: 'best.pt'",
                                   "the program exited with code 1"}});
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error_kind, ErrorKind::kDiskFull);
  EXPECT_THAT(result.error,
              HasSubstr("trial 1.1: exited with code 1: OSError: [Errno 28] No "
                        "space left on device: 'best.pt'; free some space, "
                        "then run `dtrain resume 1`"));
  EXPECT_EQ(Trial().state, State::kPaused);
  EXPECT_EQ(Trial().restarts, 0);
}

TEST_F(ExperimentFailureTest, FaultOfAGpuCostsNoRestart) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    if (launcher_.started().size() > 1) return trials_.Begin(spec);
    FailOnGpu(spec.id, {.gpus = "GPU 0 (GPU-a)", .reason = "ECC error"});
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_EQ(Trial().runs, 2);
  EXPECT_THAT(reporter_.notices,
              Contains("GPU 0 (GPU-a): ECC error; it is set aside, and tested "
                       "again every minute"));
}

TEST_F(ExperimentFailureTest, PreemptionCostsNoRestartAndIsCounted) {
  config_.max_restarts = 0;
  launcher_.on_start = [this](const TrialSpec& spec) {
    if (launcher_.started().size() > 2) return trials_.Begin(spec);
    launcher_.Push(TrialStarted{.trial = spec.id});
    launcher_.Push(TrialExited{.trial = spec.id,
                               .exit_code = -1,
                               .signal = SIGKILL,
                               .killed_by_us = true,
                               .preempted = true});
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial().preemptions, 2);
  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_EQ(Trial().runs, 3);
}

TEST_F(ExperimentFailureTest, ErrorAtAPreemptionIsAFailure) {
  config_.max_restarts = 0;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id});
    launcher_.Report(
        spec.id, Finished{.reason = EndReason::kError, .message = "broken"});
    launcher_.Push(
        TrialExited{.trial = spec.id, .exit_code = 1, .preempted = true});
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "broken");
  EXPECT_EQ(Trial().preemptions, 0);
}

TEST_F(ExperimentFailureTest, LossOfAMachineIsTheReason) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id});
    launcher_.Push(TrialExited{
        .trial = spec.id, .exit_code = 1, .lost = "lost worker a: gone"});
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "lost worker a: gone");
}

TEST_F(ExperimentFailureTest, FaultOfAnMpsNeighborCostsNoRestart) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    if (launcher_.started().size() > 1) return trials_.Begin(spec);
    FailOnGpu(
        spec.id,
        {.gpus = "GPU 0 (GPU-a)", .reason = "CUDA error", .set_aside = false});
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_THAT(reporter_.notices,
              Contains("GPU 0 (GPU-a): CUDA error; MPS has ended a trial after "
                       "a fault of another"));
}

TEST_F(ExperimentFailureTest, TrialThatFailsOnManyGpusIsAtFault) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    FailOnGpu(spec.id, {.gpus = "GPU 0 (GPU-a)", .reason = "ECC error"});
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 4u);
}

TEST_F(ExperimentFailureTest, PausesIfNoGpuIsLeft) {
  launcher_.on_start = [this](const TrialSpec& spec) {
    FailOnGpu(
        spec.id,
        {.gpus = "GPU 0 (GPU-a)", .reason = "ECC error", .none_left = true});
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error_kind, ErrorKind::kResources);
  EXPECT_THAT(result.error, HasSubstr("too few GPUs are left: GPU 0 (GPU-a): "
                                      "ECC error; see what nvidia-smi prints"));
  EXPECT_EQ(Trial().state, State::kPaused);
  EXPECT_EQ(Trial().restarts, 0);
}

TEST_F(ExperimentFailureTest, ReportsAGpuThatIsUsedAgain) {
  launcher_.Push(GpuRestored{"GPU 0 (GPU-a)"});
  Run();
  EXPECT_THAT(reporter_.notices,
              Contains("GPU 0 (GPU-a) passed a test and is used again"));
}

TEST_F(ExperimentFailureTest, StartsATrialAtMostOncePlusMaxRestarts) {
  config_.max_restarts = 2;
  trials_.crashes = 100;

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 3u);
}

TEST_F(ExperimentFailureTest, FailsATrialThatLacksTheSearcherMetric) {
  config_.max_restarts = 5;
  config_.searcher.metric = "los";

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error,
              HasSubstr("'los' was not reported; reported: "
                        "loss, acc; set searcher.metric to one of "
                        "these; did you mean 'loss'?"));
  EXPECT_EQ(launcher_.started().size(), 1u);
}

TEST_F(ExperimentFailureTest, DoesNotRestartInvalidHyperparameters) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kInvalidHp,
                                       .message = "too wide"});
    launcher_.Exit(spec.id);
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_EQ(Trial().state, State::kInvalid);
  EXPECT_EQ(Trial().reason, "invalid hyperparameters: too wide");
  EXPECT_EQ(Run().error, result.error);  // after kill -9
  EXPECT_EQ(launcher_.started().size(), 1u);
}

TEST_F(ExperimentFailureTest, GivesUpATrialThatFailsTheSameWayBeforeTraining) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kError,
                                       .message = "no mnist data"});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "no mnist data");
  EXPECT_EQ(launcher_.started().size(), 2u);
}

TEST_F(ExperimentFailureTest, NamesTheLastLineOnStderrOfAProgram) {
  AllEnd({.exit_code = 1, .last_error_line = "ValueError: bad"});
  config_.max_restarts = 0;

  EXPECT_EQ(Run().error, "trial 1.1: exited with code 1: ValueError: bad");
  EXPECT_EQ(Trial().reason, "exited with code 1: ValueError: bad");
}

TEST_F(ExperimentFailureTest, RecordsNoValueOfAnEnvironmentVariable) {
  AllEnd({.exit_code = 1,
          .last_error_line = "bad key s3cr3t " + std::string(300, 'x')});
  config_.environment.everywhere = {{"KEY", "s3cr3t"}, {"RANK", "bad"}};
  config_.max_restarts = 0;

  Run();

  // The line is cut after that, to 200 columns.
  const std::string line = "bad key REDACTED ";
  EXPECT_EQ(Trial().reason, "exited with code 1: " + line +
                                std::string(197 - line.size(), 'x') + "...");
}

TEST_F(ExperimentFailureTest, GivesUpAProgramThatExitsAlikeBeforeItsReport) {
  AllEnd({.exit_code = 1, .last_error_line = "ValueError: bad"});

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason,
            "exited with code 1: ValueError: bad (twice, before its first "
            "report)");
  EXPECT_EQ(launcher_.started().size(), 2u);
  EXPECT_THAT(reporter_.notices,
              Contains(HasSubstr("exited with code 1: ValueError: bad; "
                                 "restart 1 of 5")));
}

struct Passing {
  const char* name;
  TrialExited end;
};

class PassingFailureTest : public ExperimentFailureTest,
                           public testing::WithParamInterface<Passing> {};

TEST_P(PassingFailureTest, IsRestarted) {
  AllEnd(GetParam().end);

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 6u);
}

INSTANTIATE_TEST_SUITE_P(
    All, PassingFailureTest,
    testing::Values(
        Passing{
            "Kill",
            {.exit_code = -1, .signal = SIGKILL, .last_error_line = "loading"}},
        Passing{
            "Term",
            {.exit_code = -1, .signal = SIGTERM, .last_error_line = "loading"}},
        Passing{"Kernel",
                {.exit_code = -1,
                 .signal = SIGKILL,
                 .out_of_memory = true,
                 .last_error_line = "loading"}},
        Passing{"Memory", {.exit_code = 1, .last_error_line = "MemoryError"}},
        Passing{"Gpu",
                {.exit_code = 1,
                 .last_error_line = "RuntimeError: CUDA error: unknown"}},
        Passing{"Port",
                {.exit_code = 1,
                 .last_error_line = "OSError: [Errno 98] Address already in "
                                    "use"}},
        Passing{"PortOfTorch",
                {.exit_code = 1,
                 .last_error_line =
                     "torch.distributed.DistNetworkError: The server socket "
                     "has failed to listen on any local network address. "
                     "EADDRINUSE, address already in use"}},
        Passing{"Refused",
                {.exit_code = 1,
                 .last_error_line = "ConnectionRefusedError: [Errno 111] "
                                    "Connection refused"}},
        Passing{"Name",
                {.exit_code = 1,
                 .last_error_line = "socket.gaierror: [Errno -3] Temporary "
                                    "failure in name resolution"}},
        Passing{"Http429",
                {.exit_code = 1,
                 .last_error_line = "requests.exceptions.HTTPError: 429 Client "
                                    "Error: Too Many Requests for url: x"}},
        Passing{"Http503",
                {.exit_code = 1,
                 .last_error_line = "urllib.error.HTTPError: HTTP Error 503: "
                                    "Service Unavailable"}},
        Passing{"Busy",
                {.exit_code = 1,
                 .last_error_line = "OSError: [Errno 26] Text file busy: 'x'"}},
        Passing{"Lock",
                {.exit_code = 1,
                 .last_error_line = "sqlite3.OperationalError: database is "
                                    "locked"}},
        Passing{"Silence", {.exit_code = 1}}),
    [](const auto& info) { return info.param.name; });

// A message of the program counts like a line on stderr.
TEST_F(ExperimentFailureTest, WaitsLongerForACauseThatMayPass) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kError,
                                       .message = "port: address in use"});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(Trial().reason, "port: address in use (after 5 restarts)");
  EXPECT_THAT(reporter_.notices,
              Contains(HasSubstr("restart 1 of 5 from batch 0 in 1")));
  EXPECT_THAT(reporter_.notices,
              Contains(HasSubstr("restart 5 of 5 from batch 0 in 16")));
}

TEST_F(ExperimentFailureTest, RestartsAProgramThatHasReported) {
  AllEnd({.exit_code = 1, .last_error_line = "ValueError: bad"});
  launcher_.on_start = [this, fail = launcher_.on_start](const auto& spec) {
    launcher_.Report(
        spec.id,
        ValidationReport{.seq = 1, .batches = 10, .metrics = {{"loss", 1}}});
    fail(spec);
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 6u);
  EXPECT_EQ(Trial().reason,
            "exited with code 1: ValueError: bad (after 5 restarts)");
}

TEST_F(ExperimentFailureTest, StopsASearchIfThreeTrialsFailAlikeUnreported) {
  AllEnd({.exit_code = 1, .last_error_line = "SyntaxError: invalid syntax"});
  Search();

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_EQ(result.error,
            "3 of 3 trials failed before they reported: SyntaxError: invalid "
            "syntax");
  EXPECT_EQ(store_.Experiment(id_)->row.state, State::kError);
  EXPECT_LE(launcher_.started().size(), 8u);
}

TEST_F(ExperimentFailureTest, StopsASearchOfAModelThatCannotStart) {
  Search();
  config_.max_restarts = 0;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kError,
                                       .message = "no mnist data"});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().error,
            "3 of 3 trials failed before they reported: no mnist data");
}

TEST_F(ExperimentFailureTest, StopsASearchWhoseTrialsAreRefused) {
  AllEnd({.exit_code = 1});
  Search();
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kRefused,
                                       .message = "no data set in /x"});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().error,
            "3 of 3 trials failed before they reported: no data set in /x");

  EXPECT_EQ(Trial().reason, "no data set in /x");
  EXPECT_LE(launcher_.started().size(), 4u);
}

TEST_F(ExperimentFailureTest, DoesNotStopASearchInWhichATrialHasReported) {
  AllEnd({.exit_code = 1, .last_error_line = "ValueError: bad"});
  Search();
  launcher_.on_start = [this, fail = launcher_.on_start](const auto& spec) {
    if (spec.id.number == 2) return trials_.Begin(spec);
    fail(spec);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(store_.Trials(id_).size(), 30u);
}

TEST_F(ExperimentFailureTest, DoesNotStopASearchWhoseTrialsFailDifferently) {
  AllEnd({.exit_code = 1});
  Search();
  config_.searcher.max_trials = 6;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Push(TrialExited{
        .trial = spec.id,
        .exit_code = 1,
        .last_error_line =
            "no file " +
            std::string(static_cast<std::size_t>(spec.id.number), 'x')});
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(store_.Trials(id_).size(), 6u);
}

TEST_F(ExperimentFailureTest, IgnoresNumbersInTheFailuresOfASearch) {
  AllEnd({.exit_code = 1});
  Search();
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    const std::string number = std::to_string(spec.id.number);
    launcher_.Push(TrialExited{
        .trial = spec.id,
        .exit_code = 1,
        .last_error_line = "ValueError: lr=0.0" + number + "e-5 at 0x7f" +
                           number + " of trials/" + number});
  };

  EXPECT_THAT(Run().error,
              HasSubstr("3 of 3 trials failed before they reported"));

  EXPECT_LE(launcher_.started().size(), 8u);
}

TEST_F(ExperimentFailureTest, StopsASearchWhoseHyperparametersAreAllInvalid) {
  Search();
  config_.searcher.max_trials = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kInvalidHp,
                                       .message = "too wide"});
    launcher_.Exit(spec.id);
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error,
              HasSubstr("5 trials in a row have invalid hyperparameters, the "
                        "last: too wide"));
  EXPECT_LE(launcher_.started().size(), 7u);
}

TEST_F(ExperimentFailureTest, GivesUpAProgramThatEndsTwiceWithoutItsResult) {
  AllEnd({});
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(
        spec.id, TrainingReport{
                     .seq = 1, .batches = 50, .metrics = {{"loss", spec.run}}});
    launcher_.Report(spec.id, Finished{.reason = EndReason::kError,
                                       .message = std::string(kNoResult) +
                                                  "50 of 100 batches, loss " +
                                                  std::to_string(spec.run)});
    launcher_.Exit(spec.id, 1);
  };

  EXPECT_EQ(Run().state, State::kError);

  EXPECT_EQ(launcher_.started().size(), 2u);
  EXPECT_EQ(Trial().reason, "the program ended at 50 of 100 batches, loss 1");
}

TEST_F(ExperimentFailureTest, CountsFailuresOfTheRunnerBefore) {
  AllEnd({.exit_code = 1, .last_error_line = "ValueError: bad"});
  Search();
  config_.searcher.max_concurrent_trials = 1;
  bool interrupted = false;
  launcher_.on_wait = [&] {
    if (interrupted || store_.Trials(id_).size() < 3) return;
    interrupted = true;
    launcher_.Push(Interrupted{SIGTERM});
  };
  EXPECT_EQ(Run().state, State::kPaused);

  EXPECT_THAT(Run().error, HasSubstr("3 of 3 trials failed before"));
}

TEST_F(ExperimentFailureTest, KillsATrialThatHangs) {
  trials_.silent = true;
  config_.hang_timeout = 5;

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(Trial().reason, HasSubstr("timeout: no step for 5.0s"));
  EXPECT_THAT(launcher_.calls(), Contains("kill 1.1"));
}

TEST_F(ExperimentFailureTest, NcclTimesOutAfterTheRunner) {
  config_.hang_timeout = 1800;

  (void)Run();

  EXPECT_EQ(launcher_.started().at(0).nccl_timeout, 1860);
}

TEST_F(ExperimentFailureTest, SuspendedRunnerDoesNotTimeOutATrial) {
  config_.hang_timeout = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
  };
  // The runner stands still for an hour; then it hears of the trial again.
  int waits = 0;
  launcher_.on_wait = [&] {
    if (++waits == 3) time_ += std::chrono::hours(1);
    if (waits == 5) trials_.Work({id_, 1}, Length{100});
  };

  EXPECT_EQ(Run().state, State::kCompleted);
}

TEST_F(ExperimentFailureTest, FailsAnOperationThatEndsWithoutTheMetric) {
  config_.max_restarts = 5;
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    launcher_.Report(spec.id, OperationCompleted{.seq = 1,
                                                 .length = *spec.until,
                                                 .batches = 100,
                                                 .metrics = {{"speed", 1}}});
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(Trial().reason, HasSubstr("'loss' was not reported; reported: "
                                        "speed"));
  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_EQ(Trial().rung, 0);
  EXPECT_EQ(launcher_.started().size(), 1u);
}

TEST_F(ExperimentFailureTest, RetriesATrialThatCouldNotStart) {
  int failures = 3;
  launcher_.on_start = [&](const TrialSpec& spec) {
    if (failures-- <= 0) return trials_.Begin(spec);
    launcher_.Push(TrialExited{.trial = spec.id,
                               .exit_code = 1,
                               .not_started = "cannot start trial: no room"});
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_THAT(reporter_.notices,
              Contains("cannot start trial: no room; trying again in 0.1s"));
}

TEST_F(ExperimentFailureTest, PausesIfNothingCanBeStarted) {
  launcher_.on_start = [&](const TrialSpec& spec) {
    launcher_.Push(TrialExited{.trial = spec.id,
                               .exit_code = 1,
                               .not_started = "cannot start trial: no room"});
  };

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kPaused);
  EXPECT_EQ(result.error_kind, ErrorKind::kResources);
  EXPECT_THAT(result.error, HasSubstr("no room; fix this"));
  EXPECT_EQ(Trial().restarts, 0);
  EXPECT_EQ(launcher_.started().size(), 6u);
}

}  // namespace
}  // namespace dtrain
