// Files that a trial left on disk after its runner had died.

#include <filesystem>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/wire/message.h"
#include "tests/engine/run/experiment_fixture.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

constexpr const char* kUuid = "cccccccc-0000-4000-8000-000000000000";
constexpr const char* kLater = "dddddddd-0000-4000-8000-000000000000";

class ExperimentFilesTest : public ExperimentTest {
 protected:
  ExperimentFilesTest() {
    store_ = Store::OpenForWriting(StoreLayout(directory_.path() / "store"));
    Record();
    // The runner died with its one trial at work.
    launcher_.set_slots(2);
    launcher_.on_start = [this](const TrialSpec& spec) {
      if (!std::exchange(died_, true)) throw Killed();
      trials_.Begin(spec);
    };
    EXPECT_THROW(Run(), Killed);
    store_.Write([this](StoreWriter& writer) {
      writer.SetTrialState({id_, 1}, State::kRunning, Timestamp(1));
    });
  }

  struct Killed {};

  fs::path Checkpoints() const { return store_.layout().Checkpoints({id_, 1}); }
  void WriteCheckpoint(const std::string& state,
                       const std::string& uuid = kUuid) const {
    fs::create_directories(Checkpoints().parent_path());
    CheckpointWriter files(Checkpoints() / uuid);
    files.Write("model.safetensors", std::string(100, 'm'));
    files.Write("state.json", state);
    (void)files.Commit();
  }

  // A checkpoint at batch 40 that the runner recorded before it died.
  void RecordCheckpoint() {
    WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
    store_.Write([this](StoreWriter& writer) {
      writer.AddCheckpoint({.uuid = kUuid,
                            .trial = {id_, 1},
                            .state = "COMPLETED",
                            .batches = 40,
                            .epoch = 1.5});
    });
  }
  // The validation there, as a trainer's state has it.
  static nlohmann::json ReportsOfTheBest() {
    std::string report = Encode(ValidationReport{
        .seq = 3, .batches = 40, .epoch = 1.5, .metrics = {{"loss", -5}}});
    report.pop_back();  // the newline
    return {{"unacknowledged", nlohmann::json::array({report})}};
  }

  TemporaryDirectory directory_;
  bool died_ = false;
};

TEST_F(ExperimentFilesTest, AdoptsAnUnrecordedCheckpoint) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, kUuid);
  const CheckpointRow row = store_.CheckpointByPrefix(kUuid);
  EXPECT_EQ(row.batches, 40);
  EXPECT_EQ(row.epoch, 1.5);
  EXPECT_EQ(row.files.size(), 3u);
  EXPECT_GT(row.bytes, 100);
}

// Its validation was recorded and acknowledged, so it is not reported again.
TEST_F(ExperimentFilesTest, KeepsTheBestUnrecordedCheckpoint) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
  store_.Write([this](StoreWriter& writer) {
    writer.AddMetrics({id_, 1}, MetricKind::kValidation, 40, 1.5,
                      {{"loss", -5}}, Timestamp(1));
    writer.AddValidation({id_, 1}, -5, 40, /*smaller_is_better=*/true);
  });

  EXPECT_EQ(Run().state, State::kCompleted);

  ASSERT_EQ(Trial().best->batches, 40);
  EXPECT_EQ(Trial().best->checkpoint, kUuid);
}

// The runner died before it had acknowledged the validation, which the trial
// reports again.
TEST_F(ExperimentFilesTest, KeepsACheckpointWhoseMetricALaterOneHolds) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
  WriteCheckpoint(R"({"batches": 50, "epoch": 1.9, "trainer": )" +
                      ReportsOfTheBest().dump() + "}",
                  kLater);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, kLater);
  EXPECT_TRUE(fs::exists(Checkpoints() / kUuid)) << "it is the best one";
}

// The runner died between a checkpoint and its validation, which the trial kept
// in a later checkpoint.
TEST_F(ExperimentFilesTest, KeepsARecordedCheckpointWhoseMetricALaterOneHolds) {
  RecordCheckpoint();
  WriteCheckpoint(R"({"batches": 50, "epoch": 1.9, "trainer": )" +
                      ReportsOfTheBest().dump() + "}",
                  kLater);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, kLater);
  EXPECT_TRUE(fs::exists(Checkpoints() / kUuid)) << "it is the best one";
}

// Likewise, in the file of reports that came after the checkpoint.
TEST_F(ExperimentFilesTest, KeepsARecordedCheckpointWhoseMetricCameLate) {
  RecordCheckpoint();
  ASSERT_TRUE(WriteLateReports(store_.layout().Trial({id_, 1}).string(), kUuid,
                               ReportsOfTheBest()));
  WriteCheckpoint(R"({"batches": 50, "epoch": 1.9})", kLater);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, kLater);
  EXPECT_TRUE(fs::exists(Checkpoints() / kUuid)) << "it is the best one";
}

// A power cut has taken what was recorded last: the metrics up to there.
TEST_F(ExperimentFilesTest, IgnoresUnrecordedCheckpointsFromBeforeAReboot) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
  store_.Write([this](StoreWriter& writer) {
    writer.SetTrialProcess({id_, 1},
                           {.pid = 17, .start_ticks = 4, .boot_id = "earlier"});
  });

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, "");
  EXPECT_FALSE(fs::exists(Checkpoints() / kUuid));
}

TEST_F(ExperimentFilesTest, KeepsADamagedCheckpoint) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
  fs::resize_file(Checkpoints() / kUuid / "state.json", 3);

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, "");
  EXPECT_TRUE(fs::exists(Checkpoints() / kUuid));
}

TEST_F(ExperimentFilesTest, RemovesUnfinishedCheckpoints) {
  const fs::path half = Checkpoints() / (std::string(kUuid) + ".tmp");
  const fs::path trash = Checkpoints() / (std::string(kUuid) + ".trash");
  fs::create_directories(half);
  fs::create_directories(trash / "below");

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_FALSE(fs::exists(half));
  EXPECT_FALSE(fs::exists(trash));
}

TEST_F(ExperimentFilesTest, RemovesHalfDeletedDirectories) {
  const fs::path trash = store_.layout().Sources(id_).string() + ".trash";
  fs::create_directories(trash / "below");

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_FALSE(fs::exists(trash));
}

TEST_F(ExperimentFilesTest, RemovesDeletedCheckpoints) {
  WriteCheckpoint(R"({"batches": 40, "epoch": 1.5})");
  store_.Write([this](StoreWriter& writer) {
    writer.AddCheckpoint(
        {.uuid = kUuid, .trial = {id_, 1}, .state = "DELETED", .batches = 40});
  });

  EXPECT_EQ(Run().state, State::kCompleted);

  EXPECT_EQ(launcher_.started().back().restore, "");
  EXPECT_FALSE(fs::exists(Checkpoints() / kUuid));
}

}  // namespace
}  // namespace dtrain
