#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

using Operations = std::vector<Operation>;

std::unique_ptr<Searcher> Make() {
  return MakeSearcher({.name = std::string(kRehearsal), .max_length = 4},
                      {{"lr", 0.1}}, 42);
}

TEST(RehearsalSearcherTest, PausesAndResumesTheFirstTrial) {
  const auto searcher = Make();
  const auto first = searcher->Handle(Started{});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(std::get<Create>(first[0]).hparams.at("lr"), 0.1);
  EXPECT_EQ(first[1], Operation(ValidateAfter{0, 2}));

  const auto second = searcher->Handle(ValidationCompleted{0, 2, 0.5});
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(std::get<Create>(second[0]).trial, 1);
  EXPECT_EQ(second[1], Operation(ValidateAfter{1, 2}));
  EXPECT_EQ(second[2], Operation(Close{1}));

  EXPECT_TRUE(searcher->Handle(ValidationCompleted{1, 2, 0.5}).empty());
  EXPECT_EQ(searcher->Handle(Closed{1}),
            (Operations{ValidateAfter{0, 4}, Close{0}}));
  EXPECT_TRUE(searcher->Handle(ValidationCompleted{0, 4, 0.5}).empty());
  EXPECT_EQ(searcher->Handle(Closed{0}), Operations{Shutdown{}});
}

TEST(RehearsalSearcherTest, EndsIfATrialFails) {
  const auto one = Make();
  (void)one->Handle(Started{});
  EXPECT_EQ(one->Handle(ExitedEarly{0, ExitReason::kErrored}),
            Operations{Shutdown{.failed = true}});

  const auto two = Make();
  (void)two->Handle(Started{});
  (void)two->Handle(ValidationCompleted{0, 2, 0.5});
  EXPECT_EQ(two->Handle(ExitedEarly{1, ExitReason::kErrored}),
            Operations{Close{0}});
  EXPECT_EQ(two->Handle(Closed{0}), Operations{Shutdown{}});
}

TEST(RehearsalSearcherTest, ContinuesFromItsState) {
  const auto searcher = Make();
  (void)searcher->Handle(Started{});
  (void)searcher->Handle(ValidationCompleted{0, 2, 0.5});
  const auto again = Make();
  again->Load(searcher->Save());
  EXPECT_EQ(again->Handle(Closed{1}),
            (Operations{ValidateAfter{0, 4}, Close{0}}));
  EXPECT_THROW(again->Load({{"done", "x"}}), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain
