// doctor, and reading where nothing can be written.

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/config/read_config.h"
#include "engine/run/search_log.h"
#include "engine/store/store.h"
#include "searchers/registry.h"
#include "tests/support/cli_runner.h"
#include "tests/support/mounting.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    FillSampleStore(dtrain_.store());
    AddCheckpoint(layout_, {1, 2}, 200, 'c');
    // The rest of the sample is as no real store would be.
    Store store = Store::OpenForWriting(layout_);
    store.Write([](StoreWriter& writer) {
      writer.SetCheckpointState("0a1b2c3d-0000-4000-8000-000000000001",
                                "DELETED");
      writer.SetExperimentState(2, State::kPaused, Timestamp(1));
    });
    fs::permissions(layout_.Experiments(), fs::perms::owner_all);
  }
  // The texts of a check that are no good news.
  json Findings(const std::string& check) const {
    json texts = json::array();
    const json document = dtrain_.Run({"doctor", "--json"}).Json();
    for (const json& row : document["checks"]) {
      if (row["check"] == check && row["status"] != "ok") {
        texts.push_back(row["text"]);
      }
    }
    return texts;
  }

  // The sample's search as its runner would have recorded it.
  void RecordSearch() {
    Store store = Store::OpenForWriting(layout_);
    const auto detail = store.Experiment(1);
    const ExperimentConfig config = ConfigFromJson(detail->config);
    SearchLog search(
        MakeSearcher(config.searcher, config.hyperparameters, detail->row.seed),
        /*experiment=*/1);
    Outbox outbox;
    const std::vector<Event> events = {
        Started{},  Created{0},
        Created{1}, ValidationCompleted{0, 10, 0.5},
        Closed{0},  ValidationCompleted{1, 10, 0.25},
        Closed{1}};
    for (const Event& event : events) (void)search.Handle(event, outbox);
    outbox.Flush(store, Duration(0), /*all=*/true);
  }
  // The search's next event, with operations that a searcher never gave.
  void AddEvent(std::int64_t experiment, const SearcherEventRow& row) {
    Store::OpenForWriting(layout_).Write(
        [&](StoreWriter& writer) { writer.AddSearcherEvent(experiment, row); });
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(DoctorTest, NamesAnotherProgramThatLocksTheDatabase) {
  SQLite::Database database(layout_.Database().string(),
                            SQLite::OPEN_READWRITE);
  database.exec("BEGIN IMMEDIATE");
  const json findings = Findings("write lock");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].get<std::string>(),
              HasSubstr("held for two seconds by pid " +
                        std::to_string(::getpid()) + " on "));
  database.exec("ROLLBACK");
  EXPECT_EQ(Findings("write lock"), json::array());
}

TEST_F(DoctorTest, ReportsNoProblemInASoundStore) {
  const CliResult result = dtrain_.Run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("passes integrity_check"));
  EXPECT_THAT(result.out, HasSubstr("SQLite 3."));
  EXPECT_THAT(result.out, HasSubstr("slots are free"));
  EXPECT_EQ(dtrain_.Run({"doctor", "--json"}).Json()["ok"], true);
}

TEST_F(DoctorTest, AcceptsAMissingStore) {
  const CliResult result =
      dtrain_.Run({"--store", dtrain_.directory() / "none", "doctor"});
  EXPECT_EQ(result.code, 0);
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "none"));
}

TEST_F(DoctorTest, SuggestsResumeAfterARunnerDied) {
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    writer.SetExperimentState(2, State::kRunning, Timestamp(1));
  });
  EXPECT_EQ(dtrain_.Run({"doctor"}).code, 1);
  EXPECT_EQ(Findings("experiments"),
            json({"experiment 2 is INTERRUPTED because its runner died; resume "
                  "it with 'dtrain resume 2'"}));
}

TEST_F(DoctorTest, ReportsMissingAndUnknownDirectories) {
  fs::remove_all(layout_.Experiment(2));
  fs::create_directories(layout_.Experiment(9));
  const json texts = Findings("experiments");
  ASSERT_EQ(texts.size(), 2);
  EXPECT_THAT(texts[0], HasSubstr("neither logs nor checkpoints"));
  EXPECT_THAT(texts[1], HasSubstr("belongs to no experiment"));
}

TEST_F(DoctorTest, ReportsHalfDeletedDirectories) {
  fs::create_directories(layout_.Sources(1).string() + ".trash");
  EXPECT_EQ(Findings("experiments"),
            json({layout_.Sources(1).string() +
                  ".trash: its deletion was interrupted; 'dtrain gc' removes "
                  "the rest"}));
}

