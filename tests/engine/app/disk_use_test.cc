#include "engine/app/disk_use.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(DiskUseTest, NamesOnlyWhatTakesSpace) {
  EXPECT_EQ(DiskUse{}.Text(), "0 B");
  DiskUse use{.best = {.count = 2, .bytes = 800'000},
              .latest = {.count = 1, .bytes = 200'000},
              .logs = 8'000};
  EXPECT_EQ(
      use.Text(),
      "1.0 MB: 3 checkpoints 1.0 MB (2 best 800.0 kB, 1 latest 200.0 kB), "
      "logs 8.0 kB");
  use += DiskUse{.others = {.count = 1, .bytes = 500'000}, .other = 1'000};
  EXPECT_EQ(use.checkpoints().count, 4);
  EXPECT_EQ(use.bytes(), 1'509'000);
  EXPECT_EQ(use.Json()["checkpoints"]["others"]["bytes"], 500'000);
}

TEST(DiskUseTest, AdvisesWhatHasAnEffect) {
  const DiskUse use{.best = {.count = 1, .bytes = 1}};
  EXPECT_EQ(HowToKeepLess({}, 3, json::object()), "");
  EXPECT_EQ(HowToKeepLess(use, 3,
                          {{"checkpoint_storage",
                            {{"save_experiment_best", 0},
                             {"save_trial_best", 1},
                             {"save_trial_latest", 2}}}}),
            "in the next search lower checkpoint_storage.save_trial_best (1), "
            "save_trial_latest (2); here 'dtrain gc 3' deletes those that the "
            "policy does not keep, 'dtrain checkpoint delete UUID' deletes one "
            "that 'dtrain checkpoints 3' lists");
  // Under this policy `gc` deletes no checkpoint, and the save_* keys have no
  // effect.
  EXPECT_THAT(
      HowToKeepLess(use, 3,
                    {{"checkpoint_policy", "all"},
                     {"checkpoint_storage", {{"save_trial_best", 1}}}}),
      AllOf(HasSubstr("use checkpoint_policy: best; here 'dtrain "
                      "checkpoint delete UUID'"),
            Not(HasSubstr("save_trial_best")), Not(HasSubstr("dtrain gc"))));
}

// While a runner writes, a part of the database is in its log.
TEST(DiskUseTest, DatabaseTakesTheSpaceOfItsLogToo) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path() / "store");
  FillSampleStore(layout.root());
  Store store = Store::OpenForWriting(layout);
  store.Write(
      [](StoreWriter& writer) { writer.SetNote(1, std::string(60'000, 'x')); });
  const std::filesystem::path database = layout.Database();
  const std::filesystem::path log = database.string() + "-wal";
  ASSERT_GT(file_size(log), 60'000u);
  EXPECT_EQ(DatabaseBytes(store),
            static_cast<std::int64_t>(file_size(database) + file_size(log)));
}

// Checkpoints in checkpoint_storage are no files of the experiment's directory.
TEST(DiskUseTest, DividesTheFilesOfAnExperiment) {
  const TemporaryDirectory directory;
  const StoreLayout layout(directory.path() / "store");
  Store store = Store::OpenForWriting(layout);
  store.Write([](StoreWriter& writer) {
    const std::int64_t id = writer.AddExperiment({.name = "elsewhere",
                                                  .searcher = "single",
                                                  .metric = "loss",
                                                  .config = json::object(),
                                                  .storage = "/elsewhere"});
    writer.AddTrial({.id = {id, 1}, .request_id = "r"});
    for (const auto& [uuid, batches] :
         {std::pair("0a1b2c3d-0000-4000-8000-000000000001", 50),
          std::pair("0a1b2c3d-0000-4000-8000-000000000002", 70)}) {
      writer.AddCheckpoint({.uuid = uuid,
                            .trial = {id, 1},
                            .state = "COMPLETED",
                            .batches = batches,
                            .bytes = 5'000'000,
                            .storage = "/elsewhere",
                            .time = Timestamp(batches)});
    }
  });
  create_directories(layout.Trial({1, 1}));
  create_directories(layout.Context(1));
  std::ofstream(layout.TrialLog({1, 1})) << "log";
  std::ofstream(layout.Context(1) / "model.py") << "1234567";
  std::ofstream(layout.Experiment(1) / "written.txt") << "12345";
  const DiskUse use = ReadDiskUse(store, 1);
  EXPECT_EQ(use.latest.count, 1);
  EXPECT_EQ(use.others.count, 1);
  EXPECT_EQ(use.checkpoints().bytes, 10'000'000);
  EXPECT_EQ(use.logs, 3);
  EXPECT_EQ(use.context, 7);
  EXPECT_EQ(use.other, 5);
}

}  // namespace
}  // namespace dtrain
