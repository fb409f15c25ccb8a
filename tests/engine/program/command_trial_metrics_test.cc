// A program that knows nothing of dtrain, whose metrics are found in what it
// prints.

#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "engine/base/tfevents.h"
#include "tests/engine/program/command_trial_fixture.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

// A test that waits for a signal waits this long, and then fails.
constexpr char kWaitLong[] = "exec sleep 600\n";

class PrintingTrialTest : public CommandTrialTest {
 protected:
  PrintingTrialTest() {
    spec_.until = Length{2, Unit::kEpochs};
    spec_.max_length = Length{2, Unit::kEpochs};
    spec_.metrics = MetricSource{
        .names = {{"loss", "val_loss=(\\S+)"}, {"train", "train=(\\S+)"}},
        .step = "epoch (\\d+)"};
  }
  // Counts and losses of the validations.
  std::vector<std::pair<std::int64_t, double>> Losses() const {
    std::vector<std::pair<std::int64_t, double>> found;
    for (const ValidationReport& report : Messages<ValidationReport>()) {
      for (const auto& [name, value] : report.metrics) {
        if (name == "loss") found.emplace_back(report.batches, value);
      }
    }
    return found;
  }
  // Asks for the lengths one after another, and then closes.
  void Ask(std::vector<std::int64_t> lengths) {
    answer_ = [lengths,
               next = std::size_t{0}](const TrialMessage& message) mutable
        -> std::optional<RunnerMessage> {
      if (!std::holds_alternative<OperationCompleted>(message)) return {};
      if (next == lengths.size()) return CloseTrial{};
      return RunOperation{{lengths[next++], Unit::kEpochs}};
    };
  }
};

TEST_F(PrintingTrialTest, MetricsAreFoundInStandardError) {
  const CommandEnd end =
      Run("echo 'epoch 1 train=5' >&2\necho 'epoch 1 val_loss=3' >&2\n"
          "echo 'epoch 2 train=4' >&2\necho 'epoch 2 val_loss=2' >&2\n");
  EXPECT_EQ(EndText(end), "stopped") << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 3), Pair(2, 2)));
  EXPECT_EQ(Messages<ValidationReport>()[0].epoch, 1);
  ASSERT_THAT(Messages<OperationCompleted>(), SizeIs(1));
  EXPECT_EQ(Messages<OperationCompleted>()[0].batches, 2);
  EXPECT_THAT(Log(), HasSubstr("epoch 1 train=5\n")) << "the log is kept";
}

TEST_F(PrintingTrialTest, MetricsAreFoundInStandardOutput) {
  EXPECT_EQ(
      EndText(Run("echo 'epoch 1 val_loss=3'; echo 'epoch 2 val_loss=2'\n")),
      "stopped")
      << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 3), Pair(2, 2)));
}

TEST_F(PrintingTrialTest, TheLastLineNeedsNoNewline) {
  EXPECT_EQ(EndText(Run("printf 'epoch 2 val_loss=1'")), "stopped") << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(2, 1)));
}

TEST_F(PrintingTrialTest, TheLastLineOfACrashMayBeCutOff) {
  EXPECT_EQ(EndText(Run("echo 'epoch 1 val_loss=5'\n"
                        "printf 'epoch 2 val_loss=1'; exit 3")),
            "");
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 5)));
}

// A running loss, as scripts print it.
TEST_F(PrintingTrialTest, TheLastValueOfAStepIsItsResult) {
  constexpr char kRunning[] =
      "for i in 1 2; do echo \"epoch $i\"\n"
      "for j in 9 5 3; do echo \"train=1 val_loss=$i$j\"; done; done\n";
  struct Case {
    const char* name;
    bool first_value;
    std::int64_t rules;
    std::vector<std::pair<std::int64_t, double>> losses;
  };
  for (const Case& one : {Case{"default", false, 2, {{1, 13}, {2, 23}}},
                          Case{"first", true, 2, {{1, 19}, {2, 29}}},
                          Case{"recorded", false, 1, {{1, 19}, {2, 29}}}}) {
    spec_.metrics->first_value = one.first_value;
    spec_.rules = one.rules;
    EXPECT_EQ(EndText(Run(kRunning)), "stopped") << one.name << Log();
    EXPECT_EQ(Losses(), one.losses) << one.name;
  }
}

