#include <algorithm>

#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

std::unique_ptr<Searcher> GridOfFour(std::int64_t concurrent) {
  return MakeSearcher(
      {.name = "grid",
       .metric = "loss",
       .max_length = 100,
       .max_concurrent_trials = concurrent},
      {{"x", {{"type", "int"}, {"minval", 1}, {"maxval", 4}, {"count", 4}}}},
      /*seed=*/1);
}

std::int64_t Created(const std::vector<Operation>& operations) {
  return std::ranges::count_if(operations, [](const Operation& operation) {
    return std::get_if<Create>(&operation) != nullptr;
  });
}

TEST(GridSearcherTest, StartsWithMaxConcurrentTrials) {
  EXPECT_EQ(Created(GridOfFour(0)->Handle(Started{})), 4);
  EXPECT_EQ(Created(GridOfFour(3)->Handle(Started{})), 3);
  EXPECT_EQ(Created(GridOfFour(9)->Handle(Started{})), 4);
}

TEST(GridSearcherTest, CreatesATrialForEachThatEnds) {
  const auto searcher = GridOfFour(3);
  (void)searcher->Handle(Started{});

  EXPECT_EQ(Created(searcher->Handle(Closed{0})), 1);
  EXPECT_EQ(Created(searcher->Handle(Closed{1})), 0);
}

}  // namespace
}  // namespace dtrain
