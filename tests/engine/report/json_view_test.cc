#include "engine/report/json_view.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/run/reporter.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Scripts rely on these keys: a key that was there once stays.
TEST(JsonViewTest, HasTheKeysOfAnExperiment) {
  const ExperimentRow row{
      .id = 3,
      .name = "digits",
      .description = "a sentence",
      .labels = {"night"},
      .state = State::kCompleted,
      .progress = 0.75,
      .searcher = "single",
      .metric = "accuracy",
      .smaller_is_better = false,
      .seed = 4,
      .archived = true,
      .error = "why",
      .created = Timestamp(500'000),
      .started = Timestamp(1'000'000),
      .trials = 6,
      .trials_ended = 5,
      .best = BestValidation{.value = 0.5, .batches = 7, .checkpoint = "uuid"},
      .best_trial = 2};

  EXPECT_EQ(ExperimentJson(row, /*seconds=*/1.5),
            json({{"id", 3},
                  {"name", "digits"},
                  {"description", "a sentence"},
                  {"labels", {"night"}},
                  {"state", "COMPLETED"},
                  {"waiting", nullptr},
                  {"progress", 0.75},
                  {"searcher", "single"},
                  {"metric", "accuracy"},
                  {"smaller_is_better", false},
                  {"seed", 4},
                  {"archived", true},
                  {"error", "why"},
                  {"created", "1970-01-01T00:00:00.500000Z"},
                  {"started", "1970-01-01T00:00:01.000000Z"},
                  {"ended", nullptr},
                  {"duration", 1.5},
                  {"trials", 6},
                  {"trials_ended", 5},
                  {"best",
                   {{"metric", "accuracy"},
                    {"value", 0.5},
                    {"batches", 7},
                    {"checkpoint", "uuid"},
                    {"trial", "3.2"}}}}));
}

TEST(JsonViewTest, HasTheKeysOfATrial) {
  const TrialRow row{
      .id = {3, 7},
      .state = State::kRunning,
      .reason = "why",
      .hparams = {{"lr", 0.5}},
      .seed = 4,
      .batches = 100,
      .rung = 2,
      .best = BestValidation{.value = 0.25, .batches = 50},
      .latest =
          BestValidation{.value = 0.5, .batches = 90, .checkpoint = "uuid"},
      .latest_checkpoint = "uuid",
      .restarts = 1,
      .preemptions = 2,
      .runs = 3,
      .slots = "node2/gpu:0,node2/gpu:1",
      .pid = 17,
      .created = Timestamp(500'000),
      .ended = Timestamp(1'000'000),
      .star = true,
      .note = "odd"};

  EXPECT_EQ(TrialJson(row, "loss", /*seconds=*/1.5),
            json({{"id", "3.7"},
                  {"trial", "3.7"},
                  {"state", "RUNNING"},
                  {"waiting", nullptr},
                  {"reason", "why"},
                  {"hparams", {{"lr", 0.5}}},
                  {"seed", 4},
                  {"batches", 100},
                  {"rung", 2},
                  {"best",
                   {{"metric", "loss"},
                    {"value", 0.25},
                    {"batches", 50},
                    {"checkpoint", nullptr}}},
                  {"latest",
                   {{"metric", "loss"},
                    {"value", 0.5},
                    {"batches", 90},
                    {"checkpoint", "uuid"}}},
                  {"checkpoint", "uuid"},
                  {"restarts", 1},
                  {"preemptions", 2},
                  {"runs", 3},
                  {"slots", {"node2/gpu:0", "node2/gpu:1"}},
                  {"pid", 17},
                  {"created", "1970-01-01T00:00:00.500000Z"},
                  {"started", nullptr},
                  {"ended", "1970-01-01T00:00:01.000000Z"},
                  {"duration", 1.5},
                  {"star", true},
                  {"note", "odd"}}));
}

TEST(JsonViewTest, HasTheKeysOfAMetric) {
  EXPECT_EQ(MetricJson({.trial = {3, 7},
                        .kind = MetricKind::kValidation,
                        .batches = 100,
                        .epoch = 0.5,
                        .name = "loss",
                        .value = 0.25,
                        .time = Timestamp(500'000)}),
            json({{"trial", "3.7"},
                  {"kind", "validation"},
                  {"batches", 100},
                  {"epoch", 0.5},
                  {"name", "loss"},
                  {"value", 0.25},
                  {"time", "1970-01-01T00:00:00.500000Z"}}));
}

TEST(JsonViewTest, HasTheKeysOfACheckpoint) {
  EXPECT_EQ(CheckpointJson({.uuid = "uuid",
                            .trial = {3, 7},
                            .state = "COMPLETED",
                            .batches = 100,
                            .epoch = 0.5,
                            .bytes = 4096,
                            .files = {{"state.json", "00"}},
                            .metric = 0.25,
                            .time = Timestamp(500'000)},
                           "/store/uuid"),
            json({{"uuid", "uuid"},
                  {"trial", "3.7"},
                  {"state", "COMPLETED"},
                  {"batches", 100},
                  {"epoch", 0.5},
                  {"bytes", 4096},
                  {"metric", 0.25},
                  {"files", {{"state.json", "00"}}},
                  {"path", "/store/uuid"},
                  {"time", "1970-01-01T00:00:00.500000Z"}}));
}

TEST(JsonViewTest, HasTheKeysOfAnEvaluation) {
  EXPECT_EQ(EvaluationJson({.trial = {3, 7},
                            .checkpoint = "uuid",
                            .batches = 100,
                            .split = "test",
                            .data = "/data",
                            .metrics = {{"loss", 0.25}},
                            .seconds = 1.5,
                            .time = Timestamp(500'000)}),
            json({{"trial", "3.7"},
                  {"checkpoint", "uuid"},
                  {"batches", 100},
                  {"split", "test"},
                  {"data", "/data"},
                  {"metrics", {{"loss", 0.25}}},
                  {"duration", 1.5},
                  {"time", "1970-01-01T00:00:00.500000Z"}}));
}

TEST(JsonViewTest, HasTheKeysOfALineOfALog) {
  EXPECT_EQ(LogJson({3, 7}, {.time = Timestamp(500'000),
                             .rank = 1,
                             .from_stderr = true,
                             .level = LogLevel::kWarning,
                             .partial = true,
                             .text = "hello"}),
            json({{"trial", "3.7"},
                  {"time", "1970-01-01T00:00:00.500000Z"},
                  {"rank", 1},
                  {"stream", "stderr"},
                  {"level", "warning"},
                  {"partial", true},
                  {"text", "hello"}}));
}

TEST(JsonViewTest, HasNullWithoutABestOrProcess) {
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

TEST(JsonViewTest, DocumentIsTheSameOnATerminal) {
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
                         .seconds = 2,
                         .unread = std::vector<std::string>{"momentum"}};

  EXPECT_EQ(ResultJson(result, "loss"),
            json({{"experiment", 3},
                  {"state", "COMPLETED"},
                  {"error", nullptr},
                  {"best",
                   {{"metric", "loss"},
                    {"value", 0.5},
                    {"batches", 7},
                    {"checkpoint", nullptr},
                    {"trial", "3.1"},
                    {"hparams", {{"lr", 0.1}}}}},
                  {"unread_hyperparameters", {"momentum"}},
                  {"duration", 2.0}}));
}

}  // namespace
}  // namespace dtrain
