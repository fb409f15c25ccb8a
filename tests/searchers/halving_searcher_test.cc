#include <algorithm>

#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

// Rungs at 50 and 100; one trial in two is promoted.
SearcherConfig TwoRungs() {
  return {.name = "async_halving",
          .metric = "loss",
          .max_length = 100,
          .max_trials = 3,
          .num_rungs = 2,
          .divisor = 2};
}

std::unique_ptr<Searcher> Begun(const SearcherConfig& config) {
  auto searcher = MakeSearcher(
      config, {{"x", {{"type", "double"}, {"minval", 0.0}, {"maxval", 1.0}}}},
      /*seed=*/1);
  (void)searcher->Handle(Started{});
  return searcher;
}

bool HasLength(const std::vector<Operation>& operations, std::int64_t length) {
  return std::ranges::any_of(operations, [&](const Operation& operation) {
    const auto* more = std::get_if<ValidateAfter>(&operation);
    return more != nullptr && more->length == length;
  });
}

TEST(HalvingSearcherTest, ForgetsTheResultOfAnInvalidTrialThatWaits) {
  const auto searcher = Begun(TwoRungs());
  (void)searcher->Handle(ValidationCompleted{0, 50, 0.5});
  (void)searcher->Handle(ExitedEarly{0, ExitReason::kInvalidHp});

  // It is the only result of the rung, of which half a trial goes on.
  EXPECT_FALSE(
      HasLength(searcher->Handle(ValidationCompleted{1, 50, 0.25}), 100));
}

TEST(HalvingSearcherTest, ProgressCountsTheTrialsThatHaveEnded) {
  SearcherConfig config = TwoRungs();
  config.max_trials = 20;
  config.max_concurrent_trials = 20;
  config.stop_once = true;
  const auto searcher = Begun(config);
  // Each is worse than those before it, and stops.
  for (TrialIndex trial = 0; trial < 20; ++trial) {
    (void)searcher->Handle(
        ValidationCompleted{trial, 50, static_cast<double>(trial)});
  }
  const double before = searcher->Progress();
  for (TrialIndex trial = 19; trial > 0; --trial) {
    (void)searcher->Handle(Closed{trial});
  }

  EXPECT_NEAR(before, 1 / 1.2, 1e-9);
  EXPECT_NEAR(searcher->Progress(), 19.0 / 20, 1e-9);
}

}  // namespace
}  // namespace dtrain
