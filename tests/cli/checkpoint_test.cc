// checkpoint show, verify and delete; gc.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint_files.h"
#include "engine/run/runner_lock.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr char kSampleUuid[] = "0a1b2c3d-0000-4000-8000-000000000001";

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    FillSampleStore(dtrain_.store());
    // Rows of the sample store without files.
    Store store = Store::OpenForWriting(layout_);
    store.Write([](StoreWriter& writer) {
      writer.SetCheckpointState(kSampleUuid, "DELETED");
    });
  }
  // A trial of the interrupted experiment 2, which may be resumed.
  void AddUnfinishedTrial() {
    Store store = Store::OpenForWriting(layout_);
    store.Write([](StoreWriter& writer) {
      writer.AddTrial({.id = {2, 1}, .request_id = "r"});
      writer.SetTrialState({2, 1}, State::kRunning, Timestamp(1));
    });
  }
  void SetTrialState(TrialId trial, State state) {
    Store store = Store::OpenForWriting(layout_);
    store.Write([&](StoreWriter& writer) {
      writer.SetTrialState(trial, state, Timestamp(2));
    });
  }
  fs::path Path(TrialId trial, const std::string& uuid) const {
    return layout_.Checkpoint(trial, uuid);
  }
  std::string ReadState(const std::string& uuid) const {
    return dtrain_.Run({"checkpoint", "show", uuid, "--json"}).Json()["state"];
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(CheckpointTest, ShowsACheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  const json document =
      dtrain_.Run({"checkpoint", "show", "cccc", "--json"}).Json();
  EXPECT_EQ(document["uuid"], uuid);
  EXPECT_EQ(document["metric"], 0.25);
  EXPECT_EQ(document["files"].size(), 3);
  const CliResult text = dtrain_.Run({"checkpoint", "show", uuid});
  EXPECT_THAT(text.out, HasSubstr("  trial         1.2\n"));
  EXPECT_THAT(text.out, HasSubstr("  MANIFEST.json"));
}

TEST_F(CheckpointTest, VerifiesAnIntactCheckpoint) {
  AddCheckpoint(layout_, {1, 1}, 100, 'b');
  AddCheckpoint(layout_, {1, 2}, 100, 'c');
  const CliResult all = dtrain_.Run({"checkpoint", "verify", "--json"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(all.Json()["checkpoints"].size(), 2);
  EXPECT_EQ(all.Json()["checkpoints"][0]["ok"], true);
  const CliResult one = dtrain_.Run({"checkpoint", "verify", "1.2", "--json"});
  EXPECT_EQ(one.Json()["checkpoints"].size(), 1);
}

TEST_F(CheckpointTest, MarksADamagedCheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  AddCheckpoint(layout_, {1, 1}, 100, 'b');
  const fs::path file = Path({1, 2}, uuid) / "model.safetensors";
  std::ofstream(file) << std::string(999, 'm') << 'n';

  const CliResult result = dtrain_.Run({"checkpoint", "verify", "1"});

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("'model.safetensors' does not match"));
  EXPECT_THAT(result.err,
              HasSubstr("1 of 2 checkpoints is damaged or unreadable"));
  EXPECT_EQ(ReadState(uuid), "CORRUPT");
  EXPECT_EQ(ReadState("bbbb"), "COMPLETED");
}

TEST_F(CheckpointTest, ClearsTheMarkOfARestoredCheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  const fs::path path = Path({1, 2}, uuid);
  fs::rename(path, path.string() + "-away");
  EXPECT_EQ(dtrain_.Run({"checkpoint", "verify", "cccc"}).code, 1);
  EXPECT_EQ(ReadState(uuid), "CORRUPT");
  fs::rename(path.string() + "-away", path);

  EXPECT_EQ(dtrain_.Run({"checkpoint", "verify", "cccc"}).code, 0);

  EXPECT_EQ(ReadState(uuid), "COMPLETED");
}

TEST_F(CheckpointTest, DetectsAnotherCheckpointInItsPlace) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  const fs::path path = Path({1, 2}, uuid);
  fs::remove_all(path);
  CheckpointWriter other(path);
  other.Write("model.safetensors", "something else");
  static_cast<void>(other.Commit());

  const CliResult result = dtrain_.Run({"checkpoint", "verify", "cccc"});

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("does not match its recorded checksum"));
}

