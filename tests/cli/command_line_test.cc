#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CommandLineTest : public testing::Test {
 protected:
  CliRunner dtrain_;
};

TEST_F(CommandLineTest, ShowsShortHelpWithoutArguments) {
  const CliResult result = dtrain_.Run({});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("create          Run an experiment"));
  EXPECT_LT(std::ranges::count(result.out, '\n'), 25);
}

TEST_F(CommandLineTest, TellsItsVersion) {
  const CliResult result = dtrain_.Run({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("dtrain "));
}

TEST_F(CommandLineTest, TellsTheVersionsOfItsLibraries) {
  const auto document = dtrain_.Run({"version", "--json"}).Json();
  EXPECT_TRUE(document["libraries"].contains("sqlite"));
  EXPECT_EQ(document["libraries"]["dtrain"], document["version"]);
}

struct Mistake {
  std::vector<std::string> arguments;
  std::string message;
};

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsOneLineThatSaysWhatToDo) {
  const CliResult result = CliRunner().Run(GetParam().arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "dtrain: error: " + GetParam().message + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    CommandLines, MistakeTest,
    testing::Values(
        Mistake{{"lst"}, "unknown command 'lst'; did you mean 'list'?"},
        Mistake{{"xyzzy"},
                "unknown command 'xyzzy'; 'dtrain --help' lists them all"},
        Mistake{{"\x1b[2J"},
                "unknown command '\\x1b[2J'; 'dtrain --help' lists them all"},
        Mistake{{"list", "--limt", "3"},
                "unknown option '--limt'; did you mean '--limit'?"},
        Mistake{{"list", "three"},
                "list: unexpected argument 'three'; see 'dtrain list --help'"},
        Mistake{{"create"},
                "create: CONFIG is required; see 'dtrain create --help'"},
        Mistake{{"list", "--json", "--csv"},
                "list: --json excludes --csv; see 'dtrain list --help'"},
        Mistake{{"list", "--limit", "-1"},
                "list: --limit: wants a whole number of at least 0, not '-1'; "
                "see 'dtrain list --help'"},
        Mistake{{"plot", "1", "--x", "epoch"},
                "plot: --x: wants batches or epochs, not 'epoch'; did you mean "
                "'epochs'?"},
        Mistake{{"plot", "1", "--x", "time"},
                "plot: --x: wants batches or epochs, not 'time'; see 'dtrain "
                "plot --help'"},
        Mistake{{"--color", "pink", "list"},
                "--color: wants auto, always or never, not 'pink'"},
        Mistake{{"trials", "3.1"},
                "'3.1' is no experiment; they are numbers such as 3 ('dtrain "
                "list' shows them)"},
        Mistake{{"logs", "x"},
                "'x' is no id; experiments are numbers such as 3, their "
                "trials 3.7 ('dtrain list' shows them)"},
        Mistake{{"list", "--sort", "age"},
                "--sort: there is no field 'age'; there are id, name, state, "
                "progress, searcher, trials, best, started, duration"}));

class HelpTest : public testing::TestWithParam<std::string> {};

TEST_P(HelpTest, IsShorterThan25Lines) {
  const CliResult result = CliRunner().Run({GetParam(), "--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("Usage: "));
  EXPECT_LT(std::ranges::count(result.out, '\n'), 25) << result.out;
}

INSTANTIATE_TEST_SUITE_P(Commands, HelpTest,
                         testing::Values("create", "validate", "resume",
                                         "activate", "preview-search", "wait",
                                         "list", "describe", "config", "trials",
                                         "best", "metrics", "logs",
                                         "checkpoints", "models", "slots",
                                         "version"));

TEST_F(CommandLineTest, NoticesThatItsOutputIsLost) {
  const CliResult result =
      dtrain_.Run({"version"}, {.stdout_file = "/dev/full"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "dtrain: error: stdout: cannot write: No space left on device; "
            "what was printed is incomplete\n");
}

TEST_F(CommandLineTest, NoticesThatItHasNoOutput) {
  const CliResult result =
      dtrain_.RunProgram({"sh", "-c", "dtrain version >&-"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout: cannot write"));
}

TEST_F(CommandLineTest, EndsQuietlyWhereNobodyReads) {
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c", "dtrain models | true; exit ${PIPESTATUS[0]}"});
  EXPECT_TRUE(result.code == 141 || result.code == 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(CommandLineTest, ColorsOnlyWhereAsked) {
  const auto plain = dtrain_.Run({"models"});
  const auto painted = dtrain_.Run({"--color", "always", "models"});
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos);
  EXPECT_NE(painted.out.find("\x1b[1m"), std::string::npos);
}

}  // namespace
}  // namespace dtrain
