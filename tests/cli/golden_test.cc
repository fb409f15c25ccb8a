// Texts that users read: the help of every command, and the output of the
// command lines in messages.txt and, for every field of tables and documents,
// documents.txt. Files in tests/cli/golden have that output and the help of
// three commands, which differ in its layout; with
// DTRAIN_UPDATE_GOLDEN=1 in the environment the tests write these files
// instead.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const fs::path& GoldenDirectory() {
  static const fs::path directory =
      fs::path(DTRAIN_SOURCE_DIR) / "tests/cli/golden";
  return directory;
}

std::string TextOfGolden(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Compares `text` with a golden file, or writes the file.
void ExpectGolden(const fs::path& file, const std::string& text) {
  if (std::getenv("DTRAIN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(file) << text;
    return;
  }
  EXPECT_EQ(TextOfGolden(file), text)
      << file
      << " differs; if that is intended: DTRAIN_UPDATE_GOLDEN=1 cli_test "
      << "--gtest_filter='*Golden*'";
}

// The help texts of the program ("dtrain") and of its commands ("data fetch").
const std::map<std::string, std::string>& HelpTexts() {
  static const std::map<std::string, std::string> kTexts = [] {
    const CliRunner dtrain;
    const std::string main = dtrain.Run({"--help"}).out;
    std::map<std::string, std::string> texts = {{"dtrain", main}};
    for (const std::string& command : CommandsInHelp(main)) {
      const std::string own = dtrain.Run({command, "--help"}).out;
      texts[command] = own;
      const std::size_t nested = own.find("\nSubcommands:\n");
      if (nested == own.npos) continue;
      for (const std::string& sub : CommandsInHelp(own.substr(nested))) {
        texts[command + " " + sub] = dtrain.Run({command, sub, "--help"}).out;
      }
    }
    return texts;
  }();
  return kTexts;
}

TEST(GoldenHelpTest, LooksLikeTheGoldenFiles) {
  for (const std::string command : {"checkpoint", "evaluate", "serve"}) {
    ExpectGolden(GoldenDirectory() / "help" / (command + ".txt"),
                 HelpTexts().at(command));
  }
}

TEST(GoldenHelpTest, FitsInto80ColumnsWithoutPlaceholdersOfTheParser) {
  ASSERT_GT(HelpTexts().size(), 40);
  for (const auto& [command, text] : HelpTexts()) {
    for (const std::string& line : Split(text, '\n')) {
      EXPECT_LE(DisplayWidth(line), 80) << command << ": " << line;
    }
    EXPECT_FALSE(std::regex_search(
        text, std::regex("\\b(TEXT|U?INT|FLOAT|BOOLEAN|ENUM)\\b")))
        << text;
  }
}

TEST(GoldenHelpTest, EachCommandHasExitCodesAndTwoExamples) {
  for (const auto& [command, text] : HelpTexts()) {
    if (command == "dtrain" || text.find("\nSubcommands:\n") != text.npos)
      continue;
    // `serve` ends only by a signal.
    const char* first = command == "serve" ? "2" : "0";
    EXPECT_THAT(text, HasSubstr(std::string("\nExit codes:\n  ") + first))
        << command;
    const std::string examples = text.substr(text.find("\nExamples:\n"));
    EXPECT_EQ(std::ranges::count(examples, '#'), 2) << command;
    EXPECT_THAT(examples, HasSubstr("dtrain " + command)) << command;
  }
}

// Without the pipe or file that the output goes to.
std::string CommandOfExample(const std::string& line) {
  return line.substr(2, std::min(line.find(" | "), line.find(" > ")) - 2);
}

TEST(GoldenHelpTest, ExamplesAreValidCommandLines) {
  for (const auto& [command, text] : HelpTexts()) {
    if (command == "data fetch") continue;  // would download
    for (const std::string& line : Split(text, '\n')) {
      if (!line.starts_with("  dtrain ")) continue;
      // `serve` ends only by a signal.
      const std::string before = command == "serve" ? "timeout 1 " : "";
      const CliResult result =
          CliRunner().RunProgram({"sh", "-c", before + CommandOfExample(line)});
      EXPECT_THAT(result.err, Not(HasSubstr("--help'"))) << line;
      EXPECT_THAT(result.err, Not(HasSubstr("unknown "))) << line;
    }
  }
}

// Adds experiment 5, with two trials: no two of its numbers and times are
// equal.
void AddDistinctValues(const fs::path& root) {
  Store store = Store::OpenForWriting(StoreLayout(root));
  const nlohmann::json config = store.Experiment(1)->config;
  store.Write([&](StoreWriter& writer) {
    const auto at = [](int second) { return Timestamp(second * 1'000'000); };
    const std::int64_t id = writer.AddExperiment({.name = "epsilon",
                                                  .description = "the fifth",
                                                  .labels = {"dusk"},
                                                  .searcher = "random",
                                                  .metric = "loss",
                                                  .seed = 31,
                                                  .yaml = "name: epsilon\n",
                                                  .config = config,
                                                  .created = at(101)});
    writer.SetExperimentState(id, State::kRunning, at(102));
    for (const int n : {1, 2}) {
      const TrialId trial{id, n};
      const int k = 10 * n;
      const double best = 0.625 / n;
      writer.AddTrial({.id = trial,
                       .request_id = "request",
                       .hparams = {{"lr", 0.125 * n}, {"batch", 32 + n}},
                       .seed = 40 + static_cast<std::uint32_t>(n),
                       .created = at(103 + k)});
      writer.SetTrialProcess(trial,
                             {.slots = "gpu:3,gpu:" + std::to_string(4 + n)});
      writer.SetTrialState(trial, State::kRunning, at(104 + k));
      for (const int more : {0, 1}) {
        const int batches = 51 + k + more;
        const double loss = best + 0.0625 * more;
        writer.AddMetrics(trial, MetricKind::kValidation, batches,
                          0.25 * batches, {{"loss", loss}, {"gain", -1.0 * n}},
                          at(105 + batches));
        writer.AddValidation(trial, loss, batches, /*smaller_is_better=*/true);
      }
      writer.AddCheckpoint({.uuid = std::to_string(50 + n) +
                                    "777777-0000-4000-8000-000000000000",
                            .trial = trial,
                            .state = "COMPLETED",
                            .batches = 51 + k,
                            .epoch = 0.25 * (51 + k),
                            .bytes = 54'000 + k,
                            .files = {{"state.json", "00"}},
                            .metric = best,
                            .time = at(170 + k)});
      writer.SetTrialRung(trial, n + 5);
      writer.SetTrialBatches(trial, 53 + k);
      writer.SetTrialRestarts(trial, n + 1, 0);
      writer.SetTrialPreemptions(trial, n + 3);
      writer.AddTrialSeconds(trial, 57.5 + k);
      writer.SetTrialState(trial, n == 1 ? State::kStopped : State::kCanceled,
                           at(180 + k), n == 1 ? "" : "canceled");
    }
    writer.SetExperimentProgress(id, 0.375);
    writer.AddExperimentSeconds(id, 97.25);
    writer.SetExperimentState(id, State::kCanceled, at(210));
  });
}

// Returns what a command line prints in a directory with the sample store, and
// its exit code; the directory's path is replaced by DIR, and the size of the
// database by SIZE.
std::string Transcript(const std::string& command, bool distinct) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  AddAccuracySearch(dtrain.store());
  if (distinct) AddDistinctValues(dtrain.store());
  dtrain.Write("config.yaml",
               "name: digits\nentrypoint: builtin:FaultTrial\n"
               "resources: {slots: cpu}\n"
               "searcher: {name: single, metric: loss, max_length: 10}\n");
  const CliResult result =
      dtrain.RunProgram({"sh", "-c", "exec 2>&1; " + command});
  std::string text = result.out;
  const std::string directory = dtrain.directory().string();
  for (std::size_t at = text.find(directory); at != text.npos;
       at = text.find(directory, at)) {
    text.replace(at, directory.size(), "DIR");
  }
  // Depends on the version of SQLite.
  text = std::regex_replace(text, std::regex("(database of .*) [0-9.]+ kB"),
                            "$1 SIZE");
  text = std::regex_replace(text, std::regex("(\"database\":) [0-9]+"),
                            "$1 \"SIZE\"");
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  return text + "[exit " + std::to_string(result.code) + "]\n";
}

class GoldenOutputTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenOutputTest, EachCommandLinePrintsItsGoldenText) {
  const fs::path file = GoldenDirectory() / GetParam();
  std::string text;
  std::size_t commands = 0;
  std::istringstream lines(TextOfGolden(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) text += line + "\n";
    if (!line.starts_with("$ ")) continue;
    text += (text.empty() ? "" : "\n") + line + "\n" +
            Transcript(line.substr(2), file.filename() == "documents.txt");
    ++commands;
  }
  EXPECT_GT(commands, 40);
  ExpectGolden(file, text);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenOutputTest,
                         testing::Values("messages.txt", "documents.txt"));

}  // namespace
}  // namespace dtrain