TEST_F(CheckpointTest, DeletesRowAndFiles) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');

  const CliResult result =
      dtrain_.Run({"checkpoint", "delete", "cccc", "--json"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_GT(result.Json()["deleted"][0]["bytes"], 1000);
  EXPECT_EQ(ReadState(uuid), "DELETED");
  EXPECT_FALSE(fs::exists(Path({1, 2}, uuid)));
  EXPECT_EQ(dtrain_.Run({"checkpoint", "delete", "cccc"}).code, 3);
  EXPECT_EQ(dtrain_.Run({"checkpoint", "verify", "cccc"}).code, 3);
}

TEST_F(CheckpointTest, DeletesOnceWhatIsGivenTwice) {
  AddCheckpoint(layout_, {1, 2}, 100, 'c');

  const CliResult result =
      dtrain_.Run({"checkpoint", "delete", "cccc", "ccccc", "--json"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["deleted"].size(), 1);
}

TEST_F(CheckpointTest, KeepsTheCheckpointThatATrialResumesFrom) {
  AddUnfinishedTrial();
  AddCheckpoint(layout_, {2, 1}, 10, 'd');
  const std::string latest = AddCheckpoint(layout_, {2, 1}, 20, 'e');

  const CliResult result =
      dtrain_.Run({"checkpoint", "delete", "dddd", "eeee"});

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("is the latest checkpoint of trial 2.1"));
  EXPECT_TRUE(fs::exists(Path({2, 1}, latest)));
  EXPECT_EQ(ReadState("dddd"), "COMPLETED");
  for (const State state : {State::kPending, State::kRunning, State::kPaused}) {
    SetTrialState({2, 1}, state);
    EXPECT_EQ(dtrain_.Run({"checkpoint", "delete", "eeee"}).code, 1)
        << StateName(state);
  }
  EXPECT_EQ(dtrain_.Run({"checkpoint", "delete", "dddd"}).code, 0);
  SetTrialState({2, 1}, State::kStopped);
  EXPECT_EQ(dtrain_.Run({"checkpoint", "delete", "eeee"}).code, 0);
}

TEST_F(CheckpointTest, CollectsCheckpointsThatThePolicyDrops) {
  const std::string old = AddCheckpoint(layout_, {1, 2}, 50, 'c');
  const std::string latest = AddCheckpoint(layout_, {1, 2}, 200, 'd');
  const json dry = dtrain_.Run({"gc", "--dry-run", "--json"}).Json();
  EXPECT_EQ(dry["removed"].size(), 1);
  EXPECT_TRUE(fs::exists(Path({1, 2}, old)));
  EXPECT_EQ(ReadState(old), "COMPLETED");

  const json real = dtrain_.Run({"gc", "1", "--json"}).Json();

  EXPECT_EQ(real["removed"], dry["removed"]);
  EXPECT_EQ(real["bytes"], dry["bytes"]);
  EXPECT_GT(real["bytes"], 1000);
  EXPECT_EQ(ReadState(old), "DELETED");
  EXPECT_FALSE(fs::exists(Path({1, 2}, old)));
  EXPECT_TRUE(fs::exists(Path({1, 2}, latest)));
  EXPECT_EQ(dtrain_.Run({"gc", "--json"}).Json()["removed"], json::array());
}

TEST_F(CheckpointTest, CollectsOfArchivedExperimentsWhatTheirPolicyDrops) {
  const std::string old = AddCheckpoint(layout_, {1, 2}, 50, 'c');
  const std::string latest = AddCheckpoint(layout_, {1, 2}, 200, 'd');
  ASSERT_EQ(dtrain_.Run({"archive", "1"}).code, 0);

  for (const char* option : {"--dry-run", "--quiet"}) {
    const json removed =
        dtrain_.Run({"gc", "--json", option}).Json()["removed"];
    ASSERT_EQ(removed.size(), 1);
    EXPECT_EQ(removed[0]["experiment"], 1);
    EXPECT_EQ(removed[0]["kind"], "checkpoint");
    EXPECT_EQ(removed[0]["path"], Path({1, 2}, old).string());
    EXPECT_EQ(removed[0]["why"], "the checkpoint policy does not keep it");
  }

  EXPECT_FALSE(fs::exists(Path({1, 2}, old)));
  EXPECT_TRUE(fs::exists(Path({1, 2}, latest)));
  EXPECT_TRUE(fs::exists(layout_.TrialLog({1, 2})));
}

TEST_F(CheckpointTest, CollectsByTheExperimentsOwnPolicyAndDirection) {
  AddAccuracySearch(dtrain_.store());
  const std::string best = AddCheckpoint(layout_, {4, 2}, 50, 'c');
  AddCheckpoint(layout_, {4, 2}, 100, 'd');
  AddCheckpoint(layout_, {4, 1}, 100, 'e');
  AddCheckpoint(layout_, {4, 3}, 50, 'f');

  const json document = dtrain_.Run({"gc", "4", "--json"}).Json();

  EXPECT_EQ(document["removed"].size(), 3);
  const json left =
      dtrain_.Run({"checkpoints", "4", "--json"}).Json()["checkpoints"];
  ASSERT_EQ(left.size(), 1);
  EXPECT_EQ(left[0]["uuid"], best);
  EXPECT_TRUE(fs::exists(Path({4, 2}, best)));
}

TEST_F(CheckpointTest, AppliesNoPolicyToUnfinishedExperiments) {
  AddUnfinishedTrial();
  AddCheckpoint(layout_, {2, 1}, 10, 'c');
  AddCheckpoint(layout_, {2, 1}, 20, 'd');
  AddCheckpoint(layout_, {2, 1}, 30, 'e');

  EXPECT_EQ(dtrain_.Run({"gc", "2", "--json"}).Json()["removed"],
            json::array());
}

TEST_F(CheckpointTest, CollectsLeftoversOfCrashes) {
  AddUnfinishedTrial();
  const std::string kept = AddCheckpoint(layout_, {2, 1}, 20, 'e');
  const fs::path directory = layout_.Checkpoints({2, 1});
  const std::string lost = "0f0f0f0f-0000-4000-8000-000000000000";
  fs::create_directories(directory / lost);
  fs::create_directories(directory / (lost + ".tmp"));
  fs::create_directories(directory / "abc.trash");
  fs::create_directories(directory / "mine");

  const json document = dtrain_.Run({"gc", "2", "--json"}).Json();

  EXPECT_EQ(document["removed"].size(), 3);
  EXPECT_TRUE(fs::exists(directory / kept));
  EXPECT_TRUE(fs::exists(directory / "mine"));
  EXPECT_FALSE(fs::exists(directory / lost));
}

TEST_F(CheckpointTest, CollectsAHalfDeletedExperiment) {
  const std::vector<fs::path> trash = {
      layout_.Sources(1).string() + ".trash",
      layout_.Context(1).string() + ".trash",
      layout_.Trial({1, 2}).string() + ".trash",
      layout_.Trial({1, 2}) / "scratch.trash"};
  for (const fs::path& path : trash) fs::create_directories(path / "old");
  EXPECT_EQ(dtrain_.Run({"gc", "--dry-run", "--json"}).Json()["removed"].size(),
            trash.size());

  const json document = dtrain_.Run({"gc", "--json"}).Json();

  EXPECT_EQ(document["removed"].size(), trash.size());
  EXPECT_EQ(document["removed"][0]["why"], "its deletion was interrupted");
  for (const fs::path& path : trash) EXPECT_FALSE(fs::exists(path)) << path;
}

TEST_F(CheckpointTest, CollectsDirectoriesOfDeletedExperimentsOnly) {
  ASSERT_EQ(dtrain_.Run({"delete", "3", "--yes"}).code, 0);
  fs::create_directories(layout_.Experiment(3));
  fs::create_directories(layout_.Experiments() / "2.trash");
  fs::create_directories(layout_.Experiment(7));  // of another database
  fs::create_directories(layout_.Experiments() / "mine");

  const CliResult result = dtrain_.Run({"gc"});

  EXPECT_THAT(result.err, HasSubstr("freed 0 B (2 items)"));
  EXPECT_FALSE(fs::exists(layout_.Experiment(3)));
  EXPECT_TRUE(fs::exists(layout_.Experiment(2)));
  EXPECT_TRUE(fs::exists(layout_.Experiment(7)));
  EXPECT_TRUE(fs::exists(layout_.Experiments() / "mine"));
}

TEST_F(CheckpointTest, CollectsNothingWithoutARecord) {
  fs::remove(layout_.Database());
  EXPECT_EQ(dtrain_.Run({"gc", "--json"}).Json()["removed"], json::array());
  EXPECT_TRUE(fs::exists(layout_.Experiment(1)));
}

TEST_F(CheckpointTest, SkipsARunningExperiment) {
  const RunnerLock lock = RunnerLock::Acquire(layout_.RunnerLock(2));
  const fs::path temporary = layout_.Checkpoints({2, 1}) / "x.tmp";
  fs::create_directories(temporary);

  const json document = dtrain_.Run({"gc", "2", "--json"}).Json();

  EXPECT_EQ(document["skipped"], json({2}));
  EXPECT_TRUE(fs::exists(temporary));
}

}  // namespace
}  // namespace dtrain
