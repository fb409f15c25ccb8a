// compare on a recorded store. Experiment 4 is that of AddAccuracySearch.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class CompareTest : public testing::Test {
 protected:
  CompareTest() {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
  }

  json Compare(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "compare");
    arguments.push_back("--json");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json();
  }

  // The values of a row; null if there is none.
  static json Row(const json& comparison, const std::string& section,
                  const std::string& name) {
    for (const json& row : comparison["rows"]) {
      if (row["section"] == section && row["name"] == name) {
        return row["values"];
      }
    }
    return nullptr;
  }

  const CliRunner dtrain_;
};

TEST_F(CompareTest, ShowsOnlyRowsThatDiffer) {
  const CliResult result = dtrain_.Run({"compare", "1.1", "1.2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("HYPERPARAMETERS  1.1 alpha (baseline)  1.2 alpha\n"
                        "lr               0.5                   0.25\n"));
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "loss      0.75                  0.25  -0.5 (-66.7 %, better)"));
  EXPECT_THAT(result.out, Not(HasSubstr("batch ")));  // 32 in both
  EXPECT_THAT(result.err, HasSubstr("equal rows are hidden; --all shows them"));
}

TEST_F(CompareTest, WritesRangesAndTimesForPeople) {
  dtrain_.Write("narrow.yaml",
                "name: narrow\nentrypoint: 'false'\nmax_restarts: 0\n"
                "hyperparameters:\n"
                "  x: {type: log, minval: -4, maxval: -1, base: 10}\n"
                "  crash_at: {type: categorical, vals: [0, 900]}\n"
                "searcher: {name: random, metric: loss, max_length: 10, "
                "max_trials: 2}\n");
  ASSERT_EQ(dtrain_.Run({"create", "narrow.yaml", "-q"}).code, 1);
  const std::string text = dtrain_.Run({"compare", "5", "4"}).out;
  EXPECT_THAT(text, HasSubstr("log minval=-4 maxval=-1 base=10"));
  EXPECT_THAT(text, HasSubstr("categorical [0,900]"));
  EXPECT_THAT(text, ContainsRegex("seconds +[0-9]+(\\.[0-9])?s "));
}

TEST_F(CompareTest, CountsOnlyTrialsThatMatch) {
  const json comparison = Compare({"1", "4", "--filter", "number != 2"});
  EXPECT_EQ(comparison["targets"][0]["trial"], "1.1");
  EXPECT_EQ(comparison["targets"][1]["trial"], "4.3");
  EXPECT_EQ(
      comparison["filter"],
      (json{{"expression", "number != 2"}, {"matching", 3}, {"trials", 5}}));
  EXPECT_EQ(Row(comparison, "metrics", "accuracy")[1]["value"], 0.6);
  EXPECT_EQ(Row(comparison, "trials", "matching")[1]["value"], 2);
  EXPECT_EQ(Row(comparison, "effort", "seconds"), nullptr);
  const CliResult groups =
      dtrain_.Run({"compare", "4", "--group", "hp.lr", "--at", "best",
                   "--filter", "number != 2", "--csv"});
  EXPECT_THAT(groups.out, HasSubstr("0.5,2,0.55,"));
  EXPECT_THAT(groups.out, Not(HasSubstr("0.9")));
  EXPECT_EQ(groups.err,
            "dtrain: note: 2 of 3 trials match number != 2\n"
            "dtrain: accuracy at the best validation of 2 trials\n");
}

TEST_F(CompareTest, KnowsWhichWayIsBetter) {
  // The searcher's accuracy is better the larger, `speed` is unknown.
  const json comparison = Compare({"4.2", "4.1"});
  const json accuracy = Row(comparison, "metrics", "accuracy");
  EXPECT_EQ(accuracy[0]["difference"], nullptr);
  EXPECT_EQ(accuracy[1]["value"], 0.5);
  EXPECT_DOUBLE_EQ(accuracy[1]["difference"], -0.4);
  EXPECT_EQ(accuracy[1]["verdict"], "worse");
  const json speed = Row(comparison, "metrics", "speed");
  EXPECT_EQ(speed[1]["difference"], -1000);
  EXPECT_EQ(speed[1]["verdict"], nullptr);
}

