// best, trials, metrics and importance of several experiments, and the points
// that best prints.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct MadeTrial {
  json hparams;
  double value;
};

struct MadeExperiment {
  std::string space;  // YAML
  std::vector<MadeTrial> trials;
  std::string metric = "loss";
  bool smaller = true;
};

constexpr char kLrOpt[] =
    "{lr: {type: double, log: true, minval: 0.001, maxval: 1}, "
    "opt: {type: categorical, vals: [adam, sgd]}, depth: 3}";
constexpr char kLrWidth[] =
    "{lr: {type: double, log: true, minval: 0.01, maxval: 1}, "
    "width: {type: int, minval: 1, maxval: 8}}";

class SeveralExperimentsTest : public testing::Test {
 protected:
  // Each trial has its value at batches 10, and one more at 5.
  void Add(const MadeExperiment& made) const {
    const ConfigResult config = ReadConfig(
        "name: made\nentrypoint: builtin:FaultTrial\nhyperparameters: " +
            made.space +
            "\nsearcher: {name: random, max_trials: 9, max_length: 10, "
            "metric: " +
            made.metric +
            ", smaller_is_better: " + (made.smaller ? "true" : "false") + "}\n",
        {.file_name = "made.yaml"});
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    store.Write([&](StoreWriter& writer) {
      const std::int64_t id =
          writer.AddExperiment({.name = "made",
                                .searcher = "random",
                                .metric = made.metric,
                                .smaller_is_better = made.smaller,
                                .config = config.config.value().effective,
                                .created = Timestamp(1)});
      for (std::size_t i = 0; i < made.trials.size(); ++i) {
        const TrialId trial{id, static_cast<std::int64_t>(i) + 1};
        writer.AddTrial({.id = trial,
                         .request_id = "r",
                         .hparams = made.trials[i].hparams});
        const double value = made.trials[i].value;
        for (const auto& [batches, shown] :
             {std::pair(5, made.smaller ? value + 1 : value - 1),
              std::pair(10, value)}) {
          writer.AddMetrics(trial, MetricKind::kValidation, batches, 1,
                            {{made.metric, shown}}, Timestamp(2));
          writer.AddValidation(trial, shown, batches, made.smaller);
        }
        writer.SetTrialState(trial, State::kCompleted, Timestamp(3));
      }
      writer.SetExperimentState(id, State::kCompleted, Timestamp(4));
    });
  }
  // Experiments 1 and 2, with different hyperparameters.
  void AddTwo() const {
    Add({kLrOpt,
         {{{{"lr", 0.3}, {"opt", "sgd"}, {"depth", 3}}, 3},
          {{{"lr", 0.1}, {"opt", "adam"}, {"depth", 3}}, 1},
          {{{"lr", 0.2}, {"opt", "sgd"}, {"depth", 3}}, 2}}});
    Add({kLrWidth,
         {{{{"lr", 0.05}, {"width", 4}}, 0.5},
          {{{"lr", 0.25}, {"width", 2}}, 2.5}}});
  }

  static std::vector<std::string> Trials(const json& rows) {
    std::vector<std::string> trials;
    for (const json& row : rows) trials.push_back(row.at("trial"));
    return trials;
  }
  std::vector<std::string> Trials(const std::vector<std::string>& words,
                                  const std::string& rows) const {
    std::vector<std::string> call = words;
    call.emplace_back("--json");
    const CliResult result = dtrain_.Run(call);
    EXPECT_EQ(result.code, 0) << result.err;
    return Trials(result.Json().at(rows));
  }

  const CliRunner dtrain_;
};

