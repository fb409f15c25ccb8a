// `preview-search`: what a search would do, without any training.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "tests/support/cli_runner.h"
#include "tests/support/golden.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr char kSearch[] =
    "entrypoint: builtin:FaultTrial\n"
    "hyperparameters:\n"
    "  global_batch_size: 64\n"
    "  lr: {type: log, minval: -4, maxval: -1}\n"
    "searcher:\n"
    "  name: adaptive_asha\n"
    "  metric: loss\n"
    "  max_trials: 10\n"
    "  divisor: 3\n"
    "  max_length: {epochs: 900}\n";

class PreviewSearchTest : public testing::Test {
 protected:
  CliResult Preview(const std::vector<std::string>& arguments,
                    const std::string& yaml = kSearch) const {
    dtrain_.Write("search.yaml", yaml);
    std::vector<std::string> all = {"preview-search", "search.yaml"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return dtrain_.Run(all);
  }

  CliRunner dtrain_;
};

TEST_F(PreviewSearchTest, GivesThePlanAsJson) {
  const json document = Preview({"--json"}).Json();
  EXPECT_EQ(document["plan"], json::array({{{"trials", 5}, {"length", 100}},
                                           {{"trials", 3}, {"length", 300}},
                                           {{"trials", 2}, {"length", 900}}}));
  EXPECT_EQ(document["brackets"][0]["rungs"], json({100, 300, 900}));
  EXPECT_EQ(document["total_length"], 5 * 100 + 3 * 300 + 2 * 900);
  // The bounds of a log range are exponents, those shown are values.
  EXPECT_EQ(document["ranges"], json::parse(R"([{
    "name": "lr", "type": "log", "minval": 1e-4, "maxval": 0.1, "log": true}])"));
  EXPECT_EQ(document["max_seconds"], nullptr);
  EXPECT_EQ(document.size(), 6);
}

constexpr char kConstrained[] =
    "entrypoint: sh train.sh\n"
    "hyperparameters:\n"
    "  width: {type: categorical, vals: [64, 128, 256]}\n"
    "  layers: {type: int, minval: 1, maxval: 8}\n"
    "searcher:\n"
    "  name: grid\n"
    "  metric: loss\n"
    "  max_length: {epochs: 10}\n"
    "  constraints: [width * layers <= 256, layers % 2 == 0]\n";

TEST_F(PreviewSearchTest, CountsThePointsOfAGridThatMeetConstraints) {
  // 64 with 2 and 4 layers, 128 with 2.
  const CliResult plan = Preview({"--json"}, kConstrained);
  EXPECT_EQ(plan.Json()["plan"],
            json::array({{{"trials", 3}, {"length", 10}}}));
  const json played =
      Preview({"--json", "--simulate", "hash", "--seed", "1"}, kConstrained)
          .Json();
  json points = json::array();
  for (const json& trial : played["trials"]) points.push_back(trial["hparams"]);
  EXPECT_EQ(points, json::parse(R"([{"width": 64, "layers": 4},
                                    {"width": 128, "layers": 2},
                                    {"width": 64, "layers": 2}])"));
}

TEST_F(PreviewSearchTest, DrawsOnlyWhatMeetsConstraints) {
  for (const char* searcher : {"random", "async_halving", "bayesian_asha"}) {
    SCOPED_TRACE(searcher);
    const json played =
        Preview({"--json", "--simulate", "hash", "--seed", "1", "--set",
                 std::string("searcher.name=") + searcher, "--set",
                 "searcher.max_trials=12"},
                kConstrained)
            .Json();
    EXPECT_GE(played["n_trials"], 3);
    for (const json& trial : played["trials"]) {
      const json& hparams = trial["hparams"];
      EXPECT_LE(hparams["width"].get<int>() * hparams["layers"].get<int>(),
                256);
      EXPECT_EQ(hparams["layers"].get<int>() % 2, 0);
    }
  }
}

