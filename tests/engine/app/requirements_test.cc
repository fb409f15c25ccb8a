// What --require and --max-failed decide about experiments that have ended. The
// sample store has the experiments 1 alpha, whose best trial is 1.2, 3 gamma
// without a trial, and 4 delta, whose best trial is 4.2.

#include "engine/app/requirements.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/notices.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

struct TrialEnd {
  State state;
  std::string reason = {};
  double loss = 0.5;
};

class RequirementsTest : public testing::Test {
 protected:
  RequirementsTest() {
    FillSampleStore(layout_.root());
    AddAccuracySearch(layout_.root());
    notices_.clear();
  }

  // Adds an experiment that ended in `state`, with a trial for each end.
  std::int64_t Add(State state, const std::vector<TrialEnd>& ends) const {
    std::int64_t id = 0;
    Write([&](StoreWriter& writer) {
      id = writer.AddExperiment({.name = "ends",
                                 .searcher = "random",
                                 .metric = "loss",
                                 .config = nlohmann::json::object(),
                                 .created = Timestamp(1)});
      for (std::size_t i = 0; i < ends.size(); ++i) {
        const TrialId trial{id, static_cast<std::int64_t>(i) + 1};
        writer.AddTrial({.id = trial, .request_id = "r"});
        writer.AddMetrics(trial, MetricKind::kValidation, 10, 0.5,
                          {{"loss", ends[i].loss}}, Timestamp(2));
        writer.AddValidation(trial, ends[i].loss, 10,
                             /*smaller_is_better=*/true);
        writer.SetTrialState(trial, ends[i].state, Timestamp(3),
                             ends[i].reason);
      }
      writer.SetExperimentState(id, state, Timestamp(4));
    });
    return id;
  }

  void Write(const std::function<void(StoreWriter&)>& write) const {
    Store store = Store::OpenForWriting(layout_);
    store.Write(write);
  }

  Check CheckOne(std::int64_t experiment, const std::string& requirement,
                 bool counts_failed = false) const {
    const Store store = Store::OpenForReading(layout_);
    const auto checks =
        CheckRequirements({.requirements = ParseRequirements({requirement}),
                           .counts_failed = counts_failed},
                          store, FindExperiment(store, experiment));
    EXPECT_EQ(checks.size(), 1u);
    return checks.front();
  }

  bool MayFail(std::int64_t experiment, const Demands& demands) const {
    const Store store = Store::OpenForReading(layout_);
    return ReportFailedTrials(demands, store, FindExperiment(store, experiment),
                              globals_);
  }

