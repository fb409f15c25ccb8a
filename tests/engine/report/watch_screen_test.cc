#include "engine/report/watch_screen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(KeyReaderTest, FindsKeysInWhatTerminalsSend) {
  KeyReader keys;
  keys.Feed("q\x1b[A\x1bOB\x1b[5~s\r");
  EXPECT_EQ(keys.Next(false), Key::kQuit);
  EXPECT_EQ(keys.Next(false), Key::kUp);
  EXPECT_EQ(keys.Next(false), Key::kDown);
  EXPECT_EQ(keys.Next(false), Key::kPageUp);
  EXPECT_EQ(keys.Next(false), Key::kSort);
  EXPECT_EQ(keys.Next(false), Key::kEnter);
  EXPECT_EQ(keys.Next(false), std::nullopt);
  EXPECT_FALSE(keys.pending());
}

TEST(KeyReaderTest, AwaitsTheRestOfAKey) {
  KeyReader keys;
  keys.Feed("\x1b[");
  EXPECT_EQ(keys.Next(/*idle=*/false), std::nullopt);
  EXPECT_TRUE(keys.pending());
  keys.Feed("B");
  EXPECT_EQ(keys.Next(false), Key::kDown);
}

TEST(KeyReaderTest, TakesALoneEscapeForAKeyOnceNothingFollows) {
  KeyReader keys;
  keys.Feed("\x1b");
  EXPECT_EQ(keys.Next(/*idle=*/false), std::nullopt);
  EXPECT_EQ(keys.Next(/*idle=*/true), Key::kEscape);
  EXPECT_EQ(keys.Next(/*idle=*/true), std::nullopt);
}

TEST(KeyReaderTest, SkipsUnknownKeys) {
  KeyReader keys;
  keys.Feed("x\x1b[15~\x1b[1;5A\xc3\xa4q");
  EXPECT_EQ(keys.Next(false), Key::kQuit);
}

// A sequence without an end must not swallow the keys after it.
TEST(KeyReaderTest, GivesUpOnASequenceWithoutEnd) {
  KeyReader keys;
  keys.Feed("\x1b[" + std::string(40, '1'));
  EXPECT_EQ(keys.Next(false), std::nullopt);
  keys.Feed("q");
  EXPECT_EQ(keys.Next(false), Key::kQuit);
}

TEST(ThinnedCurveTest, KeepsAFewValuesAsTheyAre) {
  ThinnedCurve curve;
  curve.Add(3);
  curve.Add(1);
  EXPECT_THAT(curve.Values(), ElementsAre(3, 1));
  EXPECT_EQ(curve.last(), 1);
}

