// `searcher.warm_start` through the binary: searches that begin with the best
// trials of earlier experiments.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// The loss is x.
constexpr char kReportX[] = R"sh(echo "Epoch 1"
echo "loss: $1"
echo "Epoch 2"
echo "loss: $1"
)sh";

class WarmStartTest : public testing::Test {
 protected:
  WarmStartTest() { dtrain_.Write("report.sh", kReportX); }

  // Returns the YAML of an experiment over x.
  static std::string Yaml(const std::string& x, const std::string& searcher) {
    return "entrypoint: sh report.sh {x}\n"
           "metrics: {step: 'Epoch (\\d+)', loss: 'loss: (\\S+)'}\n"
           "hyperparameters: {x: " +
           x + "}\nsearcher: {metric: loss, max_length: {epochs: 2}, " +
           searcher +
           "}\nreproducibility: {experiment_seed: 1}\n"
           "resources: {slots: \"cpu:1\"}\nmax_restarts: 0\n";
  }

  // Runs a grid over these values of x.
  CliResult RunGrid(const std::string& values) const {
    dtrain_.Write("grid.yaml", Yaml("{type: categorical, vals: " + values + "}",
                                    "name: grid"));
    return dtrain_.Run({"create", "grid.yaml", "--json"});
  }

  // Creates, or validates, a search that begins with these experiments.
  CliResult Search(const std::string& warm_start,
                   const std::vector<std::string>& options = {"--dry-run",
                                                              "--json"},
                   const std::string& command = "create") const {
    dtrain_.Write("warm.yaml",
                  Yaml("{type: double, minval: 0, maxval: 5}",
                       "name: bayesian_asha, num_rungs: 1, max_trials: 5,\n"
                       "  warm_start: " +
                           warm_start));
    std::vector<std::string> arguments = {command, "warm.yaml"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return dtrain_.Run(arguments);
  }

  static std::vector<double> ReadPoints(const CliResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<double> points;
    if (result.code != 0) return points;
    const json searcher = result.Json().at("config").at("searcher");
    EXPECT_EQ(searcher.at("warm_start"), json::array());
    for (const json& point : searcher.at("points")) {
      points.push_back(point.at("x").get<double>());
    }
    return points;
  }

  CliRunner dtrain_;
};

TEST_F(WarmStartTest, RunsThePointsFirstAndRecordsTheirTrials) {
  ASSERT_EQ(RunGrid("[3.0, 1.0, 2.0]").code, 0);

  ASSERT_EQ(Search("[1]", {"--json"}).code, 0);

  const json trials = dtrain_.Run({"trials", "2", "--json"}).Json();
  EXPECT_EQ(trials.at("trials").at(0).at("hparams").at("x"), 1.0);
  EXPECT_EQ(trials.at("trials").at(1).at("hparams").at("x"), 2.0);
  EXPECT_EQ(trials.at("trials").size(), 5u);
  const json described = dtrain_.Run({"describe", "2", "--json"}).Json();
  EXPECT_EQ(described.at("provenance").at("warm_start"),
            json::parse(R"(["1.2", "1.1"])"));
  // The configuration that was recorded creates the same search again.
  const CliResult config = dtrain_.Run({"config", "2"});
  EXPECT_THAT(config.out, Not(HasSubstr("warm_start: [1]")));
  dtrain_.Write("again.yaml", config.out);
  const CliResult again =
      dtrain_.Run({"create", "again.yaml", "--dry-run", "--json"});
  EXPECT_EQ(ReadPoints(again), (std::vector<double>{1, 2}));
}

// A searcher that takes points takes those of other experiments, too.
TEST_F(WarmStartTest, BeginsEverySearchThatTakesPoints) {
  ASSERT_EQ(RunGrid("[3.0, 1.0, 2.0]").code, 0);
  struct Row {
    std::string searcher;
    bool takes;
  };
  int id = 1;
  for (const Row& it :
       {Row{"name: random, max_trials: 4", true},
        Row{"name: async_halving, max_trials: 4, divisor: 2", true},
        Row{"name: async_halving, max_trials: 4, stop_once: true", true},
        Row{"name: adaptive_asha, max_trials: 4, divisor: 2", true},
        Row{"name: bayesian_asha, max_trials: 4, num_rungs: 1", true},
        Row{"name: single", false}, Row{"name: grid", false}}) {
    dtrain_.Write("warm.yaml", Yaml("{type: double, minval: 0, maxval: 5}",
                                    it.searcher + ", warm_start: [1]"));
    const CliResult result = dtrain_.Run({"create", "warm.yaml", "--json"});
    if (!it.takes) {
      EXPECT_EQ(result.code, 2) << it.searcher;
      EXPECT_THAT(result.err,
                  HasSubstr("searcher.warm_start: only applies to random, "
                            "async_halving, adaptive_asha, bayesian_asha, not "
                            "to "));
      continue;
    }
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string made = std::to_string(++id);
    const json trials =
        dtrain_.Run({"trials", made, "--json"}).Json().at("trials");
    EXPECT_EQ(trials.at(0).at("hparams").at("x"), 1.0) << it.searcher;
    EXPECT_EQ(trials.at(1).at("hparams").at("x"), 2.0) << it.searcher;
    EXPECT_EQ(trials.size(), 4u) << it.searcher;
    EXPECT_EQ(dtrain_.Run({"describe", made, "--json"})
                  .Json()
                  .at("provenance")
                  .at("warm_start"),
              json({"1.2", "1.1"}))
        << it.searcher;
  }
}

// A row: how a search is made after one grid over x in [1, 3], and whether the
// grid is named.
TEST_F(WarmStartTest, NamesEarlierSearchesThatFit) {
  ASSERT_EQ(RunGrid("[3.0, 1.0, 2.0]").code, 0);
  const std::string range = "{type: double, minval: 0, maxval: 5}";
  const std::string random = "name: random, max_trials: 2";
  struct Row {
    std::string x;
    std::string searcher;
    std::vector<std::string> options;
    bool named;
  };
  for (const Row& row :
       {Row{range, random, {}, true},
        Row{range, "name: bayesian_asha, max_trials: 16", {}, true},
        Row{range, random + ", warm_start: [1]", {}, false},
        Row{range, random + ", smaller_is_better: false", {}, false},
        Row{range,
            random,
            {"--set", "searcher.metric=other", "--set",
             "metrics={step: 'Epoch (\\d+)', other: 'o=(\\S+)'}"},
            false},
        Row{range, random, {"--quiet"}, false},
        Row{range, random, {"--store", "empty"}, false},
        Row{"{type: double, minval: 2, maxval: 5}", random, {}, false},
        Row{range,
            random,
            {"--set", "hyperparameters.y={type: int, minval: 1, maxval: 2}"},
            false},
        Row{"1", random, {}, false}, Row{range, "name: single", {}, false},
        Row{"{type: categorical, vals: [1.0, 2.0]}",
            "name: grid",
            {},
            false}}) {
    dtrain_.Write("next.yaml", Yaml(row.x, row.searcher));
    std::vector<std::string> arguments = {"create", "next.yaml", "--dry-run",
                                          "--json"};
    arguments.insert(arguments.end(), row.options.begin(), row.options.end());
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.find("note: 1 earlier search fits: "
                              "searcher.warm_start=[1] tries its best "
                              "first\n") != std::string::npos,
              row.named)
        << row.searcher << row.x << result.err;
    EXPECT_EQ(result.err.find("earlier search") != std::string::npos, row.named)
        << result.err;
    (void)result.Json();
  }
}

