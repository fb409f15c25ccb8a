// Commands with placeholders, through the binary.

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A script that knows nothing of dtrain but how to report.
class PlaceholderCommandTest : public testing::Test {
 protected:
  PlaceholderCommandTest() {
    dtrain_.Write("train.sh",
                  "echo \"words: $*\"\n"
                  "printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":"
                  "{\"loss\":%s}}\\n' \"$2\" \"$1\" >&3\n");
  }
  CliResult Run(const std::string& command, const std::string& entrypoint,
                std::vector<std::string> options = {}) const {
    dtrain_.Write("train.yaml",
                  "entrypoint: " + entrypoint +
                      "\nhyperparameters:\n"
                      "  model: {x: {type: categorical, vals: [0.5, 0.25]}}\n"
                      "searcher: {name: grid, metric: loss, max_length: 4}\n"
                      "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n");
    options.insert(options.begin(), {command, "train.yaml"});
    return dtrain_.Run(options);
  }
  std::string Logs() const { return dtrain_.Run({"logs", "1"}).out; }

  CliRunner dtrain_;
};

TEST_F(PlaceholderCommandTest, AreFilledForEachTrial) {
  const CliResult result = Run(
      "create", "sh train.sh {model.x} {length} 'a {trial}' {{b}}", {"--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["best"]["value"], 0.25);
  EXPECT_THAT(Logs(),
              AllOf(HasSubstr("words: 0.5 4 a 1."), HasSubstr(" 1.1 {b}"),
                    HasSubstr("words: 0.25 4 a 1."), HasSubstr(" 1.2 {b}")));
  const json described = dtrain_.Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(described["entrypoint"],
            "sh train.sh {model.x} {length} a {trial} {{b}}");
}

TEST_F(PlaceholderCommandTest, AreKeptByThePrintedConfiguration) {
  ASSERT_EQ(
      Run("create", "[sh, train.sh, '{model.x}', '{length}', '{b}']").code, 0);
  dtrain_.Write("again.yaml", dtrain_.Run({"config", "1"}).out);
  const CliResult again = dtrain_.Run({"create", "again.yaml"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(dtrain_.Run({"logs", "2"}).out, HasSubstr("words: 0.5 4 {b}"));
}

TEST_F(PlaceholderCommandTest, UnknownNamesAreFoundBeforeAnythingIsCreated) {
  for (const std::string command : {"create", "validate", "preview-search"}) {
    const CliResult result = Run(command, "sh train.sh {model.y} {length}");
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(
        result.out + result.err,
        HasSubstr("train.yaml:1:13: entrypoint: character 13: no "
                  "hyperparameter 'model.y' for {model.y}; did you mean "
                  "'model.x'?"))
        << command;
  }
  EXPECT_EQ(Run("create", "sh train.sh {z}", {"--dry-run"}).code, 2);
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(PlaceholderCommandTest, CanBeSetOnTheCommandLine) {
  const CliResult result =
      Run("create", "sh none.sh",
          {"--set", "entrypoint=sh train.sh {model.x} {length} {trial}"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Logs(), AllOf(HasSubstr("words: 0.25 4 1."),
                            HasSubstr("words: 0.5 4 1.")));
  const CliResult wrong =
      Run("create", "sh none.sh",
          {"--set", "entrypoint=sh train.sh {model.y} {length}"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--set entrypoint: entrypoint: character "
                                   "13: no hyperparameter 'model.y'"));
}

// Arguments of true, false and null.
struct FilledArguments {
  const char* name;
  const char* arguments;  // of the entrypoint
  const char* value;      // of the hyperparameter x
  const char* words;      // as the program gets them
  const char* rules = "2";
};

class FilledArgumentsTest : public testing::TestWithParam<FilledArguments> {};

TEST_P(FilledArgumentsTest, ReachTheProgram) {
  const FilledArguments& one = GetParam();
  const CliRunner dtrain;
  dtrain.Write("train.sh",
               "printf '<%s> ' \"$@\"\n"
               "echo '{\"type\":\"validation\",\"batches\":4,\"metrics\":"
               "{\"loss\":1}}' >&3\n");
  dtrain.Write("train.yaml", std::string("entrypoint: ") + one.arguments +
                                 "\nhyperparameters: {x: " + one.value +
                                 "}\nrules: " + one.rules +
                                 "\nsearcher: {name: single, metric: loss, "
                                 "max_length: 4}\nmax_restarts: 0\n"
                                 "resources: {slots: \"cpu:1\"}\n");
  const CliResult result = dtrain.Run({"create", "train.yaml"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(dtrain.Run({"logs", "1"}).out,
              HasSubstr(std::string(" ") + one.words + " \n"));
}

INSTANTIATE_TEST_SUITE_P(
    Values, FilledArgumentsTest,
    testing::Values(
        FilledArguments{"FlagThatIsTrue", "sh train.sh a {x:--use-bn} b",
                        "true", "<a> <--use-bn> <b>"},
        FilledArguments{"FlagThatIsFalse", "sh train.sh a {x:--use-bn} b",
                        "false", "<a> <b>"},
        FilledArguments{"FlagThatIsNull", "sh train.sh a {x:--use-bn} b",
                        "null", "<a> <b>"},
        FilledArguments{"EitherOption",
                        "sh train.sh a {x:--use-bn|--no-use-bn}", "false",
                        "<a> <--no-use-bn>"},
        FilledArguments{"FlagInAList",
                        "[sh, train.sh, a, '{x:--bn=1|--bn=0}', '{y:--bn}']",
                        "true", "<a> <--bn=1> <{y:--bn}>"},
        FilledArguments{"NullWithItsOption", "sh train.sh a --teacher {x} b",
                        "null", "<a> <b>"},
        FilledArguments{"NullAfterEquals", "sh train.sh a --teacher={x} b",
                        "null", "<a> <b>"},
        FilledArguments{"NullAfterAnArgument", "sh train.sh a {x} b", "null",
                        "<a> <b>"},
        FilledArguments{"NullAfterTwoDashes", "sh train.sh -- {x} b", "null",
                        "<--> <b>"},
        FilledArguments{"NullAfterAnOptionWithItsValue",
                        "sh train.sh --lr=1 {x}", "null", "<--lr=1>"},
        FilledArguments{"NullAfterANegativeNumber", "sh train.sh -1 {x}",
                        "null", "<-1>"},
        FilledArguments{"NullInAText", "sh train.sh lr={x} {x}.pt", "null",
                        "<lr=null> <null.pt>"},
        FilledArguments{"NullByTheRulesBefore", "sh train.sh a --teacher {x}",
                        "null", "<a> <--teacher> <null>", "1"},
        FilledArguments{"TextOfNull", "sh train.sh a --teacher {x}", "'null'",
                        "<a> <--teacher> <null>"},
        FilledArguments{"EmptyText", "sh train.sh --a {x} b", "''",
                        "<--a> <> <b>"}),
    [](const auto& one) { return one.param.name; });

TEST_F(PlaceholderCommandTest, AreShownAsTheyRun) {
  ASSERT_EQ(Run("create", "sh train.sh {model.x} {length} 'a {trial}'").code,
            0);
  EXPECT_THAT(Logs(), HasSubstr("dtrain: runs sh train.sh 0.5 4 'a 1."));
}

// A trial without a hyperparameter, by its condition, has no word for it; and
// neither has a trial that repeats it.
TEST_F(PlaceholderCommandTest, LeaveOutWhatIsAbsent) {
  dtrain_.Write("absent.yaml",
                "entrypoint: sh train.sh 0.5 4 --m {m} {f:--on|--off} end\n"
                "hyperparameters:\n"
                "  o: {type: categorical, vals: [adam, sgd]}\n"
                "  m: {type: const, val: 0.9, when: {o: sgd}}\n"
                "  f: {type: const, val: true, when: {o: sgd}}\n"
                "searcher: {name: grid, metric: loss, max_length: 4,\n"
                "  max_concurrent_trials: 1}\n"
                "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n");

  const CliResult result = dtrain_.Run({"create", "absent.yaml"});

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(dtrain_.Run({"logs", "1.1"}).out,
              HasSubstr("words: 0.5 4 --m 0.9 --on end"));
  EXPECT_THAT(dtrain_.Run({"logs", "1.2"}).out, HasSubstr("words: 0.5 4 end"));
  const json absent =
      dtrain_.Run({"trials", "1", "--filter", "hp.m is null", "--json"}).Json();
  ASSERT_EQ(absent["trials"].size(), 1u);
  EXPECT_EQ(absent["trials"][0]["hparams"], json({{"o", "adam"}}));
  EXPECT_EQ(dtrain_.Run({"reproduce", "1.2"}).code, 0);
  EXPECT_THAT(dtrain_.Run({"logs", "2.1"}).out, HasSubstr("words: 0.5 4 end"));
}

// Flags that no value, or no place, makes one.
TEST_F(PlaceholderCommandTest, FlagsNeedTrueOrFalse) {
  const auto refusal = [&](const std::string& entrypoint,
                           const std::string& hparams) {
    dtrain_.Write("flag.yaml", "entrypoint: " + entrypoint +
                                   "\nhyperparameters: {x: " + hparams +
                                   "}\nsearcher: {name: random, metric: loss, "
                                   "max_trials: 2}\n");
    const CliResult result = dtrain_.Run({"create", "flag.yaml"});
    EXPECT_EQ(result.code, 2) << entrypoint;
    return result.err;
  };
  EXPECT_THAT(refusal("sh train.sh {x:--bn}", "3"),
              HasSubstr("flag.yaml:1:13: entrypoint: character 13: {x:--bn} "
                        "needs true or false, but 'x' can be the integer 3; "
                        "write --bn {x} for an option with a value"));
  EXPECT_THAT(refusal("sh train.sh {x:--bn}",
                      "{type: categorical, vals: [true, auto]}"),
              HasSubstr("but 'x' can be the string 'auto'"));
  EXPECT_THAT(refusal("[sh, train.sh, '{x:--bn}']",
                      "{type: int, minval: 0, maxval: 1}"),
              HasSubstr("but 'x' can be a range of numbers"));
  EXPECT_THAT(refusal("sh train.sh {seed:--bn}", "true"),
              HasSubstr("but 'seed' is not a hyperparameter"));
  EXPECT_THAT(refusal("sh train.sh --a={x:--bn}", "true"),
              HasSubstr("must be an argument of its own"));
  EXPECT_THAT(refusal("sh train.sh {y:--bn}", "true"),
              HasSubstr("no hyperparameter 'y' for {y}"));
  EXPECT_THAT(refusal("sh train.sh {x:bn}", "true"),
              HasSubstr("'{' begins no placeholder"));
}

TEST_F(PlaceholderCommandTest, ScriptsBeforeThemAreStillChecked) {
  const CliResult result = Run("create", "sh none.sh {model.x}");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no script 'none.sh'"));
}

}  // namespace
}  // namespace dtrain