TEST_F(SeveralExperimentsTest, AreRankedTogether) {
  AddTwo();
  struct Row {
    std::vector<std::string> words;
    std::string rows;
    std::vector<std::string> trials;
  };
  for (const Row& it : {
           Row{{"best", "1", "2", "-n", "0"},
               "best",
               {"2.1", "1.2", "1.3", "2.2", "1.1"}},
           Row{{"best", "1-2", "-n", "2"}, "best", {"2.1", "1.2"}},
           Row{{"best", "2", "1", "2", "-n", "3", "--reverse"},
               "best",
               {"1.3", "1.2", "2.1"}},
           Row{{"best", "1", "2", "--filter", "hp.opt == sgd"},
               "best",
               {"1.3"}},
           Row{{"trials", "2", "1"},
               "trials",
               {"2.1", "2.2", "1.1", "1.2", "1.3"}},
           Row{{"trials", "1", "2", "--sort", "best", "--limit", "3"},
               "trials",
               {"2.1", "1.2", "1.3"}},
           Row{{"trials", "1", "2", "--filter", "hp.width > 3"},
               "trials",
               {"2.1"}},
           Row{{"trials", "1", "2", "--filter", "hp.width is null"},
               "trials",
               {"1.1", "1.2", "1.3"}},
           Row{{"metrics", "2", "1.2", "--filter", "batches == 10"},
               "metrics",
               {"2.1", "2.2", "1.2"}},
           Row{{"metrics", "1", "1.2", "1", "--filter", "batches == 10"},
               "metrics",
               {"1.1", "1.2", "1.3"}},
           Row{{"metrics", "2", "1", "--sort", "trial", "--filter",
                "batches == 10"},
               "metrics",
               {"1.1", "1.2", "1.3", "2.1", "2.2"}},
           Row{{"metrics", "1", "2", "--sort", "value", "--limit", "2"},
               "metrics",
               {"2.1", "1.2"}},
       }) {
    EXPECT_EQ(Trials(it.words, it.rows), it.trials)
        << testing::PrintToString(it.words);
  }
}

TEST_F(SeveralExperimentsTest, TablesHaveTheHyperparametersOfAll) {
  AddTwo();
  for (const char* command : {"best", "trials"}) {
    const CliResult text = dtrain_.Run({command, "1", "2"});
    EXPECT_THAT(text.out, AllOf(HasSubstr("lr"), HasSubstr("opt"),
                                HasSubstr("width"), Not(HasSubstr("depth"))))
        << command;
    std::vector<std::string> csv = {command, "1", "2", "--csv"};
    if (command == std::string("best")) csv.insert(csv.end(), {"-n", "0"});
    EXPECT_THAT(dtrain_.Run(csv).out,
                HasSubstr(",hp.depth,hp.lr,hp.opt,hp.width,length,unit\r\n"))
        << command;
  }
  EXPECT_EQ(
      dtrain_.Run({"trials", "1", "2", "--columns", "id,hp.*", "--csv"}).out,
      "id,hp.lr,hp.opt,hp.width\r\n1.1,0.3,sgd,\r\n1.2,0.1,adam,\r\n"
      "1.3,0.2,sgd,\r\n2.1,0.05,,4\r\n2.2,0.25,,2\r\n");
  // One that is constant in an experiment and searched in another is shown.
  Add({"{lr: 0.5}", {{{{"lr", 0.5}}, 9}}});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"trials", "3", "2"}, {"trials", "2", "3"}}) {
    EXPECT_THAT(dtrain_.Run(words).out, HasSubstr("lr  width ")) << words[1];
  }
  const CliResult unknown =
      dtrain_.Run({"trials", "1", "2", "--filter", "hp.none > 1"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("experiment 1 has no column, "));
}

// Documents of one experiment have its ID; those of several have all.
TEST_F(SeveralExperimentsTest, AreNamedInTheDocument) {
  AddTwo();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"best"}, {"importance", "--at", "best"}}) {
    const auto call = [&](const std::vector<std::string>& experiments) {
      std::vector<std::string> all = words;
      all.insert(all.begin() + 1, experiments.begin(), experiments.end());
      all.emplace_back("--json");
      return dtrain_.Run(all);
    };
    EXPECT_EQ(call({"2", "1"}).Json()["experiments"], json({2, 1}));
    const CliResult one = call({"1"});
    EXPECT_EQ(one.Json()["experiment"], 1);
    // However often it is named.
    EXPECT_EQ(call({"1", "1-1"}).out, one.out);
  }
}

// Two halves of a search give what the whole gives.
TEST_F(SeveralExperimentsTest, HalvesOfASearchAreTheWhole) {
  MadeExperiment first{kLrWidth, {}};
  MadeExperiment second = first;
  MadeExperiment whole = first;
  for (int i = 0; i < 24; ++i) {
    const MadeTrial trial{
        {{"lr", 0.01 * (1 + i * 7 % 24)}, {"width", 1 + i % 8}},
        0.01 * (1 + i * 7 % 24) + 0.1 * (i % 8)};
    (i < 12 ? first : second).trials.push_back(trial);
    whole.trials.push_back(trial);
  }
  Add(first);
  Add(second);
  Add(whole);
  for (const std::vector<std::string>& options : {std::vector<std::string>{},
                                                  {"--at", "best"},
                                                  {"--at", "5"},
                                                  {"--quantile", "0.25"}}) {
    const auto call = [&](std::vector<std::string> words) {
      words.insert(words.begin(), "importance");
      words.insert(words.end(), options.begin(), options.end());
      words.emplace_back("--json");
      json document = dtrain_.Run(words).Json();
      document.erase("experiment");
      document.erase("experiments");
      return document;
    };
    EXPECT_EQ(call({"1", "2"}), call({"3"})) << testing::PrintToString(options);
  }
  const auto points = [&](const std::vector<std::string>& experiments) {
    std::vector<std::string> words = {"best", "-n", "6", "--points"};
    words.insert(words.end(), experiments.begin(), experiments.end());
    return dtrain_.Run(words).out;
  };
  EXPECT_EQ(points({"1", "2"}), points({"3"}));
}