// The newest four, in the order of their IDs; `run` names them, too, and
// nothing is applied.
TEST_F(WarmStartTest, NamesTheNewestFourSearches) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(RunGrid("[3.0, 1.0]").code, 0);
  ASSERT_EQ(dtrain_.Run({"archive", "4"}).code, 0);

  const CliResult result = dtrain_.Run(
      {"run", "--hp", "x=double(0,5)", "--metric", "loss", "--max-trials", "2",
       "--dry-run", "--json", "--", "sh", "report.sh", "{x}"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: 4 earlier searches fit: "
                                    "searcher.warm_start=[1, 2, 3, 5] tries "
                                    "their best first\n"));
  EXPECT_EQ(result.Json().at("config").at("searcher").at("points"),
            json::array());
}

TEST_F(WarmStartTest, IsResolvedOnceWhenThePausedSearchIsCreated) {
  ASSERT_EQ(RunGrid("[3.0, 1.0, 2.0]").code, 0);
  ASSERT_EQ(Search("[1]", {"--paused"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);

  ASSERT_EQ(dtrain_.Run({"resume", "2", "--json"}).code, 0);

  const json trials = dtrain_.Run({"trials", "2", "--json"}).Json();
  EXPECT_EQ(trials.at("trials").at(0).at("hparams").at("x"), 1.0);
}

TEST_F(WarmStartTest, IsSimulatedByPreviewSearch) {
  ASSERT_EQ(RunGrid("[3.0, 1.0, 2.0]").code, 0);

  const CliResult result =
      Search("[1]", {"--simulate", "hash", "--json"}, "preview-search");

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json().at("trials").at(0).at("hparams").at("x"), 1.0);
}

TEST_F(WarmStartTest, RefusesWhatIsNotInTheStore) {
  const CliResult result = Search("[1]");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("warm.yaml:5:16: searcher.warm_start[0]: experiment 1 "
                        "does not exist in the store "));
}

TEST_F(WarmStartTest, IsCheckedByValidate) {
  const CliResult warned = Search("[1]", {}, "validate");
  const CliResult refused = Search("[1]", {"--here"}, "validate");

  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_THAT(warned.err, HasSubstr("warm.yaml:5:16: searcher.warm_start[0]: "
                                    "warning: experiment 1 does not exist"));
  EXPECT_EQ(refused.code, 2);
}

}  // namespace
}  // namespace dtrain