TEST_F(PreviewSearchTest, RefusesConstraintsWithTheirPlace) {
  struct Case {
    const char* set;
    const char* message;
  };
  const Case cases[] = {
      {"hyperparameters.width=512",
       "searcher.constraints: leave no point of the grid"},
      {"searcher.constraints=[widht < 3]",
       "--set searcher.constraints: searcher.constraints[0]: 'widht < 3': at "
       "character 1: there is no hyperparameter 'widht'; did you mean "
       "'width'?"},
      {"searcher.constraints=[width <]",
       "'width <': expected a value at character 8"},
      {"searcher.name=single", "not to single; remove it"}};
  for (const auto& [set, message] : cases) {
    SCOPED_TRACE(set);
    const CliResult result = Preview({"--set", set}, kConstrained);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST_F(PreviewSearchTest, ListsRangesAsValues) {
  const CliResult result = Preview(
      {"--set",
       "hyperparameters={lr: {type: log, minval: -4, maxval: -1}, a: {b: "
       "{type: "
       "int, minval: 1, maxval: 3}}, c: {type: categorical, vals: [x, 2]}, d: "
       "{type: double, minval: 0.01, maxval: 1, log: true}, e: 5}"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(ContainsRegex("\na.b +1 to 3, integers\n"),
                    ContainsRegex("\nc +x, 2\n"),
                    ContainsRegex("\nd +0.01 to 1, log-uniform\n"),
                    ContainsRegex("\nlr +0.0001 to 0.1, log-uniform\n"),
                    Not(HasSubstr("\ne "))));
}

TEST_F(PreviewSearchTest, ListsStepsNormalsAndConditions) {
  const std::vector<std::string> set = {
      "--set",
      "hyperparameters={o: {type: categorical, vals: [adam, sgd]}, n: {type: "
      "int, minval: 16, maxval: 64, step: 16}, m: {type: int, minval: 1, "
      "maxval: 8, log: true, when: {o: sgd, n: {minval: 32}}}, x: {type: "
      "normal, mean: 0, std: 1, maxval: 2, when: {o: [sgd]}, else: 0}, l: "
      "{type: normal, mean: -4, std: 1, log: true}}"};
  const CliResult text = Preview(set);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      AllOf(ContainsRegex("\nn +16 to 64, in steps of 16\n"),
            ContainsRegex("\nm +1 to 8, integers, log-uniform when n is at "
                          "least 32 and o is sgd\n"),
            ContainsRegex("\nx +normal, mean 0, std 1, up to 2 when o is sgd, "
                          "else 0\n"),
            ContainsRegex("\nl +log-normal, mean -4, std 1 of the logarithm")));
  const json ranges = Preview({set[0], set[1], "--json"}).Json()["ranges"];
  EXPECT_EQ(ranges[1], json::parse(R"({
    "name": "m", "type": "int", "minval": 1, "maxval": 8, "log": true,
    "when": {"o": ["sgd"], "n": {"minval": 32}}})"));
  EXPECT_EQ(ranges[4]["else"], 0);
}

// 3 of o, and with sgd also 4 of n and 2 of x: 2 + 4 · 2.
TEST_F(PreviewSearchTest, CountsTheExistingPointsOfAGrid) {
  const json document =
      Preview({"--json", "--simulate", "constant", "--order", "sequential"},
              "entrypoint: builtin:FaultTrial\n"
              "hyperparameters:\n"
              "  o: {type: categorical, vals: [adam, sgd, rmsprop]}\n"
              "  g: {type: map, when: {o: sgd}, of: {n: {type: int, minval: 1, "
              "maxval: 4}, x: {type: double, minval: 0, maxval: 1, count: "
              "2}}}\n"
              "searcher: {name: grid, metric: loss, max_length: 4}\n")
          .Json();
  EXPECT_EQ(document["n_trials"], 10);
  std::set<json> points;
  for (const json& trial : document["trials"]) points.insert(trial["hparams"]);
  EXPECT_EQ(points.size(), 10u);
  EXPECT_TRUE(points.contains({{"o", "adam"}}));
  EXPECT_TRUE(points.contains({{"o", "sgd"}, {"g", {{"n", 4}, {"x", 1.0}}}}));
}

constexpr char kSixTrials[] =
    "entrypoint: builtin:FaultTrial\n"
    "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
    "searcher: {name: asha, metric: loss, max_trials: 6, num_rungs: 3,\n"
    "  max_length: {epochs: 9}, divisor: 3}\n";

TEST_F(PreviewSearchTest, ShowsSimulatedSearchesBesideThePlan) {
  const json document = Preview({"--json"}, kSixTrials).Json();
  EXPECT_EQ(document["plan"], json::array({{{"trials", 4}, {"length", 1}},
                                           {{"trials", 1}, {"length", 3}},
                                           {{"trials", 1}, {"length", 9}}}));
  const json expected = document["expected"];
  EXPECT_EQ(expected["simulations"], 40);
  EXPECT_EQ(expected["trials"][2],
            json({{"length", 9}, {"min", 0}, {"max", 1}}));
  EXPECT_LE(expected["trials"][0]["min"], 4);
  EXPECT_GE(expected["trials"][0]["max"], 4);
  EXPECT_LE(expected["total_length"]["min"], 17);
  EXPECT_EQ(Preview({"--json"}, kSixTrials).Json(), document);
  const CliResult text = Preview({}, kSixTrials);
  EXPECT_THAT(text.out, HasSubstr("EXPECTED"));
  EXPECT_THAT(text.out, HasSubstr("9 epochs       0-1\n"));
  EXPECT_THAT(text.err, HasSubstr("search.yaml:3:50: "
                                  "searcher.max_trials: warning: possibly no "
                                  "trial trains to max_length"));
}

TEST_F(PreviewSearchTest, SkipsSimulationIfThePlanIsExact) {
  const std::string yaml =
      "entrypoint: builtin:FaultTrial\n"
      "searcher: {name: random, metric: loss, max_trials: 7, max_length: 5}\n";
  EXPECT_EQ(Preview({"--json"}, yaml).Json()["expected"],
            json({{"simulations", 0},
                  {"trials", {{{"length", 5}, {"min", 7}, {"max", 7}}}},
                  {"total_length", {{"min", 35}, {"max", 35}}}}));
}

TEST_F(PreviewSearchTest, NumbersTrialsFromOneInText) {
  const CliResult result =
      Preview({"--simulate", "trial_index", "--seed", "1"}, kSixTrials);
  EXPECT_THAT(result.out, HasSubstr("\n    1     0   "));
  EXPECT_THAT(dtrain_.Run({"preview-search", "--help"}).out,
              HasSubstr("numbered from 1 in text, and from 0 in --json and"));
}

TEST_F(PreviewSearchTest, ShowsThePlanAndCreatesNothing) {
  const CliResult result = Preview({"--set", "searcher.max_trials=1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              HasSubstr("search of 1 trial minimizing loss, up to 900 "
                        "epochs each\n"));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(PreviewSearchTest, RepeatsASimulationOfTheSameSeed) {
  const std::vector<std::string> arguments = {"--simulate", "hash", "--seed",
                                              "7", "--json"};
  const CliResult result = Preview(arguments);
  EXPECT_EQ(result.Json()["n_trials"], 10);
  EXPECT_EQ(result.out, Preview(arguments).out);
  EXPECT_EQ(result.err, "");
}

TEST_F(PreviewSearchTest, PrintsTheSeedThatItDrew) {
  const CliResult result = Preview({"--simulate", "hash", "--json"});
  EXPECT_THAT(result.err, testing::StartsWith("dtrain: random seed "));
  EXPECT_EQ(Preview({"--simulate", "hash", "--json", "--quiet"}).err, "");
  const CliResult text =
      Preview({"--simulate", "hash", "--order", "sequential"});
  EXPECT_THAT(text.out, HasSubstr("simulated with hash, sequential, seed "));
}

TEST_F(PreviewSearchTest, TakesTheSeedOfTheFileUnlessOneIsGiven) {
  const std::string yaml =
      std::string(kSearch) + "reproducibility: {experiment_seed: 3}\n";
  EXPECT_THAT(Preview({"--simulate", "hash"}, yaml).out, HasSubstr("seed 3\n"));
  EXPECT_THAT(Preview({"--simulate", "hash", "--seed", "4"}, yaml).out,
              HasSubstr("seed 4\n"));
}

TEST_F(PreviewSearchTest, MakesTrialsExitEarly) {
  const json document =
      Preview({"--simulate", "constant", "--seed", "1", "--json", "--fail",
               "0:0:errored", "--fail", "1:0:invalid_hp"})
          .Json();
  EXPECT_EQ(document["trials"][0]["end"], "errored");
  EXPECT_EQ(document["trials"][1]["end"], "invalid_hp");
  EXPECT_EQ(document["trials"][2]["end"], "closed");
}

TEST_F(PreviewSearchTest, WarnsOfAnExperimentThatDoesNotExist) {
  const CliResult run =
      Preview({"--set",
               "searcher={name: bayesian, metric: loss, max_length: 16, "
               "max_trials: 9, warm_start: [99]}"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("searcher.warm_start"));
  EXPECT_THAT(run.err, HasSubstr("warning: "));
}

TEST_F(PreviewSearchTest, ShowsWhatAModelIsExpectedToTrain) {
  const std::vector<std::string> set = {
      "--set",
      "searcher={name: bayesian, metric: loss, max_length: 16, max_trials: 32, "
      "max_concurrent_trials: 2}"};
  const json document = Preview({set[0], set[1], "--json"}).Json();
  const json expected = document["expected"];
  EXPECT_EQ(expected["simulations"], 4);
  EXPECT_GE(expected["total_length"]["min"], document["total_length"]);
  EXPECT_EQ(expected["trials"].size(), document["brackets"][0]["rungs"].size());

  const CliResult text = Preview(set);
  EXPECT_THAT(text.out, ContainsRegex("LENGTH +EXPECTED\n"));
  EXPECT_THAT(
      text.out,
      ContainsRegex("budget .* batches in all trials; expected [0-9-]+ in 4"));
  EXPECT_EQ(text.err, "");
}

// A row: how many trials, how many of them at once, and a part of the warning.
TEST_F(PreviewSearchTest, WarnsOfAModelWithFewResults) {
  struct Row {
    std::string trials;
    std::string at_once;
    std::string warning;
  };
  for (const auto& [trials, at_once, warning] :
       {Row{"64", "4", ""},
        Row{"63", "4",
            "searcher.max_trials: the model of bayesian_asha gets too few "
            "results from 63 trials, 4 at once; use 64 or more, "
            "max_concurrent_trials: 3, or async_halving\n"},
        Row{"15", "1",
            "from 15 trials, 1 at once; use 16 or more, or async_"}}) {
    const CliResult result =
        Preview({"--set",
                 "searcher={name: bayesian, metric: loss, max_length: "
                 "16, max_trials: " +
                     trials + ", max_concurrent_trials: " + at_once + "}"});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr(warning));
    EXPECT_EQ(result.err.empty(), warning.empty()) << result.err;
  }
}

// A budget of time ends the search when the times of all trials exceed it.
TEST_F(PreviewSearchTest, SpendsABudgetOfTime) {
  const json document =
      Preview({"--set",
               "searcher={name: bayesian, metric: loss, max_length: 16, "
               "max_trials: 90, budget: 60s}",
               "--simulate", "hash_step", "--seconds-per-unit", "0.5", "--seed",
               "1", "--json"})
          .Json();

  std::int64_t total = 0;
  for (const json& trial : document.at("trials")) {
    total += trial.at("final_length").get<std::int64_t>();
  }
  EXPECT_GE(total, 120);
  EXPECT_LE(total, 120 + 4 * 16);
}

TEST_F(PreviewSearchTest, WarnsOfFailuresThatNeverHappen) {
  const CliResult result =
      Preview({"--simulate", "constant", "--seed", "1", "--fail",
               "99:0:errored", "--fail", "0:50:errored"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("warning: --fail: the search created no trial 99 "
                        "(counted from 0); its last trial is 9\n"));
  EXPECT_THAT(
      result.err,
      HasSubstr("warning: --fail: trial 0 (counted from 0) was closed"));
}

TEST_F(PreviewSearchTest, IgnoresErrorsThatOnlyAffectARun) {
  const CliResult result = Preview({"--set", "entrypoint=nowhere:Trial",
                                    "--set", "resources.executor=slurm"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("nowhere:Trial"));
}

TEST_F(PreviewSearchTest, RefusesAConfigurationWithAllFindings) {
  const CliResult result =
      Preview({"--set", "searcher.divisor=1", "--set", "searcher.mode=odd"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("searcher.divisor"));
  EXPECT_THAT(result.err, HasSubstr("searcher.mode"));
  EXPECT_THAT(result.err, HasSubstr("search.yaml: 2 errors\n"));
}

struct BadOption {
  std::vector<std::string> arguments;
  std::string message;
};

class BadPreviewOptionTest : public testing::TestWithParam<BadOption> {};

TEST_P(BadPreviewOptionTest, IsRefusedInOneLine) {
  const CliRunner dtrain;
  dtrain.Write("search.yaml", kSearch);
  std::vector<std::string> all = {"preview-search", "search.yaml"};
  all.insert(all.end(), GetParam().arguments.begin(),
             GetParam().arguments.end());
  const CliResult result = dtrain.Run(all);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Options, BadPreviewOptionTest,
    testing::Values(
        BadOption{{"--simulate", "los"},
                  "--simulate: unknown metric 'los'; available: constant, "
                  "trial_index, neg_trial_index, hash, hash_step"},
        BadOption{{"--simulate", "hash", "--order", "random"},
                  "--order: unknown order 'random'; available: round_robin, "
                  "sequential"},
        BadOption{{"--order", "sequential"}, "--order requires --simulate"},
        BadOption{{"--seed", "3"}, "--seed requires --simulate"},
        BadOption{{"--fail", "1:1:errored"}, "--fail requires --simulate"},
        BadOption{{"--simulate", "hash", "--seed", "-1"},
                  "--seed: expected an integer from 0 to 2147483647"},
        BadOption{{"--simulate", "hash", "--seed", "2147483648"},
                  "--seed: expected an integer from 0 to 2147483647"},
        BadOption{{"--simulate", "hash", "--fail", "3"}, "such as 3:1:errored"},
        BadOption{{"--simulate", "hash", "--fail", "-1:0:errored"},
                  "such as 3:1:errored, got '-1:0:errored'"},
        BadOption{{"--seconds-per-unit", "1"},
                  "--seconds-per-unit requires --simulate"},
        BadOption{{"--simulate", "hash", "--seconds-per-unit", "0"},
                  "a number of seconds above 0, such as 0.5, got '0'"},
        BadOption{{"--simulate", "hash", "--seconds-per-unit", "1s"},
                  "a number of seconds above 0, such as 0.5, got '1s'"},
        BadOption{{"--simulate", "hash", "--seconds-per-unit", "nan"},
                  "a number of seconds above 0, such as 0.5, got 'nan'"},
        BadOption{{"--simulate", "hash", "--seconds-per-unit", "1"},
                  "--seconds-per-unit: adaptive_asha does not take training "
                  "times into account; remove it"},
        BadOption{{"--set",
                   "searcher={name: bayesian, metric: loss, "
                   "max_length: 9, max_trials: 16, max_concurrent_trials: 1, "
                   "budget: 1h}",
                   "--simulate", "hash"},
                  "--simulate: searcher.budget is a duration; add the training "
                  "time of a unit of length (batches), such as "
                  "--seconds-per-unit 0.5"},
        BadOption{{"--simulate", "hash", "--fail", "1:0:user_stop"},
                  "TRIAL:AFTER:errored or TRIAL:AFTER:invalid_hp"}));

const json& RecordedSearches() {
  static const json searches = ReadGolden("searcher_0.37.0.json");
  return searches;
}

// The recorded search as a configuration; JSON is YAML.
std::string RecordedYaml(const json& recorded) {
  return json({{"entrypoint", "builtin:FaultTrial"},
               {"hyperparameters", recorded.at("hyperparameters")},
               {"searcher", recorded.at("searcher")},
               {"reproducibility",
                {{"experiment_seed", recorded.at("experiment_seed")}}}})
      .dump();
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

class RecordedPreviewTest : public PreviewSearchTest,
                            public testing::WithParamInterface<int> {
 protected:
  // The trials as they were recorded, in the form of the command.
  json Expected() {
    json trials = golden_.at("trials");
    for (json& trial : trials) {
      if (!trial.contains("ops")) trial["ops"] = json::array();
    }
    for (const json& exit : exits_) {
      json& end = trials.at(exit.at("trial").get<std::size_t>())["end"];
      if (end == "early_exit") end = LowerCase(exit.at("reason"));
    }
    return trials;
  }

  const json& golden_ =
      RecordedSearches().at(static_cast<std::size_t>(GetParam()));
  const json& case_ = golden_.at("case");
  const json exits_ = case_.value("early_exits", json::array());
};

TEST_P(RecordedPreviewTest, MatchesTheRecording) {
  std::vector<std::string> arguments = {"--json", "--simulate",
                                        case_.at("metric_function"), "--order",
                                        case_.at("driver")};
  for (const json& exit : exits_) {
    arguments.push_back("--fail");
    arguments.push_back(exit.at("trial").dump() + ":" +
                        exit.at("after_validations").dump() + ":" +
                        LowerCase(exit.at("reason")));
  }
  const json document = Preview(arguments, RecordedYaml(case_)).Json();
  EXPECT_EQ(document.size(), 3);
  EXPECT_EQ(document["n_trials"], golden_.at("n_trials"));
  EXPECT_EQ(document["trials_by_final_length"],
            golden_.at("trials_by_final_length"));
  EXPECT_TRUE(Near(document["trials"], Expected())) << case_.at("name");
}

INSTANTIATE_TEST_SUITE_P(Golden, RecordedPreviewTest, testing::Range(0, 36));

}  // namespace
}  // namespace dtrain
