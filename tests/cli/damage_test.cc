// Damaged, unrecorded and replaced files of a store.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/fault_run.h"
#include "tests/support/fault_yaml.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kCheckpoints =
    "min_checkpoint_period: 10\ncheckpoint_policy: all\n";

class DamagedCheckpointTest : public testing::Test {
 protected:
  CliResult Create(int signal) const {
    dtrain_.Write("fault.yaml", FaultYaml("step_ms: 5, x: 0.3, ckpt_mb: 1", 200,
                                          kCheckpoints));
    return dtrain_.Run(
        {"create", "fault.yaml"},
        {.signal_when = "validation at batch 40", .signal = signal});
  }
  // The checkpoints that stand in the record, latest first.
  std::vector<json> Checkpoints() const {
    const json all = dtrain_.Run({"checkpoints", "1", "--json"}).Json();
    std::vector<json> rows(all["checkpoints"].begin(),
                           all["checkpoints"].end());
    std::ranges::sort(rows, std::greater<>(), [](const json& row) {
      return row["batches"].get<int>();
    });
    return rows;
  }
  fs::path CheckpointPath(const json& row) const {
    return dtrain_.store() / "experiments/1/trials/1/checkpoints" /
           row["uuid"].get<std::string>();
  }
  // Every value of the record, but for when it came.
  std::set<std::string> Values(int experiment) const {
    const json all =
        dtrain_.Run({"metrics", std::to_string(experiment), "--json"}).Json();
    std::set<std::string> values;
    for (json row : all["metrics"]) {
      row.erase("time");
      row.erase("trial");
      EXPECT_TRUE(values.insert(row.dump()).second) << "twice: " << row;
    }
    return values;
  }
  void ExpectEndOfAnUndisturbedRun() const {
    ASSERT_EQ(dtrain_.Run({"create", "fault.yaml"}).code, 0);
    EXPECT_EQ(Values(1), Values(2));
    EXPECT_THAT(Values(1), SizeIs(60u));
  }

  CliRunner dtrain_;
};

struct FileDamage {
  const char* name;
  std::function<void(const fs::path&)> inflict;
};

void Change(const fs::path& path, std::streamoff at, std::string bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  if (bytes.empty()) {
    file.seekg(at);
    bytes = static_cast<char>(file.get() ^ 0x10);
  }
  file.seekp(at);
  file << bytes;
}

const FileDamage kDamages[] = {
    {"BitFlip",
     [](const fs::path& path) { Change(path / "extra.safetensors", 300, ""); }},
    {"BitFlipInTheManifest",
     [](const fs::path& path) { Change(path / "MANIFEST.json", 30, ""); }},
    {"ZeroedBlock",
     [](const fs::path& path) {
       Change(path / "extra.safetensors", 4096, std::string(4096, '\0'));
     }},
    {"Cut",
     [](const fs::path& path) { fs::resize_file(path / "state.json", 100); }},
    {"MissingFile",
     [](const fs::path& path) { fs::remove(path / "model.safetensors"); }},
    {"MissingDirectory", [](const fs::path& path) { fs::remove_all(path); }},
    {"LinkInItsPlace",
     [](const fs::path& path) {
       fs::rename(path, path.string() + ".elsewhere");
       fs::create_directory_symlink(path.string() + ".elsewhere", path);
     }},
};

class AnyDamageTest : public DamagedCheckpointTest,
                      public testing::WithParamInterface<FileDamage> {};

TEST_P(AnyDamageTest, ResumesFromThePreviousCheckpoint) {
  ASSERT_EQ(Create(SIGINT).code, 130);
  const auto before = Checkpoints();
  ASSERT_GE(before.size(), 2u);
  GetParam().inflict(CheckpointPath(before[0]));

  const CliResult result = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(CheckpointPath(before[0]).string()));
  EXPECT_THAT(result.err, HasSubstr("marked CORRUPT"));
  EXPECT_THAT(
      result.err,
      HasSubstr("from checkpoint " + before[1]["uuid"].get<std::string>() +
                " at batch " + before[1]["batches"].dump()));
  const auto after = Checkpoints();
  const auto bad = std::ranges::find(
      after, before[0]["uuid"], [](const json& row) { return row["uuid"]; });
  ASSERT_NE(bad, after.end());
  EXPECT_EQ((*bad)["state"], "CORRUPT");
  const json trial = dtrain_.Run({"trials", "1", "--json"}).Json();
  EXPECT_EQ(trial["trials"][0]["restarts"], 0);
  ExpectEndOfAnUndisturbedRun();
}

INSTANTIATE_TEST_SUITE_P(Files, AnyDamageTest, testing::ValuesIn(kDamages),
                         [](const auto& test) { return test.param.name; });

TEST_F(DamagedCheckpointTest, RestartsFromScratchIfAllAreDamaged) {
  ASSERT_EQ(Create(SIGINT).code, 130);
  for (const json& row : Checkpoints()) fs::remove_all(CheckpointPath(row));

  const CliResult result = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resumes from the beginning"));
  ExpectEndOfAnUndisturbedRun();
}

// The trial has a second to save what it has when its runner dies.
TEST_F(DamagedCheckpointTest, ResumesFromACheckpointSavedAfterTheRunnersDeath) {
  ASSERT_EQ(Create(SIGKILL).code, 137);
  const auto recorded = Checkpoints();

  const CliResult result = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("saved after its runner had died"));
  EXPECT_GT(Checkpoints().size(), recorded.size());
  ExpectEndOfAnUndisturbedRun();
}