TEST_F(PrintingTrialTest, ItsLastStepEndsWithoutOutput) {
  limits_.quiet = std::chrono::milliseconds(100);
  limits_.ending = std::chrono::milliseconds(0);
  Ask({});
  const CommandEnd end = Run(std::string("printf 'epoch 2 train=1 val_loss=9\\n"
                                         "epoch 2 train=1 val_loss=3\\n'\n") +
                             kWaitLong);
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(2, 3)));
}

TEST_F(PrintingTrialTest, AStepThatIsCutOffIsNotRecorded) {
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<ValidationReport>(message)) return {};
    return StopTrial{};
  };
  const CommandEnd end = Run(std::string("printf 'epoch 1 train=1 val_loss=3\\n"
                                         "epoch 2 train=1 val_loss=1\\n'\n") +
                             kWaitLong);
  EXPECT_EQ(EndText(end).substr(0, 7), "stopped") << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(Messages<OperationCompleted>(), IsEmpty());
}

// Such a program waits for the search's order at each length.
TEST_F(PrintingTrialTest, ACheckpointEndsItsStep) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  Ask({});
  const CommandEnd end =
      Run("echo 'epoch 1 train=1 val_loss=3'\n"
          "echo x > $DTRAIN_DIRECTORY/x\n"
          "echo '{\"type\":\"checkpoint\",\"epochs\":1,\"path\":\"'"
          "$DTRAIN_DIRECTORY'/x\"}' >&3\nread -r order <&4\n");
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 3)));
}

TEST_F(PrintingTrialTest, IsSuspendedAtALengthAndGoesOn) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  limits_.quiet = std::chrono::milliseconds(100);
  Ask({2, 4});
  // It waits, so that it does not end before it is suspended.
  const CommandEnd end =
      Run("say() { echo \"epoch $1 train=1 val_loss=$1\"; }\n"
          "say 1; say 2; read -r order <&4; say 3; read -r order <&4; say 4\n"
          "read -r order <&4\n");
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_THAT(Losses(),
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3), Pair(4, 4)));
}

// In a search that stops trials the runner always answers.
TEST_F(PrintingTrialTest, AFastProgramIsReadToTheEndOfTheSearch) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  spec_.stops_trials = true;
  Ask({2, 4});
  const CommandEnd end =
      Run("for i in 1 2 3 4; do echo \"epoch $i train=1 val_loss=$i\"; done\n");
  EXPECT_THAT(Losses(),
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3), Pair(4, 4)))
      << Log();
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(3));
  EXPECT_THAT(EndText(end), testing::AnyOf("completed", "stopped"));
}

TEST_F(PrintingTrialTest, IsResumedToEndByItself) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  spec_.stops_trials = true;
  limits_.ending = std::chrono::minutes(10);
  limits_.quiet = std::chrono::milliseconds(100);
  Ask({2, 4});
  // Suspended at epoch 1, with all that it prints in the pipe.
  const CommandEnd end =
      Run("printf 'epoch %s train=1 val_loss=1\\n' 1 2 3 4\nsleep 3\n");
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_EQ(end.exit.signal, 0);
}

TEST_F(PrintingTrialTest, IsEndedAtOnceWhereTheSearchStopsIt) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  limits_.ending = std::chrono::minutes(10);
  Ask({});
  const CommandEnd end =
      Run(std::string("echo 'epoch 1 train=1 val_loss=3'; echo epoch 2\n") +
          kWaitLong);
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_EQ(end.exit.signal, SIGTERM);
  EXPECT_THAT(Log(), HasSubstr("the search has stopped the trial; sending "
                               "SIGTERM"));
}

TEST_F(PrintingTrialTest, WhatIsPrintedAfterAStopIsNotRecorded) {
  spec_.until = Length{1, Unit::kEpochs};
  spec_.max_length = Length{4, Unit::kEpochs};
  Ask({});
  Run(std::string("printf 'epoch 1 train=1 val_loss=3\\n"
                  "epoch 2 train=1 val_loss=1\\n'\n") +
      kWaitLong);
  EXPECT_THAT(Losses(), ElementsAre(Pair(1, 3)));
}