  static std::string Refusal(const std::string& requirement) {
    try {
      (void)ParseRequirements({requirement});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  }

  static void KeepNotice(const std::string& text) { notices_ += text; }

  static inline std::string notices_;
  const GlobalOptions globals_{.color = ColorChoice::kNever,
                               .write_notice = KeepNotice};
  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(RequirementsTest, ApplyToTheBestValidationOfTheBestTrial) {
  struct Row {
    std::int64_t experiment;
    const char* requirement;
    bool met;
    const char* actual;
  };
  for (const Row& row : {
           Row{1, "accuracy>=0.75", true, "0.75"},
           Row{1, "accuracy>0.75", false, "0.75"},
           Row{1, "state==COMPLETED", true, "COMPLETED"},
           Row{1, "loss > 1 or accuracy > 0.7", true,
               "accuracy 0.75, loss 0.25"},
           Row{1, "loss > 1 or accuracy > 0.8", false,
               "accuracy 0.75, loss 0.25"},
           Row{1, "not (loss > 1 or accuracy > 0.8)", true,
               "accuracy 0.75, loss 0.25"},
           Row{1, "state in (COMPLETED)", true, "COMPLETED"},
           Row{1, "hp.lr == 0.25", true, "0.25"},
           Row{1, "min(loss) < 0.3", true, "0.25"},
           Row{1, "max(loss) > 0.3", false, "0.25"},
           Row{1, "at(loss,100) < 0.3", true, "0.25"},
           Row{1, "last(loss) is null", true, "NaN"},
           Row{4, "accuracy==0.9", true, "0.9"},
           Row{4, "speed==2050", true, "2050"},
           Row{4, "min(accuracy)==0.75", true, "0.75"},
           Row{1, "trials==2", true, "2"},
           Row{1, "failed==0", false, "1"},
           Row{1, "completed>=1", true, "1"},
           Row{1, "stopped<1", true, "0"},
       }) {
    const Check check = CheckOne(row.experiment, row.requirement);
    EXPECT_EQ(check.met, row.met) << row.requirement;
    EXPECT_EQ(check.actual, row.actual) << row.requirement;
    EXPECT_EQ(check.text, row.requirement);
  }
}

// A name that is mistyped must not meet a requirement, whatever is around it.
TEST_F(RequirementsTest, AreNotMetByAnUnreportedMetric) {
  const std::string missing =
      "not reported by the best trial; reported: accuracy, loss";
  struct Row {
    const char* requirement;
    bool met;
    std::string actual;
  };
  for (const Row& row : {
           Row{"not los > 1", false, missing},
           Row{"los != 1", false, missing},
           Row{"min(los) < 1", false, missing},
           Row{"hp.no != 1", false, missing},
           Row{"los is null", true, missing},
           Row{"los > 1 or accuracy > 1", false,
               "accuracy 0.75, los " + missing},
           Row{"los > 1 or loss < 1", true,
               "los not reported by the best trial, loss 0.25; reported: "},
       }) {
    const Check check = CheckOne(1, row.requirement);
    EXPECT_EQ(check.met, row.met) << row.requirement;
    EXPECT_THAT(check.actual, HasSubstr(row.actual)) << row.requirement;
    EXPECT_FALSE(check.value.has_value());
  }
}

TEST_F(RequirementsTest, AreNotMetWithoutABestTrial) {
  EXPECT_EQ(CheckOne(3, "loss<1").actual,
            "no trial is the best one; nothing was validated");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t id = Add(State::kCompleted, {{State::kCompleted, "", nan},
                                                  {State::kStopped, "", nan}});
  const Check check = CheckOne(id, "loss > 0");
  EXPECT_FALSE(check.met);
  EXPECT_EQ(check.actual,
            "no trial is the best one; 'loss' was NaN at all 2 validations");
}

TEST_F(RequirementsTest, TakeTheLastValueUntilTheBestValidation) {
  Write([](StoreWriter& writer) {
    writer.AddMetrics({4, 2}, MetricKind::kValidation, 20, 0.5, {{"rare", 5}},
                      Timestamp(1));
    writer.AddMetrics({4, 2}, MetricKind::kValidation, 90, 0.5, {{"late", 1}},
                      Timestamp(1));
  });
  EXPECT_TRUE(CheckOne(4, "rare == 5").met);
  EXPECT_EQ(CheckOne(4, "late > 0").actual,
            "reported only after the best validation; reported: accuracy, "
            "rare, speed");
}

TEST_F(RequirementsTest, DoNotCountATrialThatFailed) {
  const std::int64_t id =
      Add(State::kCompleted,
          {{State::kError, "because", 0.1}, {State::kCompleted, "", 0.5}});
  EXPECT_EQ(CheckOne(id, "loss<0.2").actual, "0.5");
  EXPECT_TRUE(CheckOne(id, "loss<0.2", /*counts_failed=*/true).met);
  const std::int64_t all = Add(State::kError, {{State::kError, "", 0.1}});
  EXPECT_EQ(CheckOne(all, "loss<0.2").actual,
            "every trial with a result has failed; the best of them was trial "
            "6.1, which --require-any counts");
}

TEST_F(RequirementsTest, AreSplitWhereAndJoinsThem) {
  const auto requirements = ParseRequirements({"a>1 and b<2", "c==3 or d==4"});
  ASSERT_EQ(requirements.size(), 3u);
  EXPECT_EQ(requirements[0].text(), "a>1");
  EXPECT_EQ(requirements[1].text(), "b<2");
  EXPECT_EQ(requirements[2].text(), "c==3 or d==4");
}

TEST_F(RequirementsTest, ThatCanNeverBeTrueAreRefused) {
  EXPECT_THAT(Refusal("accuracy"), HasSubstr("--require: "));
  EXPECT_THAT(Refusal("state==DONE"), HasSubstr("COMPLETED"));
  EXPECT_THAT(Refusal("spark(loss) is null"), HasSubstr("--require: "));
  EXPECT_THAT(Refusal("loss==low"),
              HasSubstr("'loss' is read as a metric, whose values are numbers; "
                        "a hyperparameter is hp.NAME"));
}

TEST_F(RequirementsTest, ReportUnmetOnes) {
  EXPECT_TRUE(ReportUnmet({{.text = "a>1", .met = true}}, 7, globals_));
  EXPECT_FALSE(ReportUnmet({{.text = "a>1", .met = true, .actual = "2"},
                            {.text = "b>1", .met = false, .actual = "0"}},
                           7, globals_));
  EXPECT_EQ(notices_,
            "dtrain: error: experiment 7: requirement not met: b>1 (actual: "
            "0)\n");
}

TEST_F(RequirementsTest, LimitTheTrialsThatMayFail) {
  const TrialEnd good{State::kCompleted}, failed{State::kError, "because"},
      invalid{State::kInvalid, "invalid hyperparameters: wide"},
      refused{State::kError, "configuration: no such file"};
  struct Row {
    std::vector<TrialEnd> ends;
    std::optional<std::int64_t> max_failed;
    bool met;
    std::string notice;  // after "experiment N"
  };
  for (const Row& row : {
           Row{{good, invalid}, {}, true, ""},
           Row{{good, failed}, {}, true, ": 1 of 2 trials failed\n"},
           Row{{good, failed, failed}, {}, true, ": 2 of 3 trials failed\n"},
           Row{{failed, failed}, {}, false, ": 2 of 2 trials failed\n"},
           Row{{failed, invalid}, {}, false, ": 1 of 2 trials failed\n"},
           Row{{good, failed, failed}, 2, true, ": 2 of 3 trials failed\n"},
           Row{{good, failed, failed},
               1,
               false,
               ": 2 of 3 trials failed; --max-failed allows 1\n"},
           Row{{good, failed},
               0,
               false,
               ": 1 of 2 trials failed; --max-failed allows 0\n"},
           Row{{good, good, refused},
               2,
               false,
               ": 1 of 3 trials failed, trial N.3 for its configuration: no "
               "such file\n"},
       }) {
    const std::int64_t id = Add(State::kCompleted, row.ends);
    std::string text = row.notice;
    if (const auto place = text.find("N."); place != text.npos) {
      text.replace(place, 1, std::to_string(id));
    }
    if (!text.empty()) {
      text = std::string("dtrain: ") + (row.met ? "" : "error: ") +
             "experiment " + std::to_string(id) + text;
    }
    notices_.clear();
    EXPECT_EQ(MayFail(id, {.max_failed = row.max_failed}), row.met) << text;
    EXPECT_EQ(notices_, text);
  }
}

// The error of the experiment has said so.
TEST_F(RequirementsTest, DoNotReportTheOnlyTrialOfAnExperimentThatFailed) {
  EXPECT_FALSE(MayFail(Add(State::kError, {{State::kError, "because"}}), {}));
  EXPECT_EQ(notices_, "");
}

TEST_F(RequirementsTest, NameWhatTheFirstValidationLacks) {
  struct Case {
    std::string expression;
    std::vector<std::string> warnings;
  };
  const std::vector<Case> cases = {
      {"acc>0.5", {}},
      {"min(acc)>0.5 and state==COMPLETED and failed==0", {}},
      {"hp.lr<1 or epochs>3 or trials>2", {}},
      {"lost<0.5",
       {"--require 'lost<0.5': the first validation has no 'lost', only acc, "
        "loss; did you mean 'loss'?"}},
      {"max(f1)>0.5 and loss<1",
       {"--require 'max(f1)>0.5': the first validation has no 'f1', only acc, "
        "loss"}},
  };
  for (const Case& it : cases) {
    EXPECT_EQ(
        FindUnreported(ParseRequirements({it.expression}), {"acc", "loss"}),
        it.warnings)
        << it.expression;
  }
}

}  // namespace
}  // namespace dtrain
