// Damaged checkpoints and unrecorded ones.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
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
  fs::path PathOf(const json& row) const {
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
  GetParam().inflict(PathOf(before[0]));

  const CliResult result = dtrain_.Run({"resume", "1"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(PathOf(before[0]).string()));
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
  for (const json& row : Checkpoints()) fs::remove_all(PathOf(row));

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

}  // namespace
}  // namespace dtrain
