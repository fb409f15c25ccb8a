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

TEST_F(PlaceholderCommandTest, ScriptsBeforeThemAreStillChecked) {
  const CliResult result = Run("create", "sh none.sh {model.x}");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no script 'none.sh'"));
}

}  // namespace
}  // namespace dtrain
