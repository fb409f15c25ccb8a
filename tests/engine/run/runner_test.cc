#include "engine/run/runner.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/run/reported_units.h"
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

// At least as many slots as cores, and so a thread each, wherever this runs.
ExperimentConfig TwoSlotsOfMany() {
  ExperimentConfig config = FourPoints();
  config.resources.slots.cpu_slots = std::max<std::int64_t>(UsableCpus(), 3);
  config.resources.slots_per_trial = 2;
  return config;
}

nlohmann::json RecordedSlots(const ExperimentConfig& config,
                             const RecordOptions& options = {}) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  const auto id = CreateExperiment(store, config, "", nlohmann::json::object(),
                                   Clock::System(), options);
  return store.Experiment(id)->provenance["slots"];
}

TEST(RunnerTest, RecordsTheSeedThatItDraws) {
  Store store = Store::OpenForWriting(StoreLayout(":memory:"));
  ExperimentConfig config = FourPoints();
  const auto drawn = store.Experiment(CreateExperiment(
      store, config, "", nlohmann::json::object(), Clock::System(), {}));
  config.experiment_seed = 5;
  const auto given = store.Experiment(CreateExperiment(
      store, config, "", nlohmann::json::object(), Clock::System(), {}));

  const auto recorded = [](const ExperimentDetail& detail) {
    return detail.config.at("reproducibility").at("experiment_seed");
  };
  EXPECT_EQ(recorded(*drawn), drawn->row.seed);
  EXPECT_EQ(recorded(*given), 5);
  EXPECT_EQ(given->row.seed, 5u);
}

TEST(RunnerTest, PlansASlotForEveryPointOfAGridThatFits) {
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

ExperimentConfig CommandOfLength(std::int64_t length, Unit unit) {
  ExperimentConfig config;
  config.entrypoint = std::vector<std::string>{"sh"};
  config.searcher.max_length = length;
  config.length_unit = unit;
  config.training.records_per_epoch = 100;
  return config;
}

TEST(CountedUnitTest, IsThatOfASearchWhoseUnitIsRecorded) {
  const ExperimentConfig epochs = CommandOfLength(10, Unit::kEpochs);
  EXPECT_EQ(CountedUnit(epochs, 3, 3), Unit::kEpochs);
  EXPECT_EQ(CountedUnit(epochs, 0, 0), Unit::kEpochs);
  const ExperimentConfig records = CommandOfLength(10, Unit::kRecords);
  EXPECT_EQ(CountedUnit(records, 50, 0.5), Unit::kRecords);
  EXPECT_EQ(CountedUnit(records, 50, 0), Unit::kRecords);
}

TEST(CountedUnitTest, IsBatchesIfAProgramReportsThemToo) {
  const ExperimentConfig epochs = CommandOfLength(10, Unit::kEpochs);
  EXPECT_EQ(CountedUnit(epochs, 300, 3), Unit::kBatches);
  EXPECT_EQ(CountedUnit(epochs, 100, 0), Unit::kBatches);
  EXPECT_EQ(CountedUnit(CommandOfLength(10, Unit::kRecords), 5, 0.5),
            Unit::kBatches);
}

TEST(CountedUnitTest, IsTakenFromTheReportWithoutALength) {
  const ExperimentConfig any = CommandOfLength(0, Unit::kBatches);
  EXPECT_EQ(CountedUnit(any, 3, 3), Unit::kEpochs);
  EXPECT_EQ(CountedUnit(any, 50, 0.5), Unit::kRecords);
  EXPECT_EQ(CountedUnit(any, 5, 0.5), Unit::kBatches);
  EXPECT_EQ(CountedUnit(any, 5, 0), Unit::kBatches);
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

TEST(RunnerTest, RecordsTheRanksOfATrialAndTheThreadsOfEach) {
  EXPECT_EQ(RecordedSlots(TwoSlotsOfMany())["ranks"], 2);
  EXPECT_EQ(RecordedSlots(TwoSlotsOfMany())["threads"], 1);
}

TEST(RunnerTest, CommandIsOneProcessWithTheThreadsOfItsSlots) {
  ExperimentConfig config = TwoSlotsOfMany();
  config.entrypoint = std::vector<std::string>{"./train"};
  EXPECT_EQ(RecordedSlots(config)["ranks"], 1);
  EXPECT_EQ(RecordedSlots(config)["threads"], 2);
}

TEST(RunnerTest, RecordsNoRanksOfATrialThatIsOneProcess) {
  const nlohmann::json slots =
      RecordedSlots(TwoSlotsOfMany(), {.one_process = true});
  EXPECT_FALSE(slots.contains("ranks"));
  EXPECT_EQ(slots["threads"], 2);
}

TEST(RunnerTest, RefusesMoreRanksThanATrialCanHave) {
  ExperimentConfig config = TwoSlotsOfMany();
  config.resources.slots.cpu_slots = 65;
  config.resources.slots_per_trial = 65;
  try {
    PlanExperimentSlots(config);
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_STREQ(error.what(),
                 "resources.slots_per_trial: a trial of 65 slots would have a "
                 "rank on each, and it can have 64; lower it");
  }
  config.entrypoint = std::vector<std::string>{"./train"};
  EXPECT_EQ(PlanExperimentSlots(config).slots_per_trial, 65);
}

TEST(RunnerTest, RecordsNothingIfItsFilesCannotBePlaced) {
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

TEST(RunnerTest, RefusesToRunWithoutItsStoredContext) {
  const TemporaryDirectory directory;
  Store store = Store::OpenForWriting(StoreLayout(directory.path()));
  const auto id = CreateExperiment(store, FourPoints(), "",
                                   {{"context_hash", "00"}}, Clock::System());
  try {
    const ExperimentRunner runner(store, id, FourPoints(), Clock::System());
    ADD_FAILURE() << "took the experiment";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_NE(std::string(error.what()).find("context: is missing"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace dtrain