// The axes reach over the values of all.
TEST_F(SeveralExperimentsTest, HalvesOfARangeAreTheWhole) {
  const auto space = [](const std::string& range, const std::string& words) {
    return "{lr: {type: double, " + range +
           "}, opt: {type: categorical, vals: " + words + "}}";
  };
  MadeExperiment first{space("minval: 0.0, maxval: 0.5", "[a, b]"), {}};
  MadeExperiment second{space("minval: 0.5, maxval: 1.0", "[b, c]"), {}};
  MadeExperiment whole{space("minval: 0.0, maxval: 1.0", "[a, b, c]"), {}};
  for (int i = 0; i < 24; ++i) {
    const double lr = (i + 0.5) / 24;
    const std::string opt =
        i < 12 ? (i % 3 == 0 ? "a" : "b") : (i % 4 == 0 ? "c" : "b");
    const MadeTrial trial{{{"lr", lr}, {"opt", opt}},
                          (lr - 0.6) * (lr - 0.6) + (opt == "b" ? 0.05 : 0)};
    (i < 12 ? first : second).trials.push_back(trial);
    whole.trials.push_back(trial);
  }
  Add(first);
  Add(second);
  Add(whole);
  const auto importance = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "importance");
    words.insert(words.end(), {"--quantile", "0.25", "--json"});
    return dtrain_.Run(words).Json()["importance"];
  };
  EXPECT_EQ(importance({"1", "2"}), importance({"3"}));
  EXPECT_EQ(importance({"2", "1"}), importance({"3"}));
}

TEST_F(SeveralExperimentsTest, WithOtherMetricsOrDirectionsAreRefused) {
  AddTwo();
  Add({kLrOpt, {{{{"lr", 0.3}, {"opt", "sgd"}}, 3}}, "loss", false});
  Add({kLrOpt, {{{{"lr", 0.3}, {"opt", "sgd"}}, 3}}, "error", true});
  struct Row {
    std::vector<std::string> experiments;
    std::string message;
  };
  for (const char* command : {"best", "trials", "metrics", "importance"}) {
    for (const Row& it :
         {Row{{"1", "3"},
              "experiment 1 minimizes loss, experiment 3 maximizes loss; give "
              "experiments with one metric and direction\n"},
          Row{{"1", "2", "4"},
              "experiment 1 minimizes loss, experiment 4 minimizes error; "
              "give"},
          Row{{"4-3"}, "4-3"}, Row{{"1", "9"}, "no experiment 9 in "}}) {
      std::vector<std::string> words = {command};
      words.insert(words.end(), it.experiments.begin(), it.experiments.end());
      const CliResult result = dtrain_.Run(words);
      EXPECT_NE(result.code, 0) << command;
      EXPECT_THAT(result.err, HasSubstr(it.message)) << command;
      EXPECT_THAT(result.out, IsEmpty()) << command;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    }
  }
}

