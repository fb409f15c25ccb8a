#include "engine/store/store_names.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/engine/store/sample_rows.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class StoreNamesTest : public testing::Test {
 protected:
  void Fill() const {
    Store store = Store::OpenForWriting(layout_);
    store.Write([](StoreWriter& writer) {
      writer.AddExperiment(SampleExperiment());
      writer.AddTrial(SampleTrial(1, 1));
      writer.AddTrial(SampleTrial(1, 12));
      writer.AddMetrics({1, 1}, MetricKind::kValidation, 10, 1,
                        {{"val_loss", 0.5}}, Timestamp(1));
      writer.AddCheckpoint(SampleCheckpoint({1, 1}, 10, "0a1b2c3d"));
      CheckpointRow deleted = SampleCheckpoint({1, 1}, 20, "0a1b2c3e");
      deleted.state = "DELETED";
      writer.AddCheckpoint(deleted);
    });
  }

  // Files of the store with their sizes and times.
  std::vector<std::pair<std::string, fs::file_time_type>> Files() const {
    std::vector<std::pair<std::string, fs::file_time_type>> files;
    for (const auto& file : fs::directory_iterator(layout_.root())) {
      files.emplace_back(
          file.path().string() + " " +
              std::to_string(file.is_regular_file() ? file.file_size() : 0),
          file.last_write_time());
    }
    return files;
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(StoreNamesTest, AreThoseOfTheStore) {
  Fill();
  const auto names = StoreNames::Open(layout_);
  ASSERT_TRUE(names);
  EXPECT_THAT(
      names->Experiments(""),
      ElementsAre(testing::AllOf(Field(&StoreName::id, "1"),
                                 Field(&StoreName::about, "digits, PENDING"))));
  EXPECT_THAT(names->Experiments("2"), IsEmpty());
  EXPECT_THAT(names->Trials(1, ""), ElementsAre(Field(&StoreName::id, "1.1"),
                                                Field(&StoreName::id, "1.12")));
  EXPECT_THAT(names->Trials(1, "12"),
              ElementsAre(Field(&StoreName::id, "1.12")));
  EXPECT_THAT(names->Metrics(1), ElementsAre("val_loss"));
  EXPECT_THAT(names->Metrics(2), IsEmpty());
  EXPECT_THAT(names->Metrics({}), ElementsAre("val_loss"));
  EXPECT_THAT(names->Labels(), ElementsAre("cpu", "fast"));
  EXPECT_EQ(names->Configuration(1)["name"], "digits");
  EXPECT_EQ(names->Configuration({})["name"], "digits");
}

TEST_F(StoreNamesTest, LeaveOutDeletedCheckpoints) {
  Fill();
  const auto checkpoints = StoreNames::Open(layout_)->Checkpoints("0a1b");
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_THAT(checkpoints[0].id, testing::StartsWith("0a1b2c3d"));
  EXPECT_THAT(checkpoints[0].about,
              testing::MatchesRegex("trial 1.1, saved ....-..-.. ..:.."));
}

TEST_F(StoreNamesTest, AreReadWithoutWriting) {
  Fill();
  const auto before = Files();
  EXPECT_EQ(StoreNames::Open(layout_)->Experiments("").size(), 1u);
  EXPECT_EQ(Files(), before);
}

// They are opened by a URI.
TEST_F(StoreNamesTest, AreReadInADirectoryOfAnyName) {
  Fill();
  fs::path root = layout_.root();
  for (const char* name : {"a%41b", "50%", "a?mode=rw", "a#b", "a b", "é&=+"}) {
    fs::rename(root, directory_.path() / name);
    root = directory_.path() / name;
    const auto names = StoreNames::Open(StoreLayout(root));
    ASSERT_TRUE(names) << name;
    EXPECT_EQ(names->Experiments("").size(), 1u) << name;
  }
}

TEST_F(StoreNamesTest, AreReadWhileAWriterHasTheStore) {
  Fill();
  Store writer = Store::OpenForWriting(layout_);
  writer.Write([](StoreWriter& w) { w.AddExperiment(SampleExperiment()); });
  EXPECT_EQ(StoreNames::Open(layout_)->Experiments("").size(), 2u);
}

TEST_F(StoreNamesTest, DoNotMigrateAnOlderStore) {
  fs::create_directories(layout_.root());
  std::ostringstream sql;
  sql << std::ifstream(DTRAIN_GOLDEN_DIR "/store_version1.sql").rdbuf();
  {
    SQLite::Database database(layout_.Database(),
                              SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec(sql.str());
  }
  const auto before = Files();
  EXPECT_FALSE(StoreNames::Open(layout_)->Experiments("").empty());
  EXPECT_EQ(Files(), before);
}

TEST_F(StoreNamesTest, AreEmptyIfTheStoreIsMissingOrDamaged) {
  EXPECT_FALSE(StoreNames::Open(layout_));
  EXPECT_FALSE(fs::exists(layout_.root()));
  fs::create_directories(layout_.root());
  std::ofstream(layout_.Database()) << "no database at all, but some text";
  const auto names = StoreNames::Open(layout_);
  ASSERT_TRUE(names);
  EXPECT_THAT(names->Experiments(""), IsEmpty());
  EXPECT_THAT(names->Labels(), IsEmpty());
}

}  // namespace
}  // namespace dtrain
