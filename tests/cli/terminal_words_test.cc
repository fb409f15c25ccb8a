// Text on terminals of different widths: no word of a sentence is cut or lost,
// and what a table omits is what matters least.

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::array<std::size_t, 4> kWidths = {40, 60, 80, 100};
// Column of describe's values: a longer word cannot be in a line of its own.
constexpr std::size_t kValues = 16;

class TerminalWordsTest : public testing::Test {
 protected:
  // Experiment 1 has nested hyperparameters, 2 fails, 3 reproduces 1.1.
  TerminalWordsTest() {
    dtrain_.Write("train.sh", "echo \"loss=$1\"\n");
    dtrain_.Write("bad.sh",
                  "echo 'the file of data has a column that no one expected "
                  "there, and none that is needed' >&2\nexit 3\n");
    dtrain_.Write("nested.yaml",
                  "name: nested-names\n"
                  "entrypoint: sh train.sh {optimizer.lr}\n"
                  "metrics: {loss: 'loss=(\\S+)'}\n"
                  "hyperparameters:\n"
                  "  optimizer:\n"
                  "    lr: {type: double, minval: 0.001, maxval: 0.1}\n"
                  "    weight_decay: {type: double, minval: 0, maxval: 0.1}\n"
                  "  model:\n"
                  "    width: {type: int, minval: 10, maxval: 500}\n"
                  "reproducibility: {experiment_seed: 7}\n"
                  "searcher: {name: random, metric: loss, max_trials: 3}\n"
                  "resources: {slots: 'cpu:1'}\n");
    dtrain_.Write("bad.yaml",
                  "name: bad\n"
                  "entrypoint: sh bad.sh {lr}\n"
                  "metrics: {loss: 'loss=(\\S+)'}\n"
                  "hyperparameters: {lr: 0.1}\n"
                  "max_restarts: 0\n"
                  "searcher: {name: single, metric: loss}\n"
                  "resources: {slots: 'cpu:1'}\n");
    EXPECT_EQ(dtrain_.Run({"create", "nested.yaml"}).code, 0);
    EXPECT_NE(dtrain_.Run({"create", "bad.yaml"}).code, 0);
    EXPECT_EQ(dtrain_.Run({"reproduce", "1.1"}).code, 0);
  }

  std::string OnTerminal(std::size_t width, const std::string& command) const {
    std::string text =
        dtrain_
            .RunProgram(
                {"python3", DTRAIN_SOURCE_DIR "/tests/support/terminal.py",
                 std::to_string(width) + "x50", "dtrain " + command},
                {.environment = {{"TERM", "xterm"},
                                 {"NO_COLOR", "1"},
                                 {"LC_ALL", "C.UTF-8"}}})
            .out;
    std::erase(text, '\r');
    return text;
  }
  std::string ThroughAPipe(const std::string& command) const {
    return dtrain_.RunProgram({"sh", "-c", "dtrain " + command + " 2>&1"}).out;
  }

  CliRunner dtrain_;
};

