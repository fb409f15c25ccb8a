// The points that `searcher.warm_start` adds to a search of x from 0 to 5. A
// trial of an earlier search has a value of x, which is its loss, too.

#include "engine/app/warm_start.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/notices.h"
#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct EndedTrial {
  double x;
  State state = State::kCompleted;
  std::optional<double> loss = {};  // x unless given
};

class ResolveWarmStartTest : public testing::Test {
 protected:
  ResolveWarmStartTest() { notices_.clear(); }

  // Adds an experiment with these trials.
  void Add(const std::vector<EndedTrial>& trials, bool smaller = true,
           const std::vector<std::string>& labels = {}) const {
    Store store = Store::OpenForWriting(StoreLayout(globals_.store));
    store.Write([&](StoreWriter& writer) {
      const std::int64_t id =
          writer.AddExperiment({.name = "earlier",
                                .labels = labels,
                                .searcher = "grid",
                                .metric = "loss",
                                .smaller_is_better = smaller,
                                .config = json::object(),
                                .created = Timestamp(1)});
      for (std::size_t i = 0; i < trials.size(); ++i) {
        const TrialId trial{id, static_cast<std::int64_t>(i) + 1};
        writer.AddTrial(
            {.id = trial, .request_id = "r", .hparams = {{"x", trials[i].x}}});
        writer.AddValidation(trial, trials[i].loss.value_or(trials[i].x), 10,
                             smaller);
        // The store recognizes invalid trials by their reason.
        const bool is_invalid = trials[i].state == State::kInvalid;
        writer.SetTrialState(trial, trials[i].state, Timestamp(3),
                             is_invalid ? std::string(kInvalidReason) : "");
      }
    });
  }

  // `searcher`: further keys of the searcher.
  static ExperimentConfig Search(const std::string& warm_start,
                                 const std::string& searcher = "",
                                 int max_trials = 5) {
    const ConfigResult result = ReadConfig(
        "entrypoint: sh report.sh {x}\n"
        "hyperparameters: {x: {type: double, minval: 0, maxval: 5}}\n"
        "searcher: {metric: loss, max_length: {epochs: 2}, " +
            searcher + "\n  name: bayesian_asha, num_rungs: 1, max_trials: " +
            std::to_string(max_trials) + ",\n  warm_start: " + warm_start +
            "}\n",
        {.file_name = "warm.yaml"});
    return result.config.value();
  }

  // Returns x of the points of the search; empty if it is refused.
  std::vector<double> Points(const std::string& warm_start,
                             const std::string& searcher = "",
                             int max_trials = 5) {
    ExperimentConfig config = Search(warm_start, searcher, max_trials);
    trials_ = ResolveWarmStart(config, globals_);
    EXPECT_EQ(config.effective["searcher"]["warm_start"], json::array());
    EXPECT_EQ(config.effective["searcher"]["points"],
              json(config.searcher.points));
    std::vector<double> points;
    for (const json& point : config.searcher.points) {
      points.push_back(point.at("x").get<double>());
    }
    return points;
  }

