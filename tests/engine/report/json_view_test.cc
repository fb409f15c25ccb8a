#include "engine/report/json_view.h"

#include <limits>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using nlohmann::json;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

TEST(JsonViewTest, NamesTheFieldsOfAnExperiment) {
  const ExperimentRow row{
      .id = 3,
      .name = "digits",
      .state = State::kCompleted,
      .progress = 1,
      .searcher = "single",
      .metric = "accuracy",
      .started = Timestamp(1'000'000),
      .trials = 1,
      .best = BestValidation{.value = 0.5, .batches = 7, .checkpoint = "uuid"},
      .best_trial = 2};

  const json object = ExperimentJson(row, /*seconds=*/1.5);

  EXPECT_EQ(object["id"], 3);
  EXPECT_EQ(object["state"], "COMPLETED");
  EXPECT_EQ(object["progress"], 1.0);
  EXPECT_EQ(object["started"], "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(object["ended"], nullptr);
  EXPECT_EQ(object["duration"], 1.5);
  EXPECT_EQ(object["best"], json({{"metric", "accuracy"},
                                  {"value", 0.5},
                                  {"batches", 7},
                                  {"checkpoint", "uuid"},
                                  {"trial", "3.2"}}));
}

TEST(JsonViewTest, HasNullWhereATrialHasNoBestOrProcess) {
  const TrialRow row{.id = {3, 7}, .state = State::kError, .reason = "crash"};

  const json object = TrialJson(row, "loss", /*seconds=*/0);

  EXPECT_EQ(object["trial"], "3.7");
  EXPECT_EQ(object["id"], "3.7");
  EXPECT_EQ(object["reason"], "crash");
  EXPECT_EQ(object["best"], nullptr);
  EXPECT_EQ(object["pid"], nullptr);
}

TEST(JsonViewTest, WritesNaNAsAString) {
  const MetricRow row{.trial = {1, 1}, .name = "loss", .value = kNotANumber};

  EXPECT_EQ(MetricJson(row)["value"], "NaN");
  EXPECT_EQ(MetricsJson({{"loss", kNotANumber}}), json({{"loss", "NaN"}}));
}

TEST(JsonViewTest, DumpsValidUtf8) {
  EXPECT_EQ(DumpJson({{"name", "a\xff"}}), "{\"name\":\"a\xEF\xBF\xBD\"}");
}

TEST(JsonViewTest, IsTheSameDocumentOnATerminal) {
  const nlohmann::json document = {
      {"a\xE2\x80\xAE", "\x7f\xC2\x9b\x1b\n\t \xC3\xBC \xE2\x80\xA8"}};
  const std::string text = DumpJson(document, /*indent=*/2, /*terminal=*/true);
  EXPECT_EQ(text,
            "{\n  \"a\\u202e\": \"\\u007f\\u009b\\u001b\\n\\t \xC3\xBC "
            "\\u2028\"\n}");
  EXPECT_EQ(nlohmann::json::parse(text), document);
}

TEST(JsonViewTest, EndsARunWithItsBestTrial) {
  const RunResult result{.experiment = 3,
                         .state = State::kCompleted,
                         .best = BestValidation{.value = 0.5, .batches = 7},
                         .best_trial = 1,
                         .best_hparams = {{"lr", 0.1}},
                         .seconds = 2};

  const json object = ResultJson(result, "loss");

  EXPECT_EQ(object["experiment"], 3);
  EXPECT_EQ(object["state"], "COMPLETED");
  EXPECT_EQ(object["best"]["trial"], "3.1");
  EXPECT_EQ(object["best"]["hparams"], json({{"lr", 0.1}}));
  EXPECT_EQ(object["best"]["checkpoint"], nullptr);
}

}  // namespace
}  // namespace dtrain