// Returns the text before `end`, all of it if that is empty.
std::string Before(const std::string& text, const std::string& end) {
  return end.empty() ? text : text.substr(0, text.find(end));
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Returns the lines that are wider than `width` and could be broken.
std::vector<std::string> LongLines(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = Split(text, '\n');
  std::erase_if(lines, [&](const std::string& line) {
    const std::size_t blank = line.rfind(' ');
    return DisplayWidth(line) <= width || blank == line.npos || blank < kValues;
  });
  return lines;
}

TEST_F(TerminalWordsTest, BreaksSentencesBetweenWords) {
  struct Sentence {
    std::string command;
    std::string end;  // of the sentences: what follows is YAML or changes
  };
  const std::vector<Sentence> sentences = {
      {"describe 1", "  name: "},
      {"describe 1.1", ""},
      {"describe 2", "  name: "},
      {"describe 2.1", ""},
      {"doctor", "disk  "},
      {"preview-search nested.yaml", "\n\n"},
      {"models", "HYPERPARAMETER"},
      {"files 2.1", ""},
      {"trials 1 --sort los", ""},
      {"trials 1 --filter 'hp.optimizer.l>1'", ""},
      {"trials 99", ""},
      {"create none.yaml", ""},
      {"create bad.yaml --set searcher.name=tpe --dry-run", ""},
      {"create bad.yaml --dry-run", "\n\n"},
      {"run --metric loss -- sh none.sh", ""},
      {"continue 1", ""},
      {"lst", ""}};
  for (const auto& [command, end] : sentences) {
    const auto words = Words(Before(ThroughAPipe(command), end));
    EXPECT_FALSE(words.empty()) << command;
    for (const std::size_t width : kWidths) {
      SCOPED_TRACE(command + " in " + std::to_string(width) + " columns");
      const std::string shown = Before(OnTerminal(width, command), end);
      EXPECT_EQ(Words(shown), words);
      EXPECT_THAT(LongLines(shown, width), testing::IsEmpty());
    }
  }
}

TEST_F(TerminalWordsTest, OmitsTheColumnsThatMatterLeast) {
  struct Shown {
    std::size_t width;
    std::string command;
    std::vector<std::string> has;
    std::vector<std::string> lacks;
  };
  const std::vector<Shown> tables = {
      {40,
       "list",
       {"STATE", "ERROR", "(reproduces 1.1)", "nested-names",
        "experiment 2: trial 2.1: exited with"},
       {"SEARCHER "}},
      {60,
       "list",
       {"STATE      BEST\n", "loss 0.", " (reproduces 1.1)"},
       {"  (reproduces", "…\n"}},
      {80,
       "list",
       {"TRIALS  BEST\n", "loss 0.", " (reproduces 1.1)"},
       {"  (reproduces", "…\n"}},
      {100,
       "list",
       {"TRIALS  BEST  ", "STARTED", " (reproduces 1.1)"},
       {"  (reproduces", "…\n"}},
      {40, "trials 1", {"width", "BEST", "lr, weight_decay"}, {"optimizer."}},
      {60, "trials 1", {"width", "lr", "weight_decay", "BEST"}, {"CHECKPOINT"}},
      {100, "trials 1", {"lr", "weight_decay", "BATCHES"}, {"CHECKPOINT"}},
      {40, "trials 2", {"HPARAMS", "RUNG", "(omitted: REASON"}, {"BEST"}},
      {60, "trials 2", {"REASON", "exited with code 3"}, {"BEST", "LATEST"}},
      {100, "trials 2", {"REASON", "SLOTS"}, {"BEST", "PID", "omitted"}},
      {40, "best 1", {"VALUE", "lr, weight_decay"}, {"CHECKPOINT"}},
      {80, "best 1", {"width", "lr", "weight_decay"}, {"CHECKPOINT"}},
      {40, "best 2 2>/dev/null", {"TRIAL  VALUE"}, {"omitted"}},
      {40,
       "watch 1",
       {"experiment 1  100%", "COMPLETED\n", " …"},
       {"nested", "batc…", "bat…"}},
      {60, "watch 1", {"experiment 1 nested-names", "COMPLETED\n"}, {}},
      {40, "metrics 1", {"use a wider"}, {"TIME\n"}}};
  for (const auto& [width, command, has, lacks] : tables) {
    SCOPED_TRACE(command + " in " + std::to_string(width) + " columns");
    const std::string text = OnTerminal(width, command);
    for (const std::string& part : has) EXPECT_THAT(text, HasSubstr(part));
    for (const std::string& part : lacks) {
      EXPECT_THAT(text, Not(HasSubstr(part)));
    }
    if (command.starts_with("metrics")) continue;  // its numbers need 51
    for (const std::string& line : Split(text, '\n')) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

}  // namespace
}  // namespace dtrain
