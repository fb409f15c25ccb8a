// archive, label, note, delete and backup.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/layout.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ManageTest : public testing::Test {
 protected:
  ManageTest() { FillSampleStore(dtrain_.store()); }

  json Described(const std::string& id) const {
    return dtrain_.Run({"describe", id, "--json"}).Json();
  }
  std::size_t Listed() const {
    return dtrain_.Run({"list", "--json"}).Json()["experiments"].size();
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(ManageTest, SaysWhatTakesTheSpace) {
  fs::create_directories(layout_.Context(1));
  std::ofstream(layout_.Context(1) / "model.py") << "1234567";
  const json disk = Described("1")["disk"];
  const json& checkpoints = disk["checkpoints"];
  EXPECT_EQ(checkpoints["count"], 1);
  EXPECT_EQ(checkpoints["best"], (json{{"count", 1}, {"bytes", 12345678}}));
  EXPECT_EQ(checkpoints["latest"]["count"], 0);
  EXPECT_EQ(disk["context"], 7);
  EXPECT_EQ(disk["logs"],
            static_cast<std::int64_t>(fs::file_size(layout_.TrialLog({1, 1})) +
                                      fs::file_size(layout_.TrialLog({1, 2}))));
  EXPECT_GT(disk["database"], 0);
  EXPECT_EQ(disk["bytes"], checkpoints["bytes"].get<std::int64_t>() +
                               disk["logs"].get<std::int64_t>() + 7 +
                               disk["other"].get<std::int64_t>());
  const CliResult text = dtrain_.Run({"describe", "1"});
  EXPECT_THAT(text.out,
              HasSubstr("1 checkpoint 12.3 MB (1 best 12.3 MB), logs"));
  EXPECT_THAT(text.out, HasSubstr("lower checkpoint_storage.save_trial_best "
                                  "(1), save_trial_latest (1)"));
}

TEST_F(ManageTest, DryCollectionSaysWhatIsKept) {
  const CliResult all = dtrain_.Run({"gc", "--dry-run"});
  EXPECT_THAT(all.err, HasSubstr("3 experiments take 12.3 MB: "));
  EXPECT_THAT(all.err, HasSubstr("'dtrain list -a --columns id,name,size"));
  const CliResult one = dtrain_.Run({"gc", "--dry-run", "1"});
  EXPECT_THAT(one.err, HasSubstr("1 experiment takes 12.3 MB: "));
  EXPECT_THAT(one.err, HasSubstr("to keep less: in the next search lower"));
  EXPECT_EQ(dtrain_.Run({"gc", "--dry-run", "1", "--json"})
                .Json()["disk"]["checkpoints"]["count"],
            1);
  EXPECT_FALSE(dtrain_.Run({"gc", "1", "--json"}).Json().contains("disk"));
}

class UnknownExperimentTest
    : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(UnknownExperimentTest, IsNotFoundAndCreatesNoStore) {
  const CliRunner dtrain;
  const CliResult result = dtrain.Run(GetParam());
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("dtrain: error: "));
  EXPECT_FALSE(fs::exists(dtrain.store()));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, UnknownExperimentTest,
    testing::Values(std::vector<std::string>{"archive", "9"},
                    std::vector<std::string>{"unarchive", "9"},
                    std::vector<std::string>{"label", "9", "--add", "x"},
                    std::vector<std::string>{"note", "9", "text"},
                    std::vector<std::string>{"note", "9.1", "text"},
                    std::vector<std::string>{"star", "9.1"},
                    std::vector<std::string>{"delete", "9", "--yes"},
                    std::vector<std::string>{"gc", "9"},
                    std::vector<std::string>{"pause", "9"},
                    std::vector<std::string>{"cancel", "9"},
                    std::vector<std::string>{"kill", "9.1"},
                    std::vector<std::string>{"backup", "copy.db"},
                    std::vector<std::string>{"checkpoint", "show", "abcd"},
                    std::vector<std::string>{"checkpoint", "verify", "9"},
                    std::vector<std::string>{"checkpoint", "delete", "abcd"}));

struct Misuse {
  std::vector<std::string> arguments;
  std::string message;
};

class MisuseTest : public testing::TestWithParam<Misuse> {};

TEST_P(MisuseTest, ExplainsTheRemedyAndChangesNothing) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const CliResult result = dtrain.Run(GetParam().arguments);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(dtrain.Run({"list", "--json"}).Json()["experiments"].size(), 3);
}

