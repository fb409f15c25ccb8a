// Candidates of completions. completion_shell_test.py inserts them in real
// shells.

#include <filesystem>
#include <fstream>
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
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
  }

  // Lines of the answer to words: its kind, then the candidates.
  std::vector<std::string> Lines(std::vector<std::string> words) const {
    words.insert(words.begin(), {"__complete", "zsh"});
    const CliResult result = dtrain_.Run(words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    std::vector<std::string> lines = Split(result.out, '\n');
    lines.pop_back();
    return lines;
  }

  // Candidates without their explanations.
  std::vector<std::string> Complete(
      const std::vector<std::string>& words) const {
    std::vector<std::string> lines = Lines(words);
    EXPECT_EQ(lines.front(), ":values");
    lines.erase(lines.begin());
    for (std::string& line : lines) line = line.substr(0, line.find('\t'));
    return lines;
  }

  // Candidates for a line of bash.
  std::vector<std::string> InBash(const std::string& line) const {
    const CliResult result =
        dtrain_.Run({"__complete", "bash", line, " \t\n\"'@><=;|&(:"});
    std::vector<std::string> lines = Split(result.out, '\n');
    EXPECT_EQ(lines.front(), ":values");
    return {lines.begin() + 1, lines.end() - 1};
  }

  const CliRunner dtrain_;
};

TEST_F(CompletionTest, OffersCommandsWithTheirSummaries) {
  EXPECT_THAT(Lines({"vali"}),
              ElementsAre(":values",
                          "validate\tCheck an experiment YAML without running "
                          "it"));
  EXPECT_THAT(Complete({"checkpoint", "e"}), ElementsAre("export"));
  EXPECT_THAT(Complete({"help", "vers"}), ElementsAre("version"));
  EXPECT_THAT(Complete({"no-command", "--js"}), IsEmpty());
}

TEST_F(CompletionTest, OffersNamesOfColumns) {
  for (const std::string option : {"--sort", "--columns", "--filter"}) {
    EXPECT_THAT(Complete({"trials", "4", option, "hp."}), Contains("hp.lr"))
        << option;
    EXPECT_THAT(Complete({"best", "4", option, "acc"}), Contains("accuracy"))
        << option;
  }
  EXPECT_THAT(Complete({"trials", "4", "--sort", "best,-hp.l"}),
              ElementsAre("best,-hp.lr"));
  EXPECT_THAT(Complete({"trials", "4", "--sort=-hp.l"}),
              ElementsAre("--sort=-hp.lr"));
  EXPECT_THAT(Complete({"compare", "4", "--group", ""}), ElementsAre("hp.lr"));
}

TEST_F(CompletionTest, OffersKeysOfTheYaml) {
  EXPECT_THAT(Complete({"create", "x.yaml", "--set", "searcher.max_t"}),
              ElementsAre("searcher.max_time=", "searcher.max_trials="));
  EXPECT_THAT(Complete({"create", "--set", "reproducibility."}),
              Not(Contains("reproducibility=")));
  const std::string file = dtrain_.Write(
      "x.yaml",
      "entrypoint: sh x.sh\nhyperparameters: {lr: 1, depth: {a: 1}}\n"
      "searcher: {name: single, metric: loss, max_length: {epochs: 1}}\n");
  EXPECT_THAT(Complete({"create", file, "--set", "hyperparameters."}),
              ElementsAre("hyperparameters.depth=", "hyperparameters.lr="));
  EXPECT_THAT(Complete({"continue", "4", "--set=hyperparameters.l"}),
              ElementsAre("--set=hyperparameters.lr="));
  EXPECT_THAT(Complete({"create", file, "--set", "no.such"}), IsEmpty());
}

TEST_F(CompletionTest, OffersEveryCommandOfTheHelp) {
  EXPECT_EQ(Complete({""}), CommandsInHelp(dtrain_.Run({"--help"}).out));
}

TEST_F(CompletionTest, OffersOptionsOfTheCommandAndGlobalOnes) {
  EXPECT_THAT(Complete({"list", "--s"}),
              ElementsAre("--state", "--sort", "--store"));
  EXPECT_THAT(Complete({"activate", "--sl"}), ElementsAre("--slots"));
  EXPECT_THAT(Complete({"create", "-"}),
              testing::IsSupersetOf({"-d", "--allow-unread"}));
  EXPECT_THAT(Complete({"list", "--", "--s"}), IsEmpty());
}

