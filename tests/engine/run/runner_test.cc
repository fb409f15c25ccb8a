#include "engine/run/runner.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

ExperimentConfig FourPoints() {
  ExperimentConfig config;
  config.hyperparameters = {
      {"x", {{"type", "categorical"}, {"vals", {1, 2, 3, 4}}}}};
  config.searcher = {.name = "grid", .metric = "loss", .max_length = 10};
  config.resources.slots.kind = SlotChoice::Kind::kCpu;
  return config;
}

TEST(RunnerTest, PlansASlotForEveryPointOfAGridThatTheMachineHasRoomFor) {
  EXPECT_EQ(PlanExperimentSlots(FourPoints()).count,
            std::min<std::int64_t>(UsableCpus(), 4));
}

TEST(RunnerTest, PlansNoMoreSlotsThanTrialsMayRunAtOnce) {
  ExperimentConfig config = FourPoints();
  config.searcher.max_concurrent_trials = 1;

  EXPECT_EQ(PlanExperimentSlots(config).count, 1);
}

TEST(RunnerTest, PlansNoMoreSlotsThanAreAllowed) {
  ExperimentConfig config = FourPoints();
  config.resources.max_slots = 1;

  EXPECT_EQ(PlanExperimentSlots(config).count, 1);
}

TEST(RunnerTest, RecordsTheThreadsThatAreAskedFor) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  std::int64_t placed = 0;
  const auto id = CreateExperiment(
      store, FourPoints(), "", nlohmann::json::object(), Clock::System(),
      {.threads = 77, .place = [&](std::int64_t given) { placed = given; }});
  EXPECT_EQ(store.Experiment(id)->provenance["slots"]["threads"], 77);
  EXPECT_EQ(placed, id);
}

TEST(RunnerTest, RecordsNothingWhoseFilesCannotBePlaced) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  const auto fail = [](std::int64_t) {
    throw Error(ErrorKind::kStore, "no room");
  };
  EXPECT_THROW(
      CreateExperiment(store, FourPoints(), "", nlohmann::json::object(),
                       Clock::System(), {.place = fail}),
      Error);
  EXPECT_TRUE(store.Experiments({.archived = true}).empty());
}

TEST(RunnerTest, RefusesToRunWithoutTheContextThatWasStored) {
  const TemporaryDirectory directory;
  Store store = Store::OpenForWriting(StoreLayout(directory.path()));
  const auto id = CreateExperiment(store, FourPoints(), "",
                                   {{"context_hash", "00"}}, Clock::System());
  Reporter reporter;
  try {
    RunExperiment(store, id, FourPoints(), {}, reporter, Clock::System());
    ADD_FAILURE() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_NE(std::string(error.what()).find("context: is missing"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace dtrain
