#include <stdexcept>

#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

using nlohmann::json;

const json kSpace = json::parse(R"({
  "lr": {"type": "log", "minval": -3, "maxval": -1},
  "batch": 64})");

SearcherConfig Single() {
  return {.name = "single", .metric = "loss", .max_length = 900};
}

SearcherConfig Random(std::int64_t trials, std::int64_t at_once) {
  return {.name = "random",
          .metric = "loss",
          .max_length = 900,
          .max_trials = trials,
          .max_concurrent_trials = at_once};
}

TEST(SingleSearcherTest, TrainsOneTrialAndShutsDown) {
  const auto searcher = MakeSearcher(Single(), {{"lr", 0.1}}, 42);

  const auto first = searcher->Handle(Started{});
  const auto second = searcher->Handle(ValidationCompleted{0, 900, 0.5});
  const auto last = searcher->Handle(Closed{0});

  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(std::get<Create>(first[0]).hparams, json({{"lr", 0.1}}));
  EXPECT_EQ(first[1], Operation(ValidateAfter{0, 900}));
  EXPECT_EQ(first[2], Operation(Close{0}));
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(last, std::vector<Operation>{Shutdown{}});
}

TEST(SingleSearcherTest, StopsDuringTraining) {
  SearcherConfig config = Single();
  config.stops = {100, 300};
  const auto searcher = MakeSearcher(config, {{"lr", 0.1}}, 42);

  const auto first = searcher->Handle(Started{});

  ASSERT_EQ(first.size(), 5u);
  EXPECT_EQ(first[1], Operation(ValidateAfter{0, 100}));
  EXPECT_EQ(first[2], Operation(ValidateAfter{0, 300}));
  EXPECT_EQ(first[3], Operation(ValidateAfter{0, 900}));
  EXPECT_TRUE(searcher->Handle(ValidationCompleted{0, 100, 0.5}).empty());
}

TEST(SingleSearcherTest, FailsWithItsTrial) {
  const auto searcher = MakeSearcher(Single(), json::object(), 42);
  (void)searcher->Handle(Started{});

  EXPECT_EQ(searcher->Handle(ExitedEarly{0, ExitReason::kErrored}),
            std::vector<Operation>{Shutdown{.failed = true}});
}

TEST(SingleSearcherTest, DoesNotReplaceAnInvalidConstant) {
  const auto searcher = MakeSearcher(Single(), {{"lr", 0.1}}, 42);
  (void)searcher->Handle(Started{});

  EXPECT_EQ(searcher->Handle(ExitedEarly{0, ExitReason::kInvalidHp}),
            std::vector<Operation>{Shutdown{.failed = true}});
}

TEST(SingleSearcherTest, SucceedsIfTheTrialEndsItself) {
  const auto searcher = MakeSearcher(Single(), json::object(), 42);
  (void)searcher->Handle(Started{});

  EXPECT_EQ(searcher->Handle(ExitedEarly{0, ExitReason::kUserStop}),
            std::vector<Operation>{Shutdown{.failed = false}});
}

TEST(RandomSearcherTest, KeepsMaxConcurrentTrialsRunning) {
  const auto searcher = MakeSearcher(Random(5, 2), kSpace, 1);

  EXPECT_EQ(searcher->Handle(Started{}).size(), 2 * 3u);
  EXPECT_EQ(searcher->Handle(Closed{0}).size(), 3u);
  EXPECT_EQ(searcher->Handle(ExitedEarly{1, ExitReason::kErrored}).size(), 3u);
}

TEST(RandomSearcherTest, ReplacesAnInvalidTrial) {
  const auto searcher = MakeSearcher(Random(1, 1), kSpace, 1);
  (void)searcher->Handle(Started{});

  const auto operations =
      searcher->Handle(ExitedEarly{0, ExitReason::kInvalidHp});

  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(std::get<Create>(operations[0]).trial, 1);
  EXPECT_EQ(searcher->Progress(), 0);
}

TEST(RandomSearcherTest, TriesThePointsFirst) {
  SearcherConfig config = Random(3, 1);
  config.points = {{{"lr", 1}}};
  const auto plain = MakeSearcher(Random(3, 1), kSpace, 1);
  const auto pointed = MakeSearcher(config, kSpace, 1);

  const auto sampled = plain->Handle(Started{});
  const auto first = pointed->Handle(Started{});
  const auto second = pointed->Handle(Closed{0});

  const auto& point = std::get<Create>(first[0]);
  EXPECT_EQ(point.hparams, json({{"lr", 1.0}, {"batch", 64}}));
  EXPECT_TRUE(point.hparams.at("lr").is_number_float());
  // A point draws nothing from the stream of the samples.
  const auto& behind = std::get<Create>(second[0]);
  EXPECT_EQ(behind.hparams, std::get<Create>(sampled[0]).hparams);
  EXPECT_EQ(behind.request_id, std::get<Create>(sampled[0]).request_id);
  EXPECT_NE(point.request_id, behind.request_id);
}

TEST(RandomSearcherTest, DrawsWhatAPointDoesNotName) {
  const json space = json::parse(R"({
    "a": {"type": "int", "minval": 0, "maxval": 1000},
    "net": {"b": {"type": "double", "minval": 0, "maxval": 1},
            "c": {"type": "categorical", "vals": [1, 2]}},
    "fixed": 5})");
  SearcherConfig config = Random(5, 1);
  config.points = {json::parse(R"({"net": {"c": 2}})"),
                   json::parse(R"({"a": 7})"), json::object()};
  const auto plain = MakeSearcher(Random(5, 1), space, 1);
  const auto pointed = MakeSearcher(config, space, 1);

  const json sampled = std::get<Create>(plain->Handle(Started{})[0]).hparams;
  std::vector<json> drawn = {
      std::get<Create>(pointed->Handle(Started{})[0]).hparams};
  for (int trial = 0; trial < 3; ++trial) {
    drawn.push_back(
        std::get<Create>(pointed->Handle(Closed{trial})[0]).hparams);
  }

  EXPECT_EQ(drawn[0].at("net").at("c"), 2);
  EXPECT_EQ(drawn[1].at("a"), 7);
  for (const json& hparams : drawn) {
    EXPECT_EQ(hparams.at("fixed"), 5);
    EXPECT_TRUE(hparams.at("net").at("b").is_number_float());
  }
  EXPECT_NE(drawn[0].at("net").at("b"), drawn[1].at("net").at("b"));
  // They are of another stream than the samples.
  EXPECT_EQ(drawn[3], sampled);
  EXPECT_NE(drawn[2], sampled);
}

TEST(RandomSearcherTest, ProgressCountsTheTrialsThatEnded) {
  const auto searcher = MakeSearcher(Random(4, 4), kSpace, 1);
  (void)searcher->Handle(Started{});

  (void)searcher->Handle(Closed{2});

  EXPECT_EQ(searcher->Progress(), 0.25);
}

}  // namespace
}  // namespace dtrain