TEST_F(DoctorTest, ReportsMissingCheckpointFiles) {
  const fs::path path =
      layout_.Checkpoint({1, 2}, "cccccccc-0000-4000-8000-000000000000");
  fs::resize_file(path / "model.safetensors", 10);
  EXPECT_THAT(Findings("checkpoints")[0],
              HasSubstr("'model.safetensors' is missing or truncated; 'dtrain "
                        "checkpoint verify 1' marks it as CORRUPT"));
  std::ofstream(path / "MANIFEST.json") << "{";
  EXPECT_THAT(Findings("checkpoints")[0],
              HasSubstr("'MANIFEST.json' cannot be read"));
  fs::remove_all(path);
  EXPECT_THAT(Findings("checkpoints")[0], HasSubstr("does not exist"));
}

TEST_F(DoctorTest, ReplaysSearches) {
  RecordSearch();
  EXPECT_EQ(Findings("search"), json::array());
  EXPECT_EQ(dtrain_.Run({"doctor"}).code, 0);
}

TEST_F(DoctorTest, ReportsASearchThatReplaysDifferently) {
  RecordSearch();
  AddEvent(1, {.seq = 8,
               .event = ToJson(Event(Closed{1})),
               .operations = json::array({ToJson(Operation(Close{0}))})});
  EXPECT_EQ(dtrain_.Run({"doctor"}).code, 1);
  EXPECT_THAT(
      Findings("search")[0],
      HasSubstr("experiment 1: at event 8 replays to other operations"));
}

TEST_F(DoctorTest, ReportsEventsOfUnknownTrials) {
  RecordSearch();
  AddEvent(1, {.seq = 8,
               .event = ToJson(Event(Closed{7})),
               .operations = json::array()});
  EXPECT_THAT(Findings("search")[0],
              HasSubstr("at event 8 names a trial that was not created"));
}

TEST_F(DoctorTest, ReportsASnapshotOfAnotherSearch) {
  RecordSearch();
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    writer.AddSearcherSnapshot(1, 7, {{"not", "it"}});
  });
  EXPECT_THAT(Findings("search")[0],
              HasSubstr("at event 7 has the snapshot of another search"));
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    writer.AddSearcherSnapshot(1, 9, json::object());
  });
  EXPECT_THAT(Findings("search")[0], HasSubstr("event 8 is missing"));
}

TEST_F(DoctorTest, ReportsAnUnreadableConfiguration) {
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    const std::int64_t id = writer.AddExperiment(
        {.name = "old", .config = {{"searcher", {{"name", "hyperband"}}}}});
    writer.SetExperimentState(id, State::kPaused, Timestamp(1));
    writer.AddSearcherEvent(id, {.seq = 1,
                                 .event = ToJson(Event(Started{})),
                                 .operations = json::array()});
  });
  EXPECT_THAT(Findings("search")[0],
              HasSubstr("experiment 4: its configuration cannot be read: "));
}

TEST_F(DoctorTest, ReportsFilesThatOthersCanRead) {
  fs::permissions(layout_.Database(), fs::perms::others_read,
                  fs::perm_options::add);
  EXPECT_THAT(Findings("modes")[0], HasSubstr("dtrain.db: mode 0604"));
}

TEST_F(DoctorTest, ReportsDamage) {
  std::fstream file(layout_.Database(),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 4096 + 8);
  file << std::string(4000, '\xa5') << std::flush;

  const CliResult result = dtrain_.Run({"doctor", "--json"});

  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.Json()["ok"], false);
  EXPECT_THAT(result.out, HasSubstr("\"damage\""));
}

TEST_F(DoctorTest, ReportsAFileThatIsNotADatabase) {
  std::ofstream(layout_.Database()) << std::string(8192, 'x');
  const CliResult result = dtrain_.Run({"doctor"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.out, HasSubstr("restore it from a backup"));
}

// On a read-only file system of its own, in a namespace of its own.
TEST_F(DoctorTest, ReadsAReadOnlyMedium) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  const fs::path disk = dtrain_.directory() / "disk";
  fs::create_directories(disk);
  const std::string script =
      "mount -t tmpfs tmpfs " + disk.string() + " && cp -a " +
      dtrain_.store().string() + " " + disk.string() + "/store && rm -f " +
      disk.string() + "/store/dtrain.db-shm && mount -o remount,ro " +
      disk.string() + "; export DTRAIN_STORE=" + disk.string() +
      "/store; dtrain list --csv && dtrain metrics 1 --csv && dtrain logs 1 &&"
      " dtrain describe 1 && dtrain checkpoint verify 1; echo reads $?; "
      "dtrain label 1 --add x; echo writes $?";
  const CliResult result = RunInOwnMounts(dtrain_, script);

  EXPECT_THAT(result.out, HasSubstr("reads 0\n")) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1,alpha,COMPLETED"));
  EXPECT_THAT(result.out, HasSubstr("writes 5\n"));
}

}  // namespace
}  // namespace dtrain
