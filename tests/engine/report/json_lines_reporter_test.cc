#include "engine/report/json_lines_reporter.h"

#include <sstream>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

class JsonLinesReporterTest : public testing::Test {
 protected:
  std::vector<json> Lines() const {
    std::vector<json> lines;
    std::istringstream in(out_.str());
    for (std::string line; std::getline(in, line);) {
      lines.push_back(json::parse(line));
    }
    return lines;
  }

  std::ostringstream out_;
  Duration now_{0};
  JsonLinesReporter reporter_{out_,
                              {.now = [] { return Timestamp(0); },
                               .monotonic = [this] { return now_; }}};
};

TEST_F(JsonLinesReporterTest, WritesAnObjectForEachEvent) {
  reporter_.Begin({.experiment = 3, .metric = "loss"});
  reporter_.OnValidation({3, 1}, {.batches = 9, .metrics = {{"loss", 0.5}}},
                         /*best=*/true);
  reporter_.OnTrialEnded({.id = {3, 1}, .state = State::kError}, {"\xff"});

  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["event"], "begin");
  EXPECT_EQ(lines[0]["experiment"], 3);
  EXPECT_EQ(lines[1]["event"], "validation");
  EXPECT_EQ(lines[1]["metrics"], json({{"loss", 0.5}}));
  EXPECT_EQ(lines[1]["best"], true);
  EXPECT_EQ(lines[2]["event"], "trial_ended");
  EXPECT_EQ(lines[2]["last_lines"], json({"\xEF\xBF\xBD"}));
}

TEST_F(JsonLinesReporterTest, WritesProgressOnceASecond) {
  reporter_.OnStatus({.progress = 0.1});
  reporter_.OnStatus({.progress = 0.2});
  now_ = std::chrono::seconds(1);
  reporter_.OnStatus({.progress = 0.3});
  now_ = std::chrono::seconds(2);
  reporter_.OnStatus({.progress = 0.3});

  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["progress"], 0.1);
  EXPECT_EQ(lines[1]["progress"], 0.3);
}

TEST_F(JsonLinesReporterTest, DistinguishesAPromotionFromAStart) {
  reporter_.OnTrialEnded({.id = {3, 1}, .state = State::kPaused}, {});
  reporter_.OnTrialStarted({.id = {3, 1}}, {.batches = 9});
  reporter_.OnTrialStarted({.id = {3, 2}}, {.batches = 9});
  reporter_.OnTrialEnded({.id = {3, 3}, .state = State::kPaused}, {});
  reporter_.OnTrialStarted({.id = {3, 3}}, {});

  EXPECT_EQ(Lines()[1]["promoted"], true);
  EXPECT_EQ(Lines()[2]["promoted"], false);
  EXPECT_EQ(Lines()[4]["promoted"], true);
}

TEST_F(JsonLinesReporterTest, WritesTheRungsOfASearch) {
  reporter_.Begin({.experiment = 3,
                   .metric = "loss",
                   .units = Units{.counted = Unit::kEpochs}});
  reporter_.OnStatus(
      {.progress = 0.5,
       .slots_in_use = 1,
       .slots = 2,
       .best = BestValidation{.value = 0.25, .batches = 9},
       .best_trial = 4,
       .rungs = {{.length = {1, Unit::kEpochs}, .done = 2, .running = 1}}});

  const json line = Lines().back();
  EXPECT_EQ(line["rungs"],
            json::array(
                {{{"length", {{"epochs", 1}}}, {"done", 2}, {"running", 1}}}));
  EXPECT_EQ(line["best"]["trial"], "3.4");
  EXPECT_EQ(line["slots_in_use"], 1);
  EXPECT_EQ(line["best"]["length"], 9);
  EXPECT_EQ(line["best"]["unit"], "epochs");
}

}  // namespace
}  // namespace dtrain