  std::string Problem(const std::string& warm_start) const {
    ExperimentConfig config = Search(warm_start);
    const auto problem = FindWarmStartProblem(config, globals_);
    if (!problem) return "";
    // ResolveWarmStart refuses what is a problem.
    try {
      ResolveWarmStart(config, globals_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "not refused";
  }

  static void KeepNotice(const std::string& text) { notices_ += text; }

  static inline std::string notices_;
  const TemporaryDirectory directory_;
  const GlobalOptions globals_{.store = directory_.path() / "store",
                               .color = ColorChoice::kNever,
                               .write_notice = KeepNotice};
  json trials_;
};

TEST_F(ResolveWarmStartTest, TakesTheTwoBestOfEachExperimentInTurns) {
  Add({{3}, {1}, {2}});
  Add({{0.5}, {1}, {4}}, /*smaller=*/false);
  EXPECT_EQ(Points("[2, 1]"), (std::vector<double>{4, 1, 2}));
  EXPECT_EQ(trials_, json({"2.3", "1.2", "1.3"}));
  EXPECT_THAT(notices_, HasSubstr("searcher.warm_start: adds 3 points from "
                                  "2.3, 1.2, 1.3\n"));
}

TEST_F(ResolveWarmStartTest, AddsAtMostEightPointsOfTheNewestFirst) {
  for (const double x : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    Add({{x}, {x + 0.1}}, /*smaller=*/true, {"digits"});
  }
  Add({{5}}, /*smaller=*/true, {"other"});
  EXPECT_THAT(Points("['label:digits']", "", /*max_trials=*/30),
              testing::SizeIs(8));
  EXPECT_EQ(trials_,
            json({"5.1", "4.1", "3.1", "2.1", "1.1", "5.2", "4.2", "3.2"}));
}

TEST_F(ResolveWarmStartTest, PointsOfTheUserComeFirstAndCount) {
  Add({{3}, {1}});
  struct Row {
    std::string own;
    std::vector<double> points;  // of at most five trials
  };
  for (const Row& it :
       {Row{"[{x: 5}, {x: 1}]", {5, 1, 3}},
        Row{"[{x: 2}, {x: 4}]", {2, 4, 1, 3}},
        Row{"[{x: 2}, {x: 4}, {x: 2.5}, {x: 4.5}]", {2, 4, 2.5, 4.5, 1}},
        Row{"[{x: 2}, {x: 4}, {x: 2.5}, {x: 4.5}, {x: 0.5}]",
            {2, 4, 2.5, 4.5, 0.5}}}) {
    EXPECT_EQ(Points("[1]", "points: " + it.own + ","), it.points) << it.own;
  }
}

// Whatever else a trial is, a trial with a result that fits is taken.
TEST_F(ResolveWarmStartTest, LeavesOutTrialsByTheirState) {
  struct Row {
    State state;
    bool taken;
  };
  std::int64_t id = 0;
  for (const Row& it :
       {Row{State::kCompleted, true}, Row{State::kStopped, true},
        Row{State::kPaused, true}, Row{State::kCanceled, true},
        Row{State::kError, false}, Row{State::kInvalid, false}}) {
    Add({{3}, {0.5, it.state}});
    EXPECT_EQ(
        Points("[" + std::to_string(++id) + "]"),
        it.taken ? (std::vector<double>{0.5, 3}) : (std::vector<double>{3}))
        << StateName(it.state);
  }
}

TEST_F(ResolveWarmStartTest, LeavesOutTrialsThatDoNotFitOrHaveNoNumber) {
  Add({{-2}, {-1}, {3}, {4}, {1, State::kCompleted, kNan}});
  Add({{2, State::kCompleted, kNan}});
  EXPECT_EQ(Points("[2, 1]"), (std::vector<double>{3, 4}));
  EXPECT_THAT(
      notices_,
      AllOf(HasSubstr("searcher.warm_start: 2 trials do not fit the "
                      "hyperparameters: x is out of range in 2\n"),
            HasSubstr("searcher.warm_start: experiment 2 has no trial with a "
                      "result\n")));
}

TEST_F(ResolveWarmStartTest, LeavesOutTrialsThatViolateConstraints) {
  Add({{1}, {3}, {2}, {4}});
  EXPECT_EQ(Points("[1]", "constraints: [x > 2, x * 2 < 7],"),
            (std::vector<double>{3}));
  EXPECT_THAT(notices_, HasSubstr("searcher.warm_start: 3 trials do not fit "
                                  "the hyperparameters: 'x * 2 < 7' is "
                                  "violated in 1, 'x > 2' is violated in 2\n"));
}

TEST_F(ResolveWarmStartTest, RefusesExperimentsWithoutAPoint) {
  EXPECT_THAT(Problem("[1]"),
              StartsWith("warm.yaml:5:16: searcher.warm_start[0]: experiment 1 "
                         "does not exist in the store "));
  Add({{7}, {8}}, /*smaller=*/true, {"digits"});
  Add({});
  Add({{1}});
  EXPECT_EQ(Problem("[3]"), "");
  EXPECT_THAT(Problem("[3, 12]"),
              StartsWith("warm.yaml:5:19: searcher.warm_start[1]: experiment "
                         "12 does not exist in the store "));
  EXPECT_THAT(Problem("['label:digit']"),
              HasSubstr("has the label 'digit' (archived ones do not count); "
                        "did you mean 'digits'?"));
  EXPECT_THAT(Problem("[1]"), HasSubstr("2 trials do not fit the "
                                        "hyperparameters: x is out of range "
                                        "in 2, so the search would begin "
                                        "without a point"));
  EXPECT_THAT(Problem("[2]"), HasSubstr("no trial has a result"));
}

}  // namespace
}  // namespace dtrain
