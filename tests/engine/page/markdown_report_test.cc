#include "engine/page/markdown_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/rows.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

MarkdownSubject Subject() {
  MarkdownSubject subject{.data = {{"id", 3},
                                   {"name", "a|b <i>"},
                                   {"state", "COMPLETED"},
                                   {"error", ""},
                                   {"searcher", "random"},
                                   {"metric", "loss"},
                                   {"unit", "batches"},
                                   {"smaller_is_better", true},
                                   {"seconds", 12.5},
                                   {"note", ""},
                                   {"confirmed", nlohmann::json::array()},
                                   {"filter", nullptr},
                                   {"best", nullptr},
                                   {"importance", {{"why", "few"}}}}};
  for (std::int64_t i = 1; i <= 25; ++i) {
    TrialRow trial{.id = {3, i},
                   .state = State::kCompleted,
                   .hparams = {{"lr", i}, {"constant", 1}},
                   .batches = 10};
    if (i < 25) trial.best = BestValidation{.value = 0.5 * i, .batches = 10};
    subject.ranked.push_back(trial);
  }
  return subject;
}

TEST(MarkdownReportTest, ShowsTheBestTwentyAndTheVaryingHyperparameters) {
  const std::string text = MarkdownReport({Subject()});
  EXPECT_THAT(text, HasSubstr("| trial | loss | batches | state | lr |\n"
                              "|---|---|---|---|---|\n"
                              "| 3.1 | 0.5 | 10 | COMPLETED | 1 |\n"));
  EXPECT_THAT(text, HasSubstr("| 3.20 | 10 |"));
  EXPECT_THAT(text, Not(HasSubstr("3.21")));
  EXPECT_THAT(text, HasSubstr("\n20 of 25 trials.\n"));
  EXPECT_THAT(text, Not(HasSubstr("constant")));
}

TEST(MarkdownReportTest, EscapesNames) {
  EXPECT_THAT(MarkdownReport({Subject()}),
              HasSubstr("## Experiment 3: a\\|b \\<i>\n"));
}

TEST(MarkdownReportTest, NamesAnExistingCheckpointOfTheBest) {
  MarkdownSubject subject = Subject();
  subject.data["best"] = {{"value", 0.5},
                          {"trial", "3.1"},
                          {"at", "batch 10"},
                          {"checkpoint", nullptr}};
  EXPECT_THAT(
      MarkdownReport({subject}),
      HasSubstr("| best | 0.5 in trial 3.1 at batch 10, without checkpoint |"));
}

TEST(MarkdownReportTest, StaysBelowItsLimitAndSaysSo) {
  MarkdownSubject large = Subject();
  for (TrialRow& trial : large.ranked) {
    for (int i = 0; i < 12; ++i) {
      trial.hparams["h" + std::to_string(i)] =
          std::string(300, 'x') + std::to_string(trial.id.number);
    }
  }
  const std::string text =
      MarkdownReport(std::vector<MarkdownSubject>(50, large));
  EXPECT_LT(text.size(), 900'100U);
  EXPECT_THAT(text, HasSubstr(" of 50 experiments.\n"));
}

}  // namespace
}  // namespace dtrain
