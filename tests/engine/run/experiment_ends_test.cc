// Why the trials of a search end.

#include <algorithm>
#include <cmath>

#include "tests/engine/run/experiment_search_fixture.h"

namespace dtrain {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

class ExperimentEndsTest : public ExperimentSearchTest {};

TEST_F(ExperimentEndsTest, StopsATrialAtItsRung) {
  Asha(/*trials=*/3, /*concurrent=*/1, /*stop_once=*/true);
  Losses({0.5, 0.9, 0.1});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Started(), ElementsAre(1, 2, 3));
  EXPECT_THAT(
      Ends(),
      ElementsAre("COMPLETED: ", "STOPPED: stopped at rung 1 of 2 (50 batches)",
                  "COMPLETED: "));
}

TEST_F(ExperimentEndsTest, EndsAPausedTrialWithoutStartingIt) {
  Asha(/*trials=*/4, /*concurrent=*/1);
  Losses({0.4, 0.3, 0.2, 0.1});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(std::ranges::count(Started(), 1), 1);
  EXPECT_EQ(Trial(1).state, State::kStopped);
  EXPECT_THAT(reporter_.ended,
              Contains(Field(&TrialRow::reason, HasSubstr("not promoted"))));
}

TEST_F(ExperimentEndsTest, ContinuesWithoutAFailedTrial) {
  Grid();
  trials_.failing = {2};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_EQ(Ends().at(1), "ERROR: exited with code 3");
  EXPECT_EQ(Ends().at(2), "COMPLETED: ");
}

// The last message of a trial whose work is done and accepted.
struct LastWord {
  const char* name;
  TrialMessage message;
  const char* end;
};

void PrintTo(const LastWord& word, std::ostream* out) { *out << word.name; }

class LastWordTest : public ExperimentSearchTest,
                     public testing::WithParamInterface<LastWord> {};

TEST_P(LastWordTest, DecidesTheEnd) {
  config_.hyperparameters = {{"x", 1}};
  launcher_.on_send = [this](TrialId trial, const RunnerMessage& message) {
    if (!std::holds_alternative<CloseTrial>(message)) return;
    launcher_.Report(trial, GetParam().message);
    launcher_.Exit(trial, 1);
  };

  (void)Run();

  EXPECT_THAT(Ends(), ElementsAre(GetParam().end));
}

INSTANTIATE_TEST_SUITE_P(
    All, LastWordTest,
    testing::Values(
        LastWord{"Completed", Finished{EndReason::kCompleted}, "COMPLETED: "},
        LastWord{"Stopped", Finished{EndReason::kStopped}, "COMPLETED: "},
        LastWord{"Error", Finished{EndReason::kError, "late"}, "COMPLETED: "},
        LastWord{"Refused",
                 Finished{EndReason::kRefused, "configuration: two sources"},
                 "ERROR: configuration: two sources"},
        LastWord{"Invalid", Finished{EndReason::kInvalidHp, "too wide"},
                 "INVALID: invalid hyperparameters: too wide"},
        LastWord{"MissingMetric",
                 ValidationReport{.batches = 100, .metrics = {{"acc", 0.5}}},
                 "ERROR: searcher.metric 'loss' was not reported; reported: "
                 "acc; set searcher.metric to one of these"}),
    [](const auto& info) { return info.param.name; });

TEST_F(ExperimentEndsTest, FailsIfEveryTrialFails) {
  Grid();
  trials_.failing = {1, 2, 3, 4};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error, HasSubstr("trial 1.4: exited with code 3"));
}

TEST_F(ExperimentEndsTest,
       FailsIfTheFirstTrialDoesNotReadSearchedHyperparameters) {
  Grid(/*concurrent=*/1);
  library_ = "libmodel.so";
  refuse_unread_ = true;
  trials_.unread = {"x", "y"};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kError);
  EXPECT_THAT(result.error,
              HasSubstr("trial 1.1 was validated and has not read x, which is "
                        "searched"));
  EXPECT_THAT(*result.unread, ElementsAre("x", "y"));
  EXPECT_THAT(Started(), ElementsAre(1));
  EXPECT_THAT(reporter_.notices,
              Contains(HasSubstr("has not read the hyperparameters x, y")));
}

TEST_F(ExperimentEndsTest, OnlyWarnsOfUnreadHyperparametersIfAllowed) {
  Grid(/*concurrent=*/1);
  library_ = "libmodel.so";
  trials_.unread = {"x"};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_THAT(*result.unread, ElementsAre("x"));
  EXPECT_EQ(std::ranges::count_if(reporter_.notices,
                                  [](const std::string& notice) {
                                    return notice.find("has not read") !=
                                           notice.npos;
                                  }),
            1);
}