// It may be saving its model.
TEST_F(PrintingTrialTest, MayExitByItselfAtItsLastLength) {
  limits_.quiet = std::chrono::milliseconds(100);
  Ask({});
  const CommandEnd end =
      Run("echo 'epoch 2 train=1 val_loss=3'\n"
          "sleep 2; echo saved > model\n");
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_EQ(end.exit.code, 0);
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "model"));
}

TEST_F(PrintingTrialTest, MayExitByItselfAtTheLengthItWasTold) {
  spec_.command = {"sh", "program.sh", "{length}"};
  spec_.placeholders = true;
  spec_.max_length = Length{9, Unit::kEpochs};
  const CommandEnd end =
      Run("echo \"epoch $1 train=1 val_loss=3\"\n"
          "sleep 0.3; echo saved > model\n");
  EXPECT_EQ(EndText(end), "stopped") << Log();
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "model"));
}

TEST_F(PrintingTrialTest, IsToldTheLongestLengthIfTheSearchStopsTrials) {
  spec_.command = {"sh", "program.sh", "{length}"};
  spec_.placeholders = true;
  spec_.max_length = Length{9, Unit::kEpochs};
  spec_.stops_trials = true;
  Ask({});  // It may be suspended before it exits.
  Run("echo \"epoch 2 train=$1 val_loss=3\"\n");
  ASSERT_THAT(Messages<ValidationReport>(), SizeIs(1));
  EXPECT_THAT(Messages<ValidationReport>()[0].metrics,
              testing::UnorderedElementsAre(Pair("train", 9), Pair("loss", 3)));
}

TEST_F(PrintingTrialTest, IsRunAgainFromItsBeginning) {
  spec_.run = 1;
  Run("echo 'epoch 2 val_loss=1'\n");
  EXPECT_THAT(Log(), HasSubstr("the program is run again from its beginning to "
                               "2 epochs"));
}

TEST_F(PrintingTrialTest, SaysWhyThereIsNoResult) {
  const CommandEnd end = Run("echo 'hello'; echo 'epoch 1 val_loss=x'\n");
  EXPECT_THAT(EndText(end),
              AllOf(HasSubstr("error: the program ended at 0 of 2 epochs "
                              "without a validation of 'loss' there"),
                    HasSubstr("1 line was ignored, the first: line 2 of the "
                              "output has the text 'x' for 'loss', which is "
                              "not a number")));
}

TEST_F(PrintingTrialTest, NamesTheLinesIfNothingMatches) {
  const CommandEnd end = Run("echo 'hello'\n");
  EXPECT_THAT(EndText(end),
              HasSubstr("'val_loss=(\\S+)' matches none of its 1 line of "
                        "output, which begins with 'hello'"));
}

TEST_F(PrintingTrialTest, RefusesAProgramThatReportsAsWell) {
  const CommandEnd end = Run(
      std::string("echo '{\"type\":\"training\",\"epochs\":1,\"metrics\":{}}' "
                  ">&3\n") +
      kWaitLong);
  EXPECT_THAT(EndText(end), HasSubstr("the program reports its metrics"));
}

// A program with metrics from two sources.
struct TwoSources {
  const char* name;
  MetricSource source;
  const char* script;
  // The found result was accepted before the program reported.
  bool accepted = false;
};

void PrintTo(const TwoSources& sources, std::ostream* out) {
  *out << sources.name;
}

class TwoSourcesTest : public PrintingTrialTest,
                       public testing::WithParamInterface<TwoSources> {};

// `report KIND` reports by the protocol, `await` the SIGTERM of the refusal.
constexpr char kReport[] = R"sh(trap refused=1 TERM
report() { echo '{"type":"'$1'","epochs":2,"metrics":{"loss":1}}' >&3; }
await() { for i in $(seq 1000); do [ "$refused" ] && return; sleep 0.02; done; }
)sh";

const MetricSource kPrinted{.names = {{"loss", "val_loss=(\\S+)"}},
                            .step = "epoch (\\d+)"};
const MetricSource kRows{
    .file = "log.csv", .names = {{"loss", "val_loss"}}, .step = "epoch"};
const MetricSource kEvents{.tensorboard = "runs",
                           .names = {{"loss", "val_loss"}}};