INSTANTIATE_TEST_SUITE_P(
    CommandLines, MisuseTest,
    testing::Values(
        Misuse{{"archive", "0"}, "'0' is not a valid ID"},
        Misuse{{"archive", "1.1"}, "'1.1' is not a valid experiment ID"},
        Misuse{{"label", "1"}, "give --add LABEL or --remove LABEL"},
        Misuse{{"label", "1", "--add", ""}, "'' is not a label"},
        Misuse{{"label", "1", "--add", std::string(101, 'a')},
               "give at most 100 characters"},
        Misuse{{"label", "1", "--add", "\xff"}, "'\\xff' is not a label"},
        Misuse{{"label", "1", "--add", "x", "--add", "y", "--remove", "y"},
               "'y' is given to both --add and --remove"},
        Misuse{{"note", "1"}, "give a text or --clear"},
        Misuse{{"note", "1", "x", "--clear"},
               "a text cannot be combined with --clear"},
        Misuse{{"note", "1", std::string(70'000, 'x')}, "at most 64 KiB"},
        Misuse{{"star", "1"}, "'1' is an experiment"},
        Misuse{{"delete", "1"}, "stdin is not a terminal; use --yes"},
        Misuse{{"pause", "1.1"}, "'1.1' is not a valid experiment ID"},
        Misuse{{"kill", "1", "--timeout", "soon"}, "--timeout"},
        Misuse{{"checkpoint"}, "see 'dtrain checkpoint --help'"},
        Misuse{{"checkpoint", "shwo"},
               "unknown command 'checkpoint shwo'; available: show, verify, "
               "export, import, delete"},
        Misuse{{"checkpoint", "show", "0a"}, "give at least 4 characters"},
        Misuse{{"checkpoint", "show"}, "checkpoint show: "}));

TEST_F(ManageTest, ArchivesAndUnarchives) {
  EXPECT_EQ(dtrain_.Run({"archive", "1", "3", "1", "--json"}).Json(),
            json({{"experiments",
                   {{{"experiment", 1}, {"archived", true}},
                    {{"experiment", 3}, {"archived", true}}}}}));
  EXPECT_EQ(Listed(), 1);
  EXPECT_EQ(dtrain_.Run({"list", "-a", "--json"}).Json()["experiments"].size(),
            3);
  EXPECT_EQ(Described("1")["archived"], true);

  EXPECT_EQ(dtrain_.Run({"unarchive", "1", "3"}).code, 0);

  EXPECT_EQ(Listed(), 3);
}

TEST_F(ManageTest, ArchivesNothingIfOneIsUnknown) {
  EXPECT_EQ(dtrain_.Run({"archive", "1", "9"}).code, 3);
  EXPECT_EQ(Listed(), 3);
}

TEST_F(ManageTest, ChangesLabels) {
  const CliResult result = dtrain_.Run(
      {"label", "1", "3", "--add", "a b", "--add", "x", "--remove", "night"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "experiment 1: a b, x\nexperiment 3: a b, x\n");
  EXPECT_EQ(Described("1")["labels"], json({"a b", "x"}));
  EXPECT_EQ(Described("2")["labels"], json({"night"}));
  EXPECT_EQ(dtrain_.Run({"list", "--label", "x", "--json"})
                .Json()["experiments"]
                .size(),
            2);
}

TEST_F(ManageTest, SetsAndClearsANote) {
  EXPECT_EQ(dtrain_.Run({"note", "1", "too \x1b[2J late"}).code, 0);
  EXPECT_EQ(Described("1")["note"], "too \x1b[2J late");
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("note          too \\x1b[2J late\n"));

  EXPECT_EQ(dtrain_.Run({"note", "1", "--clear"}).code, 0);

  EXPECT_EQ(Described("1")["note"], "");
}

TEST_F(ManageTest, MarksTrials) {
  EXPECT_EQ(dtrain_.Run({"star", "1.1", "1.1"}).out,
            "trial 1.1: star\ntrial 1.1: star\n");
  EXPECT_EQ(
      dtrain_.Run({"note", "1.1", "too \x1b[2J late", "--json"}).Json(),
      json(
          {{"experiment", 1}, {"trial", "1.1"}, {"note", "too \x1b[2J late"}}));
  const CliResult described = dtrain_.Run({"describe", "1.1"});
  EXPECT_THAT(described.out, HasSubstr("trial 1.1 ★\n"));
  EXPECT_THAT(described.out, HasSubstr("note          too \\x1b[2J late\n"));
  EXPECT_EQ(Described("1")["note"], "");
  const json marked =
      dtrain_.Run({"trials", "1", "--filter", "star == 1", "--json"}).Json();
  ASSERT_EQ(marked["trials"].size(), 1);
  EXPECT_EQ(marked["trials"][0]["star"], true);
  EXPECT_EQ(marked["trials"][0]["note"], "too \x1b[2J late");
  EXPECT_EQ(dtrain_.Run({"star", "1.1", "1.99"}).code, 3);

  EXPECT_EQ(dtrain_.Run({"star", "1.1", "--remove", "--json"}).Json(),
            json({{"trials", {{{"trial", "1.1"}, {"star", false}}}}}));
  EXPECT_EQ(dtrain_.Run({"note", "1.1", "--clear"}).code, 0);

  const json plain = dtrain_.Run({"describe", "1.1", "--json"}).Json();
  EXPECT_EQ(plain["star"], false);
  EXPECT_EQ(plain["note"], "");
}

TEST_F(ManageTest, DeletesRowsAndFiles) {
  const CliResult result = dtrain_.Run({"delete", "1", "--yes", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_GT(result.Json()["deleted"][0]["bytes"], 0);
  EXPECT_FALSE(fs::exists(layout_.Experiment(1)));
  EXPECT_FALSE(fs::exists(layout_.Experiment(1).string() + ".trash"));
  EXPECT_EQ(dtrain_.Run({"describe", "1"}).code, 3);
  EXPECT_EQ(Listed(), 2);
}

TEST_F(ManageTest, DeleteFollowsNoLinks) {
  const fs::path mine = dtrain_.Write("mine", "precious");
  fs::create_directory_symlink(dtrain_.directory(),
                               layout_.Trial({1, 1}) / "link");
  fs::create_directory_symlink(dtrain_.directory(), layout_.Experiment(3));

  const CliResult result = dtrain_.Run({"delete", "1", "3", "--yes"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(fs::exists(mine));
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "runner.lock"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(layout_.Experiment(3))));
}

TEST_F(ManageTest, LeavesRunningExperimentsAlone) {
  const RunnerLock lock = RunnerLock::Acquire(layout_.RunnerLock(2));
  const std::string who =
      "is run by process " + std::to_string(getpid()) + " on ";

  const CliResult deleted = dtrain_.Run({"delete", "1", "2", "--yes"});
  const CliResult archived = dtrain_.Run({"archive", "2"});

  EXPECT_EQ(deleted.code, 5);
  EXPECT_THAT(deleted.err, HasSubstr(who));
  EXPECT_EQ(archived.code, 5);
  EXPECT_THAT(archived.err, HasSubstr(who));
  EXPECT_EQ(Listed(), 3);
  EXPECT_EQ(dtrain_.Run({"label", "2", "--add", "x"}).code, 0);
}

// What a user asks for is as open as the umask says, the record is not.
TEST_F(ManageTest, FilesHaveTheModesOfTheUmask) {
  struct Row {
    std::string mask;
    std::string modes;
  };
  // The copy, other files, a private directory, a program and its directory.
  const Row rows[] = {{"022", "600 644 644 644 644 644 700 755 755"},
                      {"027", "600 640 640 640 640 640 700 750 750"},
                      {"077", "600 600 600 600 600 600 700 700 700"}};
  for (const auto& [mask, modes] : rows) {
    const std::string at = "at" + mask;
    const CliResult result = dtrain_.RunProgram(
        {"bash", "-c",
         "set -e; umask " + mask + "; mkdir " + at + "; dtrain init " + at +
             "/new; dtrain backup " + at + "/copy.db; dtrain plot 1 --out " +
             at + "/plot.svg; dtrain wait 1 --junit " + at +
             "/report.xml; dtrain config 1 --export " + at + "/kept; find " +
             at + " -mindepth 1 -printf '%m\\n' | sort | xargs >&2"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, testing::EndsWith(modes + "\n")) << mask;
  }
}

TEST_F(ManageTest, AsksOnATerminal) {
  const auto answer = [&](const std::string& text) {
    return dtrain_.RunProgram(
        {"sh", "-c",
         "echo " + text + " | script -qec 'dtrain delete 1' /dev/null"},
        {.environment = {{"TERM", "dumb"}}});
  };
  for (const char* text : {"n", "''", "ja", "yy", "no"}) {
    const CliResult no = answer(text);
    EXPECT_EQ(no.code, 1) << text;
    EXPECT_THAT(no.out,
                HasSubstr("experiment 1 'alpha', COMPLETED, trials: 2"));
    EXPECT_THAT(no.out, HasSubstr("nothing was deleted"));
    EXPECT_EQ(Listed(), 3);
  }

  EXPECT_EQ(answer("y").code, 0);

  EXPECT_EQ(Listed(), 2);
}

TEST_F(ManageTest, ReportsWhatABackupOmits) {
  const std::string help = dtrain_.Run({"backup", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("checkpoints, logs, contexts"));
  const CliResult result = dtrain_.Run({"backup", "copy.db"});
  EXPECT_THAT(
      result.err,
      HasSubstr("checkpoints, logs and contexts are not included: also copy " +
                (dtrain_.store() / "experiments").string()));
}

TEST_F(ManageTest, BacksUpWithoutOverwriting) {
  const CliResult first = dtrain_.Run({"backup", "copy.db", "--json"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.Json()["file"], (dtrain_.directory() / "copy.db").string());
  const CliResult second = dtrain_.Run({"backup", "copy.db"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("copy.db: already exists"));
  EXPECT_EQ(dtrain_.Run({"backup", "none/copy.db"}).code, 1);

  const fs::path restored = dtrain_.directory() / "restored";
  fs::create_directories(restored);
  fs::rename(dtrain_.directory() / "copy.db", restored / "dtrain.db");
  EXPECT_EQ(dtrain_.Run({"--store", restored, "list", "--json"})
                .Json()["experiments"]
                .size(),
            3);
}

}  // namespace
}  // namespace dtrain