TEST(ThinnedCurveTest, BoundsItsMemoryAndKeepsTheShape) {
  ThinnedCurve curve;
  for (int i = 0; i < 100'000; ++i) curve.Add(i);
  const std::vector<double> values = curve.Values();
  EXPECT_LE(values.size(), 2048);
  EXPECT_GE(values.size(), 1024);
  EXPECT_TRUE(std::ranges::is_sorted(values));
  EXPECT_LT(values.front(), 64);
  EXPECT_GT(values.back(), 99'900);
  EXPECT_EQ(curve.last(), 99'999);
}

TEST(ThinnedCurveTest, KeepsAHoleWhereNothingIsFinite) {
  ThinnedCurve curve;
  for (int i = 0; i < 2048; ++i) curve.Add(std::nan(""));
  curve.Add(1);
  curve.Add(std::numeric_limits<double>::infinity());
  const std::vector<double> values = curve.Values();
  EXPECT_TRUE(std::isnan(values.front()));
  EXPECT_EQ(values.back(), 1);
}

class WatchScreenTest : public testing::Test {
 protected:
  WatchScreenTest() {
    AddTrial(State::kCompleted, 0.5);
    AddTrial(State::kCompleted, 0.75);
    AddTrial(State::kRunning, 0.25);
    AddTrial(State::kPending, std::nullopt);
    status_.running = {{.id = {3, 3}, .batches = 30, .total_batches = 100}};
  }

  void AddTrial(State state, std::optional<double> best) {
    const auto number = static_cast<std::int64_t>(trials_.size()) + 1;
    TrialRow& trial = trials_.emplace_back();
    trial.id = {3, number};
    trial.state = state;
    trial.hparams = {{"lr", 0.125}, {"wd", 0.01}};
    trial.batches = 10 * number;
    if (!best) return;
    trial.best = BestValidation{.value = *best, .batches = 10 * number};
    trial.latest = trial.best;
  }

  std::vector<WatchedRun> Runs() const {
    return {{.frame = {.info = info_, .status = status_, .speeds = speeds_},
             .trials = trials_}};
  }

  std::vector<std::string> Lines(std::size_t width = 80,
                                 std::size_t height = 12, bool utf8 = true) {
    return Texts(Runs(), {.utf8 = utf8, .width = width, .height = height});
  }
  std::vector<std::string> Texts(const std::vector<WatchedRun>& runs,
                                 const TerminalMode& mode) {
    std::vector<std::string> texts;
    for (const auto& line : screen_.Lines(runs, details_, mode)) {
      texts.push_back(line.text);
    }
    return texts;
  }

  bool Press(Key key) { return screen_.Press(key, Runs()); }

  // Returns the trials in the order of the list.
  std::vector<std::string> Order() {
    std::vector<std::string> ids;
    for (const std::string& line : Lines(80, 30)) {
      if (line.find("3.") == 2) ids.push_back(line.substr(2, 3));
    }
    return ids;
  }

  RunInfo info_{.experiment = 3,
                .name = "digits",
                .searcher = "random",
                .metric = "accuracy",
                .smaller_is_better = false,
                .hyperparameters = {
                    {"lr", {{"type", "double"}, {"minval", 0}, {"maxval", 1}}},
                    {"wd", 0.01}}};
  RunStatus status_{.progress = 0.5, .trials = 4, .trials_ended = 2};
  SpeedMeter speeds_;
  std::vector<TrialRow> trials_;
  WatchedTrial details_;
  WatchScreen screen_;
};

TEST_F(WatchScreenTest, ListsTrialsBelowTheExperiment) {
  EXPECT_THAT(
      Lines(80, 9),
      ElementsAre("experiment 3 digits  [##########..........] 50%  0.0s",
                  "  trials  1 running, 2 ended, 1 paused",
                  "  best    no validation of accuracy so far",
                  "  trial  state      batches  accuracy  best",
                  "> 3.3    RUNNING     30/100      0.25  0.25  lr=0.125",
                  "  3.4    PENDING         40         -     -  lr=0.125",
                  "  3.2    COMPLETED       20      0.75  0.75  lr=0.125",
                  "  3.1    COMPLETED       10       0.5   0.5  lr=0.125",
                  "q quit  Enter open  s sort: running first  1/4  ↑↓ select"));
}

TEST_F(WatchScreenTest, DrawsTheCurvesOfTrials) {
  auto runs = Runs();
  runs[0].frame.history = [](TrialId id) {
    return id.number == 1 ? std::vector<double>() : std::vector{0.1, 0.5};
  };
  const auto lines = Texts(runs, {.utf8 = true, .width = 80, .height = 9});
  EXPECT_EQ(lines[3], "  trial  state      batches  accuracy  best  curve");
  EXPECT_EQ(lines[6],
            "  3.2    COMPLETED       20      0.75  0.75  ▁█     lr=0.125");
  EXPECT_EQ(lines[7],
            "  3.1    COMPLETED       10       0.5   0.5         lr=0.125");
}

TEST_F(WatchScreenTest, FillsTheScreenAndNoMore) {
  for (const std::size_t width : {1, 20, 60, 160}) {
    for (const std::size_t height : {1, 2, 5, 12, 50}) {
      const auto lines = Lines(width, height);
      EXPECT_EQ(lines.size(), std::max<std::size_t>(height, 2));
      for (const std::string& line : lines) {
        EXPECT_LE(DisplayWidth(line), std::max<std::size_t>(width, 4)) << line;
      }
    }
  }
}

TEST_F(WatchScreenTest, OmitsColumnsAndCutsNoNumber) {
  trials_[2].latest->value = trials_[2].best->value = 0.123456;
  status_.running[0].batches = 123456;
  status_.running[0].total_batches = 654321;
  EXPECT_THAT(
      Lines(60),
      Contains("> 3.3    RUNNING    123456/654321  0.123456  0.123456"));
  EXPECT_THAT(Lines(40), Contains("> 3.3    123456/654321  0.123456"));
  EXPECT_THAT(Lines(30), Contains("> 3.3    123456/654321"));
}

TEST_F(WatchScreenTest, OmitsKeysThatDoNotFit) {
  EXPECT_EQ(Lines(60, 12, /*utf8=*/false).back(),
            "q quit  Enter open  s sort: running first  1/4");
  EXPECT_EQ(Lines(80, 12, /*utf8=*/false).back(),
            "q quit  Enter open  s sort: running first  1/4  arrows select");
  EXPECT_EQ(Lines(20).back(), "q quit  Enter open");
}

TEST_F(WatchScreenTest, SortsOnRequest) {
  EXPECT_THAT(Order(), ElementsAre("3.3", "3.4", "3.2", "3.1"));
  EXPECT_TRUE(Press(Key::kSort));
  EXPECT_THAT(Order(), ElementsAre("3.2", "3.1", "3.3", "3.4"));
  EXPECT_TRUE(Press(Key::kSort));
  EXPECT_THAT(Order(), ElementsAre("3.1", "3.2", "3.3", "3.4"));
  EXPECT_TRUE(Press(Key::kSort));
  EXPECT_THAT(Order(), ElementsAre("3.3", "3.4", "3.2", "3.1"));
}

TEST_F(WatchScreenTest, SortsTheSmallestFirstWhereThatIsTheBest) {
  info_.smaller_is_better = true;
  EXPECT_TRUE(Press(Key::kSort));
  EXPECT_THAT(Order(), ElementsAre("3.3", "3.1", "3.2", "3.4"));
}

TEST_F(WatchScreenTest, SelectsWithArrowsAndStopsAtTheEnds) {
  EXPECT_TRUE(Press(Key::kUp));
  EXPECT_THAT(Lines(), Contains(StartsWith("> 3.3")));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(Press(Key::kDown));
  EXPECT_THAT(Lines(), Contains(StartsWith("> 3.1")));
  EXPECT_TRUE(Press(Key::kHome));
  EXPECT_THAT(Lines(), Contains(StartsWith("> 3.3")));
  EXPECT_TRUE(Press(Key::kEnd));
  EXPECT_THAT(Lines(), Contains(StartsWith("> 3.1")));
}

TEST_F(WatchScreenTest, KeepsASelectedTrialWhereverItGoes) {
  EXPECT_TRUE(Press(Key::kEnd));
  trials_[0].state = State::kRunning;
  EXPECT_THAT(Lines(80, 9)[4], StartsWith("> 3.1    RUNNING"));
}

TEST_F(WatchScreenTest, ScrollsToTheSelectedTrial) {
  while (trials_.size() < 100) AddTrial(State::kCompleted, 0.1);
  EXPECT_THAT(Lines(80, 12)[4], StartsWith("> 3.3"));
  EXPECT_TRUE(Press(Key::kPageDown));
  EXPECT_TRUE(Press(Key::kPageDown));
  EXPECT_THAT(Lines(80, 12), AllOf(Contains(StartsWith("> 3.15")),
                                   Contains(HasSubstr("15/100")),
                                   Not(Contains(StartsWith("  3.3 ")))));
  EXPECT_TRUE(Press(Key::kEnd));
  EXPECT_THAT(Lines(80, 12)[10], StartsWith("> 3.100"));
  // A higher screen shows more, and no empty rows.
  EXPECT_THAT(Lines(80, 40)[38], StartsWith("> 3.100"));
}

TEST_F(WatchScreenTest, QuitsFromTheListOnly) {
  EXPECT_TRUE(Press(Key::kEscape));
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_EQ(screen_.opened(), (TrialId{3, 3}));
  EXPECT_TRUE(Press(Key::kQuit));
  EXPECT_EQ(screen_.opened(), std::nullopt);
  EXPECT_FALSE(Press(Key::kQuit));
}

TEST_F(WatchScreenTest, ShowsOneTrial) {
  WatchedCurve curve{.name = "accuracy", .curve = {}};
  curve.curve.Add(0.25);
  curve.curve.Add(0.5);
  details_ = {.curves = {curve}, .log = {"first", "second"}};
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_THAT(
      Lines(60, 12),
      ElementsAre("trial 3.3 of digits  RUNNING  batch 30/100",
                  "  lr=0.125 wd=0.01", "  best accuracy 0.25 at batch 30",
                  "  accuracy  ▁█                0.5", "  log", "  | first",
                  "  | second", "", "", "", "", "q back  1/4  ↑↓ other trial"));
  EXPECT_TRUE(Press(Key::kDown));
  EXPECT_EQ(screen_.opened(), (TrialId{3, 4}));
}

TEST_F(WatchScreenTest, KeepsRowsForTheLogOnlyIfThereIsOne) {
  details_.curves.assign(20, {.name = "loss", .curve = {}});
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_THAT(Lines(60, 12), AllOf(Contains("  … and 14 more metrics"),
                                   Contains("  no log lines yet")));
  details_.log.assign(50, "line");
  EXPECT_THAT(Lines(60, 12),
              AllOf(Contains("  … and 17 more metrics"), Contains("  | line")));
}

TEST_F(WatchScreenTest, SaysWhyATrialEnded) {
  trials_[0].state = State::kError;
  trials_[0].reason = "exit code 1";
  EXPECT_TRUE(Press(Key::kEnd));
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_THAT(Lines(),
              AllOf(Contains(HasSubstr("ERROR")), Contains("  exit code 1")));
}

TEST_F(WatchScreenTest, WrapsManyHyperparameters) {
  for (int i = 0; i < 200; ++i) {
    trials_[2].hparams["h" + std::to_string(i)] = i;
  }
  EXPECT_TRUE(Press(Key::kEnter));
  const auto lines = Lines(60, 12);
  EXPECT_THAT(lines[1], StartsWith("  h0=0 h1=1"));
  EXPECT_THAT(lines[2], EndsWith(" …"));
  EXPECT_THAT(lines[3], StartsWith("  best"));
}

TEST_F(WatchScreenTest, EscapesWhatExperimentsContain) {
  info_.name = info_.metric = "a\x1b[31m\n";
  trials_[2].hparams = {{"lr", "\x1b]0;title\x07"}};
  details_.curves = {{.name = "\x1b[2J", .curve = {}}};
  const auto has_control = [](const std::string& line) {
    return std::ranges::any_of(line, [](unsigned char c) { return c < 32; });
  };
  EXPECT_TRUE(std::ranges::none_of(Lines(), has_control));
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_TRUE(std::ranges::none_of(Lines(), has_control));
}

TEST_F(WatchScreenTest, HasOnlyAsciiWithoutUtf8) {
  details_.curves.assign(9, {.name = "loss", .curve = {}});
  const auto is_ascii = [](const std::string& line) {
    return std::ranges::all_of(line, [](unsigned char c) { return c < 128; });
  };
  EXPECT_TRUE(std::ranges::all_of(Lines(30, 12, false), is_ascii));
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_TRUE(std::ranges::all_of(Lines(30, 12, false), is_ascii));
}

TEST_F(WatchScreenTest, ShowsAnExperimentWithoutTrials) {
  trials_.clear();
  status_ = {};
  EXPECT_TRUE(Press(Key::kDown));
  EXPECT_TRUE(Press(Key::kEnter));
  EXPECT_EQ(screen_.opened(), std::nullopt);
  EXPECT_THAT(Lines(), Contains(StartsWith("experiment 3 digits")));
}

TEST_F(WatchScreenTest, ListsTheTrialsOfSeveralExperiments) {
  RunInfo other = info_;
  other.experiment = 4;
  other.metric = "loss";
  other.smaller_is_better = true;
  std::vector<TrialRow> others(1);
  others[0].id = {4, 1};
  others[0].state = State::kRunning;
  auto runs = Runs();
  runs.push_back(
      {.frame = {.info = other, .status = status_, .speeds = speeds_},
       .trials = others});
  const auto lines = Texts(runs, {.width = 80, .height = 12});
  EXPECT_THAT(lines[0], StartsWith("experiment 3"));
  EXPECT_THAT(lines[1], StartsWith("experiment 4"));
  // Values of two metrics have no common name and no common order.
  EXPECT_THAT(lines[2], HasSubstr("latest"));
  EXPECT_THAT(lines[7], StartsWith("  4.1"));
}

TEST_F(WatchScreenTest, GroupsTheTrialsOfExperimentsWithTheSameMetric) {
  std::vector<RunInfo> infos(3, info_);
  infos[1].metric = "loss";
  std::vector<std::vector<TrialRow>> trials(3, std::vector<TrialRow>(1));
  std::vector<WatchedRun> runs;
  for (std::size_t i = 0; i < 3; ++i) {
    TrialRow& trial = trials[i][0];
    trial.id = {static_cast<std::int64_t>(i) + 1, 1};
    trial.state = State::kCompleted;
    trial.best = BestValidation{.value = static_cast<double>(i)};
    runs.push_back(
        {.frame = {.info = infos[i], .status = status_, .speeds = speeds_},
         .trials = trials[i]});
  }
  std::vector<std::string> order;
  for (const auto& line : Texts(runs, {.width = 80, .height = 20})) {
    if (line.substr(0, 5).find(".1") == 3) order.push_back(line.substr(2, 3));
  }
  EXPECT_THAT(order, ElementsAre("3.1", "1.1", "2.1"));
}

TEST_F(WatchScreenTest, CountsExperimentsThatDoNotFit) {
  auto runs = Runs();
  for (int i = 1; i < 40; ++i) runs.push_back(runs.front());
  const auto lines = Texts(runs, {.width = 60, .height = 12});
  EXPECT_EQ(lines[4], "... and 36 more experiments");
  EXPECT_THAT(lines[6], StartsWith("> 3.3"));
}

}  // namespace
}  // namespace dtrain
