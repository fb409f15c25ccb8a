// Trials that are run as another one was, or begin from a checkpoint.

#include <filesystem>
#include <map>

#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;

constexpr char kSourceUuid[] = "0a1b2c3d-0000-4000-8000-000000000001";

class ExperimentOriginTest : public ExperimentTest {
 protected:
  // Puts the experiment into a store that has files.
  void MoveToDisk() {
    store_ = Store::OpenForWriting(StoreLayout(directory_.path()));
    Record();
    config_.source_checkpoint_uuid = kSourceUuid;
  }
  std::string WarmStart() {
    (void)Run();
    return launcher_.started().at(0).warm_start;
  }

  TemporaryDirectory directory_;
};

TEST_F(ExperimentOriginTest, PassesTheRequestedSeedToItsTrial) {
  config_.trial_seed = 123;
  (void)Run();
  EXPECT_EQ(Trial().seed, 123);
  EXPECT_EQ(launcher_.started().at(0).seed, 123);
}

TEST_F(ExperimentOriginTest, DrawsASeedByDefault) {
  (void)Run();
  EXPECT_NE(Trial().seed, 123);
}

TEST_F(ExperimentOriginTest, StopsDuringTraining) {
  config_.searcher.stops = {30, 60};
  EXPECT_EQ(Run().state, State::kCompleted);
  std::vector<std::int64_t> validated;
  store_.ForEachMetric(
      {.experiment = id_, .kind = MetricKind::kValidation, .name = "loss"},
      [&](const MetricRow& row) { validated.push_back(row.batches); });
  EXPECT_THAT(validated, ElementsAre(30, 60, 100));
  EXPECT_EQ(launcher_.started().size(), 1);
  EXPECT_EQ(Trial().rung, 3);
}

TEST_F(ExperimentOriginTest, StartsFromItsCopiedCheckpoint) {
  MoveToDisk();
  const auto source = store_.layout().Source(id_, kSourceUuid);
  std::filesystem::create_directories(source);
  EXPECT_EQ(WarmStart(), source.string());
}

TEST_F(ExperimentOriginTest, StartsFromTheSourceCheckpointWithoutACopy) {
  MoveToDisk();
  store_.Write([this](StoreWriter& writer) {
    const auto source = writer.AddExperiment(
        {.name = "source", .searcher = "single", .metric = "loss"});
    writer.AddTrial({.id = {source, 1}, .request_id = "r"});
    writer.AddCheckpoint(
        {.uuid = kSourceUuid, .trial = {source, 1}, .state = "COMPLETED"});
  });
  EXPECT_EQ(WarmStart(),
            store_.layout().Checkpoint({id_ + 1, 1}, kSourceUuid).string());
}

}  // namespace
}  // namespace dtrain
