#include "searchers/single_searcher.h"

#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "searchers/registry.h"

namespace dtrain {
namespace {

using nlohmann::json;

SearcherConfig Single(std::int64_t max_length) {
  return {.name = "single", .metric = "loss", .max_length = max_length};
}

TEST(SingleSearcherTest, TrainsOneTrialAndShutsDown) {
  SingleSearcher searcher(Single(900), {{"lr", 0.1}}, 42);

  const auto first = searcher.Handle(Started{});
  const auto second = searcher.Handle(ValidationCompleted{0, 900, 0.5});
  const auto last = searcher.Handle(Closed{0});

  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(std::get<Create>(first[0]).hparams, json({{"lr", 0.1}}));
  EXPECT_EQ(first[1], Operation(ValidateAfter{0, 900}));
  EXPECT_EQ(first[2], Operation(Close{0}));
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(last, std::vector<Operation>{Shutdown{}});
}

TEST(SingleSearcherTest, CreatesTheRecordedTrial) {
  std::ifstream file(std::string(DTRAIN_GOLDEN_DIR) + "/searcher_0.37.0.json");
  const json golden = json::parse(file).at(0);
  const json& given = golden.at("case");
  ASSERT_EQ(given.at("searcher").at("name"), "single");
  SingleSearcher searcher(Single(given.at("max_length")),
                          given.at("hyperparameters"),
                          given.at("experiment_seed"));

  const auto operations = searcher.Handle(Started{});

  const auto& create = std::get<Create>(operations.at(0));
  const json& trial = golden.at("trials").at(0);
  EXPECT_EQ(create.request_id, trial.at("request_id"));
  EXPECT_EQ(create.seed, trial.at("trial_seed"));
  EXPECT_EQ(create.hparams.at("opt"), trial.at("hparams").at("opt"));
  EXPECT_DOUBLE_EQ(create.hparams.at("lr"), trial.at("hparams").at("lr"));
}

TEST(SingleSearcherTest, FailsWithItsTrial) {
  SingleSearcher searcher(Single(900), json::object(), 42);
  (void)searcher.Handle(Started{});

  const auto operations = searcher.Handle(ExitedEarly{0, ExitReason::kErrored});

  EXPECT_EQ(operations, std::vector<Operation>{Shutdown{.failed = true}});
}

TEST(SingleSearcherTest, EndsWellWhereTheTrialWantedToEnd) {
  SingleSearcher searcher(Single(900), json::object(), 42);
  (void)searcher.Handle(Started{});

  const auto operations =
      searcher.Handle(ExitedEarly{0, ExitReason::kUserStop});

  EXPECT_EQ(operations, std::vector<Operation>{Shutdown{.failed = false}});
}

TEST(SingleSearcherTest, ProgressEndsAtOne) {
  SingleSearcher searcher(Single(900), json::object(), 42);
  EXPECT_EQ(searcher.Progress(), 0);
  (void)searcher.Handle(Started{});

  (void)searcher.Handle(ValidationCompleted{0, 900, 0.5});

  EXPECT_EQ(searcher.Progress(), 1);
}

TEST(SingleSearcherTest, GoesOnFromASavedState) {
  SingleSearcher searcher(Single(900), json::object(), 42);
  (void)searcher.Handle(Started{});
  (void)searcher.Handle(ValidationCompleted{0, 900, 0.5});
  SingleSearcher other(Single(900), json::object(), 1);

  other.Load(json::parse(searcher.Save().dump()));

  EXPECT_EQ(other.Progress(), 1);
  EXPECT_EQ(other.Save(), searcher.Save());
}

TEST(SingleSearcherTest, RefusesAStateThatIsNone) {
  SingleSearcher searcher(Single(900), json::object(), 42);

  EXPECT_THROW(searcher.Load({{"rng", 5}}), std::invalid_argument);
}

TEST(RegistryTest, MakesTheSearcherOfAName) {
  const auto searcher = MakeSearcher(Single(5), json::object(), 1);

  ASSERT_NE(searcher, nullptr);
  EXPECT_EQ(searcher->Handle(Started{}).size(), 3u);
}

}  // namespace
}  // namespace dtrain