TEST_F(SeveralExperimentsTest, ImportanceRefusesSpacesThatDoNotFit) {
  AddTwo();
  Add({"{lr: {type: categorical, vals: [0.1, 0.2]}}", {{{{"lr", 0.1}}, 1}}});
  const CliResult result =
      dtrain_.Run({"importance", "1", "3", "--at", "best"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("hyperparameter lr is a list in experiment 3 and a "
                        "logarithmic range in another experiment"));
}

class BestPointsTest : public SeveralExperimentsTest {
 protected:
  // Returns the points of a search with this space and what best printed.
  json Paste(const std::string& space, const std::string& printed) const {
    dtrain_.Write("next.sh", "echo loss=1\n");
    dtrain_.Write("next.yaml",
                  "entrypoint: sh next.sh\nmetrics: {loss: 'loss=(\\S+)'}\n"
                  "hyperparameters: " +
                      space +
                      "\nresources: {slots: \"cpu:1\"}\nsearcher:\n"
                      "  name: random\n" +
                      printed + "  metric: loss\n  max_trials: 9\n");
    const CliResult result =
        dtrain_.Run({"create", "next.yaml", "--dry-run", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? result.Json()["config"]["searcher"]["points"]
                            : json();
  }
};

// Only searched hyperparameters, each point once, the best first.
TEST_F(BestPointsTest, CanBePastedBelowTheSearcher) {
  struct Row {
    std::string what;
    std::string space;
    std::vector<MadeTrial> trials;
    std::vector<std::string> options;
    json points;
  };
  const std::vector<Row> rows = {
      {"constants are left out",
       kLrOpt,
       {{{{"lr", 0.3}, {"opt", "sgd"}, {"depth", 3}}, 3},
        {{{"lr", 0.1}, {"opt", "adam"}, {"depth", 3}}, 1}},
       {"-n", "2"},
       json::parse(R"([{"lr": 0.1, "opt": "adam"},
                       {"lr": 0.3, "opt": "sgd"}])")},
      {"one by default",
       kLrWidth,
       {{{{"lr", 0.5}, {"width", 1}}, 2}, {{{"lr", 0.25}, {"width", 2}}, 1}},
       {},
       json::parse(R"([{"lr": 0.25, "width": 2}])")},
      {"equal ones once",
       kLrWidth,
       {{{{"lr", 0.5}, {"width", 1}}, 1},
        {{{"lr", 0.5}, {"width", 1}}, 1.5},
        {{{"lr", 0.25}, {"width", 2}}, 2}},
       {"-n", "2"},
       json::parse(R"([{"lr": 0.5, "width": 1}, {"lr": 0.25, "width": 2}])")},
      {"all of a filter",
       kLrWidth,
       {{{{"lr", 0.5}, {"width", 1}}, 1}, {{{"lr", 0.25}, {"width", 2}}, 2}},
       {"-n", "0", "--filter", "hp.width > 1"},
       json::parse(R"([{"lr": 0.25, "width": 2}])")},
      {"nested, and texts that look like other types",
       "{model: {layers: {type: int, minval: 1, maxval: 4}, name: x}, "
       "kind: {type: categorical, vals: ['true', 'null', '1', 'a: b', [1, 2], "
       "{type: sgd, lr: 1.0}]}}",
       {{{{"model", {{"layers", 2}, {"name", "x"}}}, {"kind", "null"}}, 1},
        {{{"model", {{"layers", 3}, {"name", "x"}}}, {"kind", {1, 2}}}, 2},
        {{{"model", {{"layers", 4}, {"name", "x"}}},
          {"kind", {{"type", "sgd"}, {"lr", 1.0}}}},
         3},
        {{{"model", {{"layers", 1}, {"name", "x"}}}, {"kind", "a: b"}}, 4}},
       {"-n", "4"},
       json::parse(R"([{"model": {"layers": 2}, "kind": "null"},
                       {"model": {"layers": 3}, "kind": [1, 2]},
                       {"model": {"layers": 4},
                        "kind": {"type": "sgd", "lr": 1.0}},
                       {"model": {"layers": 1}, "kind": "a: b"}])")}};
  int id = 0;
  for (const Row& it : rows) {
    Add({it.space, it.trials});
    std::vector<std::string> words = {"best", std::to_string(++id), "--points"};
    words.insert(words.end(), it.options.begin(), it.options.end());
    const CliResult result = dtrain_.Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(Paste(it.space, result.out), it.points) << it.what;
  }
}

TEST_F(BestPointsTest, SaysWhereThereAreNone) {
  Add({"{lr: 0.5}", {{{{"lr", 0.5}}, 1}}});
  Add({kLrWidth, {}});
  const CliResult constant = dtrain_.Run({"best", "1", "--points"});
  EXPECT_EQ(constant.code, 2);
  EXPECT_THAT(constant.err,
              HasSubstr("--points: experiment 1 searches no hyperparameter; "
                        "'dtrain config 1.1' prints the YAML"));
  const CliResult none = dtrain_.Run({"best", "2", "--points"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, HasSubstr("experiment 2 has no finite validation "
                                  "value of loss"));
  for (const char* option : {"--json", "--csv", "--reverse"}) {
    EXPECT_EQ(dtrain_.Run({"best", "2", "--points", option}).code, 2) << option;
  }
}

}  // namespace
}  // namespace dtrain