TEST_P(TwoSourcesTest, AreRefusedWhateverCameFirst) {
  std::string events;
  AppendScalar(events, "val_loss", 2, 1, 0.5);
  std::ofstream(directory_.path() / "events", std::ios::binary) << events;
  spec_.metrics = GetParam().source;
  limits_.quiet = Duration(0);
  Ask({});

  const CommandEnd end = Run(std::string(kReport) + GetParam().script);

  EXPECT_THAT(EndText(end),
              HasSubstr("refused: configuration: the program reports "
                        "its metrics to dtrain, and the key"))
      << Log();
  const std::size_t results = GetParam().accepted ? 1 : 0;
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(results));
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(results));
}

INSTANTIATE_TEST_SUITE_P(
    All, TwoSourcesTest,
    testing::Values(
        TwoSources{"Printed", kPrinted,
                   "report training; await; echo 'epoch 2 val_loss=1'\n"},
        TwoSources{"PrintedBeforeAFailure", kPrinted,
                   "report validation; await; echo 'epoch 2 val_loss=1'\n"
                   "echo 'epoch 3'; exit 3\n"},
        TwoSources{"PrintedWithACheckpoint", kPrinted,
                   R"(echo '{"type":"checkpoint","epochs":1,"path":"events",)"
                   R"("validation":{"loss":1}}' >&3; await)"
                   "\necho 'epoch 2 val_loss=1'\n"},
        TwoSources{"File", kRows,
                   "report training; await\n"
                   "printf 'epoch,val_loss\\n2,1\\n' > log.csv\n"},
        TwoSources{"EventFile", kEvents,
                   "report training; await; mkdir runs\n"
                   "cp events runs/events.out.tfevents.1\n"},
        TwoSources{"PrintedAndAccepted", kPrinted,
                   "echo 'epoch 2 val_loss=1'; read line <&4\n"
                   "report validation\n",
                   /*accepted=*/true},
        TwoSources{"FileAndAccepted", kRows,
                   "printf 'epoch,val_loss\\n2,1\\n' > log.csv\n"
                   "read line <&4; report validation\n",
                   /*accepted=*/true}),
    [](const auto& info) { return info.param.name; });

TEST_F(PrintingTrialTest, RefusesAnEpochZero) {
  const CommandEnd end =
      Run(std::string("echo 'epoch 0 val_loss=1'\n") + kWaitLong);
  EXPECT_THAT(EndText(end), HasSubstr("the first step of the program is "
                                      "0"));
  EXPECT_THAT(Losses(), IsEmpty());
}

TEST_F(PrintingTrialTest, StepsBeyondTheSearchAreNotRecorded) {
  Run("echo 'epoch 100 train=1'; echo 'epoch 200 val_loss=1'\n");
  EXPECT_THAT(Messages<TrainingReport>(), IsEmpty());
  EXPECT_THAT(Log(),
              HasSubstr("step 100 is beyond the 2 epochs of the search"));
}

TEST_F(PrintingTrialTest, PythonDoesNotKeepItsOutput) {
  Run("echo \"epoch 2 val_loss=${PYTHONUNBUFFERED}\"\n");
  EXPECT_THAT(Losses(), ElementsAre(Pair(2, 1)));
}

TEST_F(PrintingTrialTest, OutputIsASignOfLife) {
  Run("for i in 1 2 3; do echo $i; sleep 1; done\n"
      "echo 'epoch 2 val_loss=1'\n");
  std::int64_t lines = 0;
  for (const Progress& progress : Messages<Progress>()) {
    lines = std::max(lines, progress.activity.value_or(0));
  }
  EXPECT_GE(lines, 1);
}

TEST_F(PrintingTrialTest, StopsAtOnceOnRequest) {
  limits_.ending = std::chrono::minutes(10);
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<ValidationReport>(message)) return {};
    return StopTrial{};
  };
  const CommandEnd end =
      Run(std::string("echo 'epoch 1 train=1 val_loss=3'; echo epoch 2\n") +
          kWaitLong);
  EXPECT_EQ(EndText(end), "stopped: the trial is to stop") << Log();
  EXPECT_EQ(end.exit.signal, SIGTERM);
}

}  // namespace
}  // namespace dtrain
