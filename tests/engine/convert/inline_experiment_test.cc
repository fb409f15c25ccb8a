#include "engine/convert/inline_experiment.h"

#include <ostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using InlineJson = nlohmann::json;

InlineExperiment RandomSearch(std::vector<std::string> hyperparameters) {
  return {.command = {"python3", "dir/train.py", "--out", "a b"},
          .hyperparameters = std::move(hyperparameters),
          .max_trials = 3,
          .metric = "loss"};
}

// The configuration that `create` would read from the YAML.
ExperimentConfig Read(const InlineExperiment& experiment) {
  const std::string yaml = WriteInlineYaml(experiment).printed;
  ConfigResult result = ReadConfig(yaml, {.file_name = "inline"});
  for (const Diagnostic& one : result.diagnostics) {
    ADD_FAILURE() << one.ToString() << "\n" << yaml;
  }
  return *std::move(result.config);
}

std::string RefusalText(const InlineExperiment& experiment) {
  try {
    return "accepted:\n" + WriteInlineYaml(experiment).printed;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(InlineYamlTest, HasConstraints) {
  InlineExperiment experiment = RandomSearch({"x=int(1,9)", "y=int(1,9)"});
  experiment.constraints = {"x * y < 9", "x != y + 0"};
  EXPECT_THAT(Read(experiment).searcher.constraints,
              ElementsAre("x * y < 9", "x != y + 0"));

  experiment = {.command = {"a"},
                .hyperparameters = {"x=1"},
                .constraints = {"x > 0"},
                .metric = "loss"};
  EXPECT_EQ(RefusalText(experiment),
            "--constraint: does not apply to single, which is one trial; leave "
            "it out, or add a range by --hp");
}

TEST(InlineYamlTest, KeepsTheWordsOfTheCommand) {
  InlineExperiment experiment = RandomSearch({"x=int(1,2)"});
  experiment.command = {"sh",  "-c",   "echo \"$DTRAIN_HPARAM_x\" {y}: #",
                        "007", "true", "",
                        "{3}", "${x}", "{\"a\": {}}"};
  const ExperimentConfig config = Read(experiment);
  EXPECT_EQ(config.effective["entrypoint"], InlineJson(experiment.command));
  EXPECT_FALSE(config.placeholders);
}

TEST(InlineYamlTest, PassesHyperparametersByPlaceholders) {
  InlineExperiment experiment =
      RandomSearch({"lr=double(0,1)", "model.layers=int(2,8)", "width=8"});
  experiment.command = {"python3", "train.py",       "--lr={lr}",
                        "-c",      "{model.layers}", "{{width}} {seed}"};
  const ExperimentConfig config = Read(experiment);
  EXPECT_TRUE(config.placeholders);
  EXPECT_EQ(config.effective["entrypoint"]["command"],
            InlineJson({"python3", "train.py", "--lr={lr}", "-c",
                        "{model.layers}", "{{width}} {seed}"}));
  EXPECT_THAT(WriteInlineYaml(experiment).unplaced, ElementsAre("width"));
}

TEST(InlineYamlTest, PassesDoubledBracesAsText) {
  InlineExperiment experiment = RandomSearch({"lr=double(0,1)"});
  experiment.command = {"./train", "{{lr}}", "{{epoch}}", "{{", "{{{{}}"};
  EXPECT_EQ(Read(experiment).effective["entrypoint"],
            InlineJson({"./train", "{lr}", "{epoch}", "{{", "{{{{}}"}));
}

TEST(InlineYamlTest, RefusesPlaceholdersThatWouldReachTheProgram) {
  const auto refusal = [](std::vector<std::string> command) {
    InlineExperiment experiment = RandomSearch({"lr=log(1e-5,1e-1)"});
    experiment.command = std::move(command);
    return RefusalText(experiment);
  };
  EXPECT_EQ(refusal({"./train", "--lr={lrr}"}),
            "word 2 of the command, '--lr={lrr}': no hyperparameter 'lrr' for "
            "{lrr}; did you mean 'lr'?; write {{lrr}} for the text {lrr}");
  EXPECT_THAT(refusal({"./train", "{batch}"}),
              HasSubstr("known are lr, checkpoint, directory, seed, trial"));
  EXPECT_THAT(refusal({"./train", "{length}"}),
              HasSubstr("{length} needs --max-length UNIT=N"));
  EXPECT_THAT(refusal({"sh", "-ec", "-c", "./train {lr}"}),
              HasSubstr("{lr} is not filled in code; read the variable "
                        "DTRAIN_HPARAM_lr"));
  EXPECT_THAT(refusal({"/usr/bin/python3.11", "-c", "print({lr})"}),
              HasSubstr("not filled in code"));
  EXPECT_THAT(refusal({"./{lr}"}),
              HasSubstr("the program cannot be a placeholder"));
}

TEST(InlineYamlTest, NestsNamesWithDots) {
  const ExperimentConfig config =
      Read(RandomSearch({"model.layers=int(2,8)", "model.width=4", "type=5"}));
  const InlineJson& all = config.effective["hyperparameters"];
  EXPECT_EQ(all["model"]["layers"]["maxval"], 8);
  EXPECT_EQ(all["model"]["width"], 4);
  EXPECT_EQ(all["type"], 5);
}

TEST(InlineYamlTest, RefusesAHyperparameterWithoutANameOrAValue) {
  EXPECT_EQ(RefusalText(RandomSearch({"=3"})),
            "--hp '=3': expected NAME=SPEC, such as lr=log(1e-5,1e-1) or "
            "batch=32");
  EXPECT_THAT(RefusalText(RandomSearch({"lr"})),
              HasSubstr("expected NAME=SPEC"));
  EXPECT_THAT(RefusalText(RandomSearch({"lr="})),
              HasSubstr("--hp 'lr=': has no value"));
  EXPECT_THAT(RefusalText(RandomSearch({"a..b=1"})),
              HasSubstr("a part of the name is empty"));
  EXPECT_THAT(RefusalText(RandomSearch({"a.type=1"})),
              HasSubstr("cannot be named 'type'"));
}

TEST(InlineYamlTest, RefusesAHyperparameterThatIsGivenTwice) {
  EXPECT_THAT(RefusalText(RandomSearch({"a=1", "a=2"})), HasSubstr("twice"));
  EXPECT_THAT(RefusalText(RandomSearch({"a=1", "a.b=2"})), HasSubstr("twice"));
  EXPECT_THAT(RefusalText(RandomSearch({"a=int(1,2)", "a.b=2"})),
              HasSubstr("twice"));
  EXPECT_THAT(RefusalText(RandomSearch({"a.b=1", "a=2"})), HasSubstr("twice"));
}

TEST(InlineYamlTest, FindsMetricsByPatterns) {
  InlineExperiment experiment = RandomSearch({"x=int(1,2)"});
  EXPECT_FALSE(WriteInlineYaml(experiment).finds_metrics);
  experiment.patterns = {"loss=loss[:= ]+(\\S+)", "step=epoch (\\d+)"};
  const InlineYaml yaml = WriteInlineYaml(experiment);
  EXPECT_TRUE(yaml.finds_metrics);
  EXPECT_THAT(yaml.printed, HasSubstr("loss: \"loss[:= ]+(\\\\S+)\""));
  EXPECT_EQ(Read(experiment).effective["metrics"]["step"], "epoch (\\d+)");
  experiment.patterns.push_back("loss=x(y)");
  EXPECT_THAT(RefusalText(experiment), HasSubstr("'loss' is given twice"));
  experiment.patterns = {"loss="};
  EXPECT_THAT(RefusalText(experiment), HasSubstr("expected NAME=REGEX"));
}

TEST(InlineYamlTest, FindsMetricsInAFile) {
  InlineExperiment experiment = RandomSearch({"x=int(1,2)"});
  experiment.metrics_file = "metrics.jsonl";
  EXPECT_EQ(Read(experiment).effective["metrics"]["file"], "metrics.jsonl");
}

TEST(InlineYamlTest, ChoosesTheSearcher) {
  EXPECT_EQ(Read(RandomSearch({"x=int(1,2)"})).searcher.name, "random");
  InlineExperiment single = RandomSearch({"x=1"});
  single.max_trials = {};
  const ExperimentConfig config = Read(single);
  EXPECT_EQ(config.searcher.name, "single");
  EXPECT_EQ(config.name, "train");
}

class InlineHalvingTest : public testing::Test {
 protected:
  InlineHalvingTest() {
    experiment_.searcher = "asha";
    experiment_.metric = "accuracy";
    experiment_.maximize = true;
    experiment_.max_length = "epochs=27";
  }

  InlineExperiment experiment_ = RandomSearch({"x=double(0,1)"});
};

TEST_F(InlineHalvingTest, StopsTrialsAtRungsByDefault) {
  const ExperimentConfig config = Read(experiment_);
  EXPECT_EQ(config.effective["searcher"]["stop_once"], true);
  EXPECT_EQ(config.effective["searcher"]["max_length"]["epochs"], 27);
  EXPECT_FALSE(config.searcher.smaller_is_better);
  EXPECT_TRUE(WriteInlineYaml(experiment_).stops_at_rungs);
}

TEST_F(InlineHalvingTest, PromotesTrialsOfProgramsThatResume) {
  InlineExperiment script = experiment_;
  script.script_continues = true;
  EXPECT_EQ(Read(script).effective["searcher"]["stop_once"], false);
  experiment_.resumable = true;
  EXPECT_EQ(Read(experiment_).effective["searcher"]["stop_once"], false);
}

TEST_F(InlineHalvingTest, PromotesTrialsThatGetALengthOrACheckpoint) {
  InlineExperiment length = experiment_;
  length.command.push_back("--epochs={length}");
  EXPECT_EQ(Read(length).effective["searcher"]["stop_once"], false);
  EXPECT_TRUE(WriteInlineYaml(length).restarts_on_promotion);
  length.command.push_back("--resume={checkpoint}");
  EXPECT_FALSE(WriteInlineYaml(length).restarts_on_promotion);
  experiment_.command.push_back("--resume={checkpoint}");
  EXPECT_EQ(Read(experiment_).effective["searcher"]["stop_once"], false);
}

TEST_F(InlineHalvingTest, LeavesTheLastWordToOverrides) {
  experiment_.command.push_back("--epochs={length}");
  experiment_.overrides = {"searcher.stop_once=true", "max_restarts=2"};
  const ExperimentConfig config = Read(experiment_);
  EXPECT_EQ(config.effective["searcher"]["stop_once"], true);
  EXPECT_EQ(config.effective["max_restarts"], 2);
  EXPECT_FALSE(WriteInlineYaml(experiment_).restarts_on_promotion);
}

TEST(InlineYamlTest, AppliesOverridesBeforePlaceholders) {
  InlineExperiment experiment = RandomSearch({"x=double(0,1)"});
  experiment.command.insert(experiment.command.end(), {"{y}", "{length}"});
  experiment.overrides = {"hyperparameters.y=3",
                          "searcher.max_length.epochs=2"};
  const ExperimentConfig config = Read(experiment);
  EXPECT_EQ(config.effective["hyperparameters"]["y"], 3);
  EXPECT_TRUE(config.placeholders);
}

TEST(InlineYamlTest, RefusesOverridesThatDoNotFit) {
  InlineExperiment experiment = RandomSearch({"x=double(0,1)"});
  experiment.overrides = {"entrypoint=[a]"};
  EXPECT_THAT(RefusalText(experiment), HasSubstr("the program follows '--'"));
  experiment.overrides = {"searcher"};
  EXPECT_THAT(RefusalText(experiment), HasSubstr("expected a key and a value"));
  experiment.overrides = {"name.x=3"};
  EXPECT_THAT(RefusalText(experiment), HasSubstr("not a map with a key 'x'"));
}

TEST(InlineYamlTest, RefusesOptionsThatTheSearcherDoesNotTake) {
  InlineExperiment experiment = RandomSearch({"x=double(0,1)"});
  experiment.max_length = "epoch=3";
  EXPECT_THAT(RefusalText(experiment), HasSubstr("expected UNIT=N"));
  experiment.max_length = "epochs=1.5";
  EXPECT_THAT(RefusalText(experiment), HasSubstr("an integer of at least 1"));
  experiment.max_length = "";
  experiment.resumable = true;
  EXPECT_THAT(RefusalText(experiment),
              HasSubstr("--resumable: does not apply"));
  experiment.searcher = "asha";
  EXPECT_THAT(RefusalText(experiment), HasSubstr("--max-length: is required"));
  experiment.searcher = "grid";
  EXPECT_THAT(RefusalText(experiment),
              HasSubstr("--max-trials: does not apply"));
  experiment.searcher = "random";
  experiment.max_trials = {};
  EXPECT_THAT(RefusalText(experiment), HasSubstr("--max-trials: is required"));
}

}  // namespace
}  // namespace dtrain