TEST_F(CompletionTest, OffersTheWordsOfAnOption) {
  EXPECT_THAT(Complete({"metrics", "--kind", ""}),
              ElementsAre("training", "validation"));
  EXPECT_THAT(Complete({"metrics", "--kind=v"}),
              ElementsAre("--kind=validation"));
  EXPECT_THAT(Complete({"list", "--state", "C"}),
              ElementsAre("COMPLETED", "CANCELED"));
}

TEST_F(CompletionTest, OffersFilesAndDirectories) {
  EXPECT_THAT(Lines({"create", ""}), ElementsAre(":files"));
  EXPECT_THAT(Lines({"config", "1", "--export", ""}),
              ElementsAre(":directories"));
}

TEST_F(CompletionTest, OffersTheNewestExperimentFirst) {
  EXPECT_THAT(Lines({"config", ""}), Contains("1\talpha, COMPLETED"));
  EXPECT_THAT(Complete({"config", ""}), ElementsAre("4", "3", "2", "1"));
  EXPECT_THAT(Complete({"delete", "3", "4", ""}), ElementsAre("2", "1"));
}

TEST_F(CompletionTest, OffersTrialsAfterTheDot) {
  EXPECT_THAT(Complete({"metrics", "4."}), ElementsAre("4.1", "4.2", "4.3"));
  EXPECT_THAT(Complete({"reproduce", "1"}), ElementsAre("1.1", "1.2"));
  EXPECT_THAT(Complete({"archive", "4."}), IsEmpty());
}

TEST_F(CompletionTest, OffersMetricsOfTheExperimentOnTheLine) {
  EXPECT_THAT(Complete({"plot", "4.1", "--metric", ""}),
              ElementsAre("accuracy", "speed"));
  EXPECT_THAT(Complete({"plot", "--metric", ""}),
              IsSupersetOf({"accuracy", "loss"}));
}

TEST_F(CompletionTest, OffersCheckpointsByTheirFirstCharacters) {
  const std::string uuid =
      AddCheckpoint(StoreLayout(dtrain_.store()), {4, 1}, 50, 'e');
  EXPECT_THAT(Lines({"checkpoint", "show", "ee"}),
              ElementsAre(":values", StartsWith(uuid + "\ttrial 4.1, saved ")));
  EXPECT_THAT(Complete({"evaluate", "ee"}), ElementsAre(uuid));
}

TEST_F(CompletionTest, ReadsTheStoreOnTheLine) {
  const std::string empty = (dtrain_.directory() / "empty").string();
  EXPECT_THAT(Complete({"--store", empty, "config", ""}), IsEmpty());
  EXPECT_THAT(Complete({"config", "--store=" + empty, ""}), IsEmpty());
  EXPECT_FALSE(fs::exists(empty));
}

TEST_F(CompletionTest, QuotesForThePlaceInBash) {
  dtrain_.Run({"label", "1", "--add", "a b", "--add", "k:v=$x"});
  EXPECT_THAT(InBash("dtrain list --label a"), ElementsAre("a\\ b"));
  EXPECT_THAT(InBash("dtrain list --label 'a"), ElementsAre("a b"));
  EXPECT_THAT(InBash("dtrain list --label k"), ElementsAre("k:v=\\$x"));
  EXPECT_THAT(InBash("dtrain list --label k:"), ElementsAre("v=\\$x"));
  EXPECT_THAT(InBash("dtrain list --label=k:v"), ElementsAre("v=\\$x"));
  EXPECT_THAT(InBash("dtrain list --label \"k"), ElementsAre("k:v=\\$x"));
}

TEST_F(CompletionTest, LeavesOutControlCharacters) {
  dtrain_.Run({"label", "1", "--add", "x\x1b[31m", "--add", "x\ny"});
  EXPECT_THAT(Complete({"list", "--label", "x"}), IsEmpty());
  // The name of experiment 2 is full of them.
  EXPECT_THAT(Lines({"config", "2"}).back(),
              testing::AllOf(StartsWith("2\t"), Not(HasSubstr("\x1b"))));
}

TEST_F(CompletionTest, IsSilentAboutABrokenStore) {
  std::ofstream(dtrain_.store() / "dtrain.db") << "no database";
  EXPECT_THAT(Complete({"config", ""}), IsEmpty());
  EXPECT_THAT(Complete({"list", "--label", ""}), IsEmpty());
}

TEST_F(CompletionTest, PrintsAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(dtrain_.Run({"completion", shell}).out,
                HasSubstr("__complete " + std::string(shell)));
  }
  EXPECT_EQ(dtrain_.Run({"completion", "tcsh"}).code, 2);
}

}  // namespace
}  // namespace dtrain