// Links and pipes planted where the store has its files: never followed.

class PlantedLinksTest : public FaultRun {
 protected:
  fs::path Checkpoints() const {
    return dtrain_.store() / "experiments/1/trials/1/checkpoints";
  }
  fs::path OnlyCheckpoint() const {
    return fs::directory_iterator(Checkpoints())->path();
  }
  // A directory outside the store, with something dear in it.
  fs::path Treasure() const {
    const fs::path treasure = dtrain_.directory() / "treasure";
    fs::create_directories(treasure);
    std::ofstream(treasure / "model.safetensors") << "dear";
    return treasure;
  }
  static bool IsWhole(const fs::path& treasure) {
    return fs::exists(treasure / "model.safetensors") &&
           fs::file_size(treasure / "model.safetensors") == 4;
  }
};

TEST_F(PlantedLinksTest, LinkInPlaceOfACheckpointIsNotFollowed) {
  ASSERT_EQ(Create(FaultYaml("", 40, "min_checkpoint_period: 20\n")).code, 0);
  const fs::path treasure = Treasure();
  const fs::path checkpoint = OnlyCheckpoint();
  fs::remove_all(checkpoint);
  fs::create_directory_symlink(treasure, checkpoint);
  fs::create_directory_symlink(
      treasure, Checkpoints() / "0f0f0f0f-0000-4000-8000-000000000000");

  EXPECT_EQ(Run({"checkpoint", "verify", "1"}).code, 1);
  EXPECT_EQ(Run({"gc", "1"}).code, 0);
  EXPECT_EQ(Run({"doctor"}).code, 1);
  EXPECT_TRUE(IsWhole(treasure));
  EXPECT_EQ(Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_TRUE(IsWhole(treasure));
}

TEST_F(PlantedLinksTest, LinkInPlaceOfACheckpointFileIsNotLoaded) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 1000));
  ASSERT_EQ(dtrain_
                .Run({"create", "fault.yaml"},
                     {.signal_when = "validation at batch 20"})
                .code,
            130);
  const fs::path file = OnlyCheckpoint() / "state.json";
  const fs::path moved = dtrain_.directory() / "state.json";
  fs::rename(file, moved);
  fs::create_symlink(moved, file);
  const CliResult verified = Run({"checkpoint", "verify", "1"});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, HasSubstr("state.json"));
}

TEST_F(PlantedLinksTest, PipeInPlaceOfACheckpointFileDoesNotBlock) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  const fs::path file = OnlyCheckpoint() / "state.json";
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(Shell("timeout 60 dtrain checkpoint verify 1").code, 1);
  EXPECT_EQ(Shell("timeout 60 dtrain doctor").code, 1);
  EXPECT_EQ(Shell("timeout 60 dtrain delete 1 --yes").code, 0);
}

TEST_F(PlantedLinksTest, LinkInPlaceOfALogIsNotWrittenTo) {
  dtrain_.Write("fault.yaml", FaultYaml("step_ms: 10", 200));
  ASSERT_EQ(
      dtrain_.Run({"create", "fault.yaml"}, {.signal_when = "at batch 20"})
          .code,
      130);
  const fs::path treasure = Treasure();
  const fs::path log = dtrain_.store() / "experiments/1/trials/1/log";
  fs::remove(log);
  fs::create_symlink(treasure / "model.safetensors", log);
  fs::remove(dtrain_.store() / "experiments/1/runner.lock");
  fs::create_symlink(treasure / "model.safetensors",
                     dtrain_.store() / "experiments/1/runner.lock");
  EXPECT_EQ(Run({"resume", "1"}).code, 5);
  EXPECT_TRUE(IsWhole(treasure));
  fs::remove(dtrain_.store() / "experiments/1/runner.lock");
  EXPECT_EQ(Run({"resume", "1"}).code, 0);
  EXPECT_TRUE(IsWhole(treasure));
}

TEST_F(PlantedLinksTest, LinkInPlaceOfTheWriteLockIsNotWrittenTo) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  const fs::path treasure = Treasure();
  const fs::path lock = dtrain_.store() / "dtrain.db.lock";
  fs::remove(lock);
  fs::create_symlink(treasure / "model.safetensors", lock);
  EXPECT_EQ(Run({"note", "1", "x"}).code, 5);
  EXPECT_TRUE(IsWhole(treasure));
}

TEST_F(PlantedLinksTest, LinkInPlaceOfTheDatabaseIsNotWrittenTo) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  const fs::path treasure = dtrain_.directory() / "empty";
  const fs::path database = dtrain_.store() / "dtrain.db";
  dtrain_.Write("empty", "");
  fs::remove(database);
  fs::create_symlink(treasure, database);
  EXPECT_EQ(Create(FaultYaml("", 20)).code, 5);
  EXPECT_EQ(fs::file_size(treasure), 0);
}

TEST_F(PlantedLinksTest, LinkInPlaceOfTheReserveIsNotWrittenTo) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  const fs::path treasure = Treasure();
  const fs::path reserve = dtrain_.store() / "dtrain.reserve";
  fs::remove(reserve);
  fs::create_symlink(treasure / "model.safetensors", reserve);
  Create(FaultYaml("", 20));
  EXPECT_TRUE(IsWhole(treasure));
}

}  // namespace
}  // namespace dtrain
