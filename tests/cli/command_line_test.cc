#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "engine/base/text.h"
#include "engine/run/reporter.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class CommandLineTest : public testing::Test {
 protected:
  CliRunner dtrain_;
};

TEST_F(CommandLineTest, ShowsHelpWithoutArguments) {
  const CliResult result = dtrain_.Run({});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, dtrain_.Run({"--help"}).out);
}

TEST_F(CommandLineTest, HelpBeforeACommandIsItsHelp) {
  EXPECT_EQ(dtrain_.Run({"help"}).out, dtrain_.Run({"--help"}).out);
  EXPECT_EQ(dtrain_.Run({"help", "create"}).out,
            dtrain_.Run({"create", "--help"}).out);
  const CliResult nested = dtrain_.Run({"help", "checkpoint", "show"});
  EXPECT_EQ(nested.code, 0);
  EXPECT_EQ(nested.out, dtrain_.Run({"checkpoint", "show", "--help"}).out);
}

TEST_F(CommandLineTest, HelpNamesAnUnknownCommand) {
  const CliResult result = dtrain_.Run({"help", "creat"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown command 'creat'"));
}

TEST_F(CommandLineTest, HelpOptionNamesAnUnknownCommand) {
  const CliResult result = dtrain_.Run({"creat", "--help"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("unknown command 'creat'; did you mean 'create'?"));
  EXPECT_THAT(dtrain_.Run({"checkpoint", "shwo", "--help"}).err,
              HasSubstr("unknown command 'checkpoint shwo'; available: show"));
}

TEST_F(CommandLineTest, PrintsItsVersion) {
  const CliResult result = dtrain_.Run({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("dtrain "));
}

TEST(CliRunnerTest, FailsIfTheTextToSignalAtNeverComes) {
  static constexpr auto kRun = [] {
    CliRunner().Run({"--version"}, {.signal_when = "never printed"});
  };
  EXPECT_NONFATAL_FAILURE(kRun(), "never contained 'never printed'");
}

TEST_F(CommandLineTest, PrintsTheVersionsOfItsLibraries) {
  const auto document = dtrain_.Run({"version", "--json"}).Json();
  EXPECT_TRUE(document["libraries"].contains("sqlite"));
  EXPECT_EQ(document["libraries"]["dtrain"], document["version"]);
}

// Each option of each command whose value is a file or a directory.
class EmptyPathTest : public testing::TestWithParam<std::vector<std::string>> {
};

TEST_P(EmptyPathTest, IsRefused) {
  std::vector<std::string> arguments = GetParam();
  arguments.emplace_back("");
  const CliResult result = CliRunner().Run(arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr(": is empty; give a path, or omit it; see "));
}

INSTANTIATE_TEST_SUITE_P(
    Options, EmptyPathTest,
    testing::ValuesIn(std::vector<std::vector<std::string>>{
        {"backup"},
        {"checkpoint", "export", "abcd", "--format", "safetensors", "--out"},
        {"checkpoint", "import"},
        {"checkpoint", "import", "a.pth"},
        {"checkpoint", "import", "a.pth", "a.yaml"},
        {"checkpoint", "import", "a.pth", "--out"},
        {"config", "1", "--export"},
        {"create", "a.yaml"},
        {"create", "a.yaml", "--junit"},
        {"data", "fetch", "mnist", "--from"},
        {"data", "fetch", "mnist", "--to"},
        {"data", "list", "--to"},
        {"data", "verify", "--to"},
        {"evaluate", "1.1", "--data"},
        {"init"},
        {"plot", "1", "--out"},
        {"predict", "1.1"},
        {"predict", "1.1", "--out"},
        {"preview-search"},
        {"validate"},
        {"validate", "a.yaml"}}));

TEST_F(CommandLineTest, IgnoresAnEmptyStoreVariable) {
  const CliResult result =
      dtrain_.RunProgram({"env", "DTRAIN_STORE=", "dtrain", "list"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr((dtrain_.directory() / ".dtrain").string()));
}

TEST_F(CommandLineTest, PassesWordsAfterTwoDashesUnchanged) {
  const CliResult result = dtrain_.Run({"validate", "--", "--store="});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--store=: no such file"));
}

// A command as a text names it: "checkpoint import", and the options behind it.
struct NamedCommand {
  std::string place;  // FILE:LINE
  std::string words;
  std::vector<std::string> options;
};

// The commands that `file` names in quotes, in backticks or at the beginning of
// a line, which in Markdown must be in a code block. Options are those up to
// the end of the quotes or of the line.
void FindCommands(const fs::path& file, std::vector<NamedCommand>& found) {
  static const std::regex kCommand(
      R"((?:^ {0,4}(?:\$ )?|[`'])(?:scripts/)?dtrain ([a-z][a-z-]+)( [a-z][a-z-]*)?([^`'|#"]*))");
  static const std::regex kOption("--[a-z][a-z-]+");
  std::ifstream in(file);
  const bool is_markdown = file.extension() == ".md";
  bool in_block = false;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find("```") != line.npos) in_block = !in_block;
    const std::sregex_iterator end;
    for (std::sregex_iterator at(line.begin(), line.end(), kCommand); at != end;
         ++at) {
      const char first = *(*at)[0].first;
      const bool is_prose =
          is_markdown && !in_block && first != '`' && first != '\'';
      if (is_prose) continue;
      NamedCommand one{.place = file.string() + ":" + std::to_string(number),
                       .words = (*at)[1]};
      const bool nested = one.words == "checkpoint" || one.words == "data" ||
                          one.words == "set";
      if (nested) one.words += (*at)[2];
      const std::string rest = (*at)[3];
      for (std::sregex_iterator option(rest.begin(), rest.end(), kOption);
           option != end; ++option) {
        one.options.push_back(option->str());
      }
      found.push_back(std::move(one));
    }
  }
}

std::vector<NamedCommand> CommandsInDocumentsAndMessages() {
  const fs::path root = DTRAIN_SOURCE_DIR;
  std::vector<NamedCommand> found;
  FindCommands(root / "README.md", found);
  for (const char* directory : {"docs", "cli", "engine", "models", "configs"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(root / directory)) {
      const std::string kind = entry.path().extension();
      if (entry.is_regular_file() && kind != ".py" && kind != ".pyc") {
        FindCommands(entry.path(), found);
      }
    }
  }
  return found;
}

// No document, note, message or help names a command or an option that there
// is not.
TEST_F(CommandLineTest, HasEveryCommandThatItsMessagesName) {
  const std::string main_help = dtrain_.Run({}).out;
  std::map<std::string, std::string> helps;
  const std::vector<NamedCommand> found = CommandsInDocumentsAndMessages();
  ASSERT_GT(found.size(), 100);
  for (const NamedCommand& one : found) {
    const auto [help, is_new] = helps.try_emplace(one.words);
    if (is_new) {
      std::vector<std::string> arguments = Split(one.words, ' ');
      arguments.emplace_back("--help");
      const CliResult result = dtrain_.Run(arguments);
      EXPECT_EQ(result.code, 0)
          << one.place << ": dtrain " << one.words << ": " << result.err;
      help->second = result.out;
    }
    for (const std::string& option : one.options) {
      EXPECT_THAT(help->second + main_help, HasSubstr(option))
          << one.place << ": dtrain " << one.words;
    }
  }
}

TEST_F(CommandLineTest, FailsIfItsOutputIsLost) {
  const CliResult result =
      dtrain_.Run({"version"}, {.stdout_file = "/dev/full"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "dtrain: error: stdout: cannot write: No space left on device; the "
            "output is incomplete\n");
}

TEST_F(CommandLineTest, FailsIfStdoutIsClosed) {
  const CliResult result =
      dtrain_.RunProgram({"sh", "-c", "dtrain version >&-"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout: cannot write"));
}

TEST_F(CommandLineTest, ExitsQuietlyIfThePipeIsClosed) {
  const CliResult result = dtrain_.RunProgram(
      {"bash", "-c", "dtrain models | true; exit ${PIPESTATUS[0]}"});
  EXPECT_TRUE(result.code == 141 || result.code == 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(CommandLineTest, ColorsOnlyOnRequest) {
  const auto plain = dtrain_.Run({"models"});
  const auto painted = dtrain_.Run({"--color", "always", "models"});
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos);
  EXPECT_NE(painted.out.find("\x1b[1m"), std::string::npos);
}

RunResult Paused(const std::string& error, ErrorKind kind) {
  return {.state = State::kPaused, .error = error, .error_kind = kind};
}

TEST(ExitCodeTest, FollowsTheKindOfAnError) {
  EXPECT_EQ(ToExitCode(ErrorKind::kUsage), 2);
  EXPECT_EQ(ToExitCode(ErrorKind::kNotFound), 3);
  EXPECT_EQ(ToExitCode(ErrorKind::kStore), 5);
  EXPECT_EQ(ToExitCode(ErrorKind::kDiskFull), 5);
  EXPECT_EQ(ToExitCode(ErrorKind::kResources), 6);
  EXPECT_EQ(ToExitCode(ErrorKind::kDamaged), 1);
  EXPECT_EQ(ToExitCode(ErrorKind::kFailed), 1);
}

TEST(ExitCodeTest, FollowsTheStateOfAnExperiment) {
  EXPECT_EQ(ToExitCode(State::kCompleted), 0);
  EXPECT_EQ(ToExitCode(State::kStopped), 0);
  EXPECT_EQ(ToExitCode(State::kInvalid), 0);
  EXPECT_EQ(ToExitCode(State::kPending), 75);
  EXPECT_EQ(ToExitCode(State::kRunning), 75);
  EXPECT_EQ(ToExitCode(State::kPaused), 75);
  EXPECT_EQ(ToExitCode(State::kInterrupted), 75);
  EXPECT_EQ(ToExitCode(State::kCanceled), 1);
  EXPECT_EQ(ToExitCode(State::kError), 1);
}

TEST(ExitCodeTest, TellsWhyARunWasPaused) {
  EXPECT_EQ(ToExitCode(RunResult{.state = State::kPaused}), 75);
  EXPECT_EQ(ToExitCode(RunResult{.state = State::kPaused, .signal = SIGINT}),
            130);
  EXPECT_EQ(ToExitCode(RunResult{.state = State::kPaused, .timed_out = true}),
            124);
  EXPECT_EQ(ToExitCode(Paused("no slots", ErrorKind::kResources)), 6);
}

TEST(ExitCodeTest, PrefersAFullDiskToASignal) {
  RunResult result = Paused("no space", ErrorKind::kDiskFull);
  result.signal = SIGTERM;
  EXPECT_EQ(ToExitCode(result), 5);
  result.error_kind = ErrorKind::kStore;
  EXPECT_EQ(ToExitCode(result), 143);
}

TEST(ExitCodeTest, FollowsTheStateAfterTheEnd) {
  EXPECT_EQ(ToExitCode(RunResult{.state = State::kCompleted, .signal = SIGINT}),
            0);
  EXPECT_EQ(ToExitCode(RunResult{.state = State::kError, .timed_out = true}),
            1);
}

}  // namespace
}  // namespace dtrain