TEST_F(ExperimentEndsTest, AcceptsUnreadConstants) {
  Grid();
  config_.hyperparameters["y"] = 1;
  library_ = "libmodel.so";
  refuse_unread_ = true;
  trials_.unread = {"y"};

  EXPECT_EQ(Run().state, State::kCompleted);
}

// A built-in trial may read one only beside certain values of others.
TEST_F(ExperimentEndsTest, NamesUnreadHyperparametersAtTheEnd) {
  Grid();
  refuse_unread_ = true;
  config_.hyperparameters["y"] = 1;
  trials_.unread = {"x", "y"};

  const RunResult result = Run();

  EXPECT_EQ(result.state, State::kCompleted);
  EXPECT_THAT(*result.unread, ElementsAre("x"));
  EXPECT_THAT(reporter_.notices, testing::IsEmpty());
}

TEST_F(ExperimentEndsTest, MarksATrialWhoseLossWasNan) {
  Asha(/*trials=*/2, /*concurrent=*/1);
  Losses({NAN, 0.5});

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Ends().at(0),
            "STOPPED: not promoted from rung 1 of 2 (50 batches); validation "
            "loss was NaN");
  EXPECT_EQ(Ends().at(1), "COMPLETED: ");
}

TEST_F(ExperimentEndsTest, ReplacesATrialThatEndedEarlyAndIsPromoted) {
  Asha(/*trials=*/3, /*concurrent=*/1);
  Losses({0.1, 0.5, 0.9});
  trials_.early = {1};

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Ends().at(0), "COMPLETED: ended early by itself");
  EXPECT_EQ(Trial(1).rung, 1);
}

TEST_F(ExperimentEndsTest, ReplacesATrialWithInvalidHyperparameters) {
  Asha(/*trials=*/2, /*concurrent=*/1);
  trials_.invalid = {1};

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Ends().at(0), "INVALID: invalid hyperparameters: bad x");
  EXPECT_EQ(store_.Trials(id_).size(), 3u);
}

TEST_F(ExperimentEndsTest, TrialThatEndsItselfSucceeds) {
  Grid();
  launcher_.on_start = [this](const TrialSpec& spec) {
    launcher_.Push(TrialStarted{.trial = spec.id, .pid = 1});
    trials_.End(spec.id, EndReason::kUserStop);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_THAT(Ends(), Each("COMPLETED: ended early: bad x"));
}

TEST_F(ExperimentEndsTest, LosesNothingWhenAnIdleTrialCrashes) {
  Asha(/*trials=*/2, /*concurrent=*/1);
  Losses({0.1, 0.5});
  launcher_.on_stop = [this](TrialId trial) { launcher_.Exit(trial, 9); };
  launcher_.on_send = [this](TrialId trial, const RunnerMessage& message) {
    if (std::get_if<CloseTrial>(&message)) launcher_.Exit(trial, 9);
  };

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(Trial(1).state, State::kCompleted);
  EXPECT_EQ(Trial(1).restarts, 0);
  EXPECT_THAT(
      reporter_.notices,
      Contains(HasSubstr("exited with code 9 after its work was done")));
}

// A disk that prevents the checkpoint of a length after its validation: the
// value counts, and the record says so also if the run was being stopped.
TEST_F(ExperimentEndsTest, CheckpointThatADiskPreventedIsInTheReason) {
  struct Case {
    std::string line;  // of the program's error
    bool is_told;
  };
  const std::vector<Case> cases = {
      {"OSError: [Errno 28] No space left on device: 'w.pt'", true},
      {"OSError: [Errno 122] Disk quota exceeded", true},
      {"KeyboardInterrupt", false},
      {"", false},
  };
  config_.entrypoint = std::vector<std::string>{"python3", "train.py"};
  Asha(/*trials=*/2, /*concurrent=*/2);
  Losses({0.5, 0.1});
  for (const Case& it : cases) {
    Record();
    launcher_.on_stop = [&](TrialId trial) {
      launcher_.Push(TrialExited{
          .trial = trial, .exit_code = 1, .last_error_line = it.line});
    };
    launcher_.Push(Interrupted{.signal = 15});
    EXPECT_EQ(Run().state, State::kPaused) << it.line;
    const std::string remark =
        std::string(kFailedLate) + "exited with code 1: " + it.line;
    EXPECT_EQ(Trial(1).state, State::kPaused);
    EXPECT_EQ(Trial(1).reason, it.is_told ? remark : "");

    EXPECT_EQ(Run().state, State::kCompleted) << it.line;

    EXPECT_EQ(Trial(1).state, State::kStopped);
    EXPECT_EQ(Trial(1).reason.ends_with("; " + remark), it.is_told)
        << Trial(1).reason;
  }
}

}  // namespace
}  // namespace dtrain
