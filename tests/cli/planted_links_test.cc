// Links and pipes planted where the store has its files: never followed.

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

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
  EXPECT_EQ(Shell("timeout 20 dtrain checkpoint verify 1").code, 1);
  EXPECT_EQ(Shell("timeout 20 dtrain doctor").code, 1);
  EXPECT_EQ(Shell("timeout 20 dtrain delete 1 --yes").code, 0);
}

TEST_F(PlantedLinksTest, LinkInPlaceOfALogIsNotWrittenTo) {
  ASSERT_EQ(Create(FaultYaml("step_ms: 10", 60), {"--timeout", "300ms"}).code,
            124);
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