TEST_F(CompareTest, NamesTheTrialsThatStandForSearches) {
  const CliResult result = dtrain_.Run({"compare", "1", "4"});
  EXPECT_THAT(result.err,
              HasSubstr("note: hyperparameters and metrics are those of the "
                        "best trial: 1.2 (of 2), 4.2 (of 3)\n"));
  EXPECT_THAT(dtrain_.Run({"compare", "1", "2"}).err,
              HasSubstr("no trial has a finite value of the searcher's metric: "
                        "2\n"));
  const json targets = Compare({"1", "4.1"})["targets"];
  EXPECT_EQ(targets[0]["trial"], "1.2");
  EXPECT_EQ(targets[1]["trial"], "4.1");
  EXPECT_THAT(dtrain_.Run({"compare", "1.1", "1.2"}).err,
              Not(HasSubstr("best trial")));
}

TEST_F(CompareTest, GroupsTrialsByAHyperparameter) {
  const json groups = Compare({"4", "--group", "hp.lr", "--at", "best"});
  EXPECT_EQ(groups["at"], "best");
  EXPECT_EQ(groups["metric"], "accuracy");
  ASSERT_EQ(groups["groups"].size(), 1u);
  const json& group = groups["groups"][0];  // of 0.5, 0.9 and 0.6
  EXPECT_EQ(group["value"], 0.5);
  EXPECT_EQ(group["trials"], 3);
  EXPECT_NEAR(group["mean"].get<double>(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(group["deviation"].get<double>(), 0.2081665999, 1e-9);
  EXPECT_EQ(group["median"], 0.6);
  EXPECT_EQ(group["best"], 0.9);
}

TEST_F(CompareTest, EscapesMarkdown) {
  dtrain_.Run({"set", "name", "1", "[a](https://example.com)|~~b~~"});
  const CliResult result = dtrain_.Run({"compare", "1", "2", "--md"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("|---|---|---|\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(result.out,
              HasSubstr("\\[a\\](https://example.com)\\|\\~\\~b\\~\\~"));
}

struct BadComparison {
  std::vector<std::string> arguments;
  int code;
  std::string error;
};

class BadCompareTest : public testing::TestWithParam<BadComparison> {};

TEST_P(BadCompareTest, IsRefused) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "compare");
  const CliResult result = dtrain.Run(arguments);
  EXPECT_EQ(result.code, GetParam().code);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Targets, BadCompareTest,
    testing::Values(
        BadComparison{{"1"}, 2, "expected 2 to 50 experiments or trials"},
        BadComparison{{"1", "1"}, 2, "'1' is named twice"},
        BadComparison{{"1", "x"}, 3, "'x'"},
        BadComparison{{"1", "9"}, 3, "no experiment 9"},
        BadComparison{{"1.1", "1.9"}, 3, "1.9"},
        BadComparison{{"1", "2", "--baseline", "3"}, 2, "is not among"},
        BadComparison{{"1", "--group", "lr"}, 2, "expected hp.NAME"},
        BadComparison{{"1", "--group", "hp.no"}, 3, "hyperparameter 'no'"},
        BadComparison{
            {"1", "--group", "hp.lr", "--metric", "accuracy"}, 2, ":min or "},
        BadComparison{{"1", "2", "--at", "5"}, 2, "--at needs --group"},
        BadComparison{{"1", "2", "--filter", "number > 9"},
                      3,
                      "0 of 2 trials match number > 9"},
        BadComparison{{"1", "2", "--md", "--csv"}, 2, "--md cannot be"}));

}  // namespace
}  // namespace dtrain
