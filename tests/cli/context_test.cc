// The files that are stored with an experiment.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/context/staged_files.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"
#include "tests/support/strace.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ContextTest : public testing::Test {
 protected:
  ContextTest() {
    Write("exp.yaml",
          "name: mine\n"
          "entrypoint: model_def:ImageNetTrial\n"
          "hyperparameters: {dataset: fake, global_batch_size: 4}\n"
          "searcher: {name: single, metric: val_loss, max_length: 10}\n");
    Write("model_def.cpp", "// 34567890");
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((context() / name).parent_path());
    std::ofstream(context() / name) << text;
  }
  // Adds experiment 4, which has the context.
  std::string AddExperiment() const {
    FillSampleStore(dtrain_.store());
    Store store = Store::OpenForWriting(layout_);
    StagedFiles staged(layout_);
    const std::string hash = staged.AddContext(ListContext(context())).Hash();
    store.Write([&](StoreWriter& writer) {
      const auto id =
          writer.AddExperiment({.name = "mine",
                                .searcher = "single",
                                .metric = "loss",
                                .yaml = "name: mine",
                                .config = store.Experiment(1)->config,
                                .provenance = {{"context_hash", hash},
                                               {"context_files", 2},
                                               {"context_bytes", 1234}}});
      staged.Place(id);
    });
    staged.Keep();
    return hash;
  }
  json DryRun() const {
    const CliResult result =
        dtrain_.Run({"create", "in/exp.yaml", "--dry-run", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json()["context"];
  }
  fs::path context() const { return dtrain_.directory() / "in"; }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(ContextTest, FilesOfAKilledCreateAreRemoved) {
  FillSampleStore(dtrain_.store());
  const auto id = Store::OpenForReading(layout_).LastExperimentId() + 1;
  const pid_t killed = ::fork();
  if (killed == 0) {
    StagedFiles staged(layout_);
    staged.AddContext(ListContext(context()));
    staged.Place(id);
    ::_exit(0);
  }
  ::waitpid(killed, nullptr, 0);
  ASSERT_TRUE(fs::exists(layout_.Context(id)));
  EXPECT_THAT(dtrain_.Run({"doctor"}).out,
              AllOf(HasSubstr("its experiment was never recorded"),
                    Not(HasSubstr("belongs to no experiment"))));
  const json dry = dtrain_.Run({"gc", "--dry-run", "--json"}).Json()["removed"];
  const json removed = dtrain_.Run({"gc", "--json"}).Json()["removed"];
  EXPECT_EQ(dry, removed);
  EXPECT_FALSE(fs::exists(layout_.Experiment(id)));
  EXPECT_TRUE(FindAbandonedFiles(layout_).empty());
}

TEST_F(ContextTest, WarnsOfWellKnownSecrets) {
  Write(".env", "PASSWORD=x");
  Write("keys/id_ed25519", "-");
  const std::string warning =
      "dtrain: warning: context in: '.env', 'keys/id_ed25519' look like "
      "secrets, and copies are stored with the experiment; list files that its "
      "trials do not need in in/.detignore or a .gitignore\n";
  EXPECT_THAT(dtrain_.Run({"create", "in/exp.yaml", "--dry-run"}).err,
              HasSubstr(warning));
  EXPECT_THAT(dtrain_.Run({"validate", "in/exp.yaml"}).err, HasSubstr(warning));

  Write(".gitignore", "keys\n");
  EXPECT_THAT(dtrain_.Run({"create", "in/exp.yaml", "--dry-run"}).err,
              HasSubstr("'.env' looks like a secret, and a copy is stored"));
  Write(".detignore", ".env\n");
  EXPECT_THAT(dtrain_.Run({"create", "in/exp.yaml", "--dry-run"}).err,
              Not(HasSubstr("secret")));
}

TEST_F(ContextTest, WarnsOfTenSecretsAtMost) {
  std::ranges::for_each(std::string("abcdefghijkl"), [&](char name) {
    Write(std::string(1, name) + ".pem", "-");
  });
  EXPECT_THAT(dtrain_.Run({"create", "in/exp.yaml", "--dry-run"}).err,
              HasSubstr("'j.pem' and 2 more look like secrets"));
}

// Files that exist here, but not in the copy that trials work in, in
// directories that are not linked because of their names.
TEST(LeftOutDataTest, NamesTheRule) {
  const CliRunner dtrain;
  const fs::path outside = dtrain.directory().parent_path() /
                           (dtrain.directory().filename().string() + "-data");
  for (const fs::path& directory :
       {outside / "logs", dtrain.directory() / "models",
        dtrain.directory() / "lightning_logs/v0",
        dtrain.directory() / "sub/runs", dtrain.directory() / "sets"}) {
    fs::create_directories(directory);
  }
  fs::create_directory_symlink(outside, dtrain.directory() / "results");
  std::ofstream(outside / "logs/a.csv") << "1";
  for (const std::string path : {"models/a.csv", "sub/runs/a.csv", "sets/a.csv",
                                 "results/a.csv", "lightning_logs/v0/a.csv"}) {
    dtrain.Write(path, "1");
  }
  dtrain.Write(".gitignore", "# models\nmodels/\n");
  dtrain.Write("sub/.gitignore", "runs\n");
  dtrain.Write(".detignore", "*.csv\n!kept.csv\n");
  dtrain.Write("train.sh",
               "echo \"FileNotFoundError: No such file or directory: '$1'\" "
               ">&2\nexit 1\n");
  const auto said = [&](const std::string& path, const std::string& word) {
    dtrain.Write("x.yaml",
                 "entrypoint: sh train.sh " + word +
                     "\nhyperparameters: {p: '" + path +
                     "'}\nsearcher: {name: single, metric: loss}\n"
                     "max_restarts: 0\nresources: {slots: \"cpu:1\"}\n");
    return dtrain.Run({"create", "x.yaml"}).err;
  };
  const std::string copy = ", but not in the copy that trials work in: ";
  const std::string above = "../" + outside.filename().string() + "/logs";
  struct Reason {
    std::string path;
    std::string reason;
  };
  const std::vector<Reason> reasons = {
      {"models/a.csv",
       ".gitignore:2 (models/) leaves it out; link it (--link models)"},
      {"sub/runs/a.csv",
       "sub/.gitignore:1 (runs) leaves it out; link it (--link sub/runs)"},
      {"sets/a.csv",
       ".detignore:1 (*.csv) leaves it out; name it by its absolute path"},
      {"./models/a.csv",
       ".gitignore:2 (models/) leaves it out; link it (--link models)"},
      {"results/a.csv",
       "'results' is a link that leads out of the directory; link it (--link "
       "results)"},
      {above + "/a.csv",
       "it is outside of that directory; link it (--link " + above + ")"},
      {"lightning_logs/v0/a.csv",
       "lightning_logs/ (records of other runs) is not stored by default; link "
       "it (--link lightning_logs)"}};
  for (const auto& [path, reason] : reasons) {
    const std::string told = "'" + path + "' exists in ";
    const std::string err = said(path, "{p}");
    EXPECT_THAT(err,
                AllOf(HasSubstr("warning: " + told), HasSubstr(copy + reason),
                      HasSubstr(".1 failed: " + told)))
        << path;
    EXPECT_THAT(said("none", path), HasSubstr("warning: " + told)) << path;
  }
  const std::string other = said("none.csv", "{p}");
  EXPECT_THAT(other, Not(HasSubstr("exists in")));
  EXPECT_THAT(other, HasSubstr("note: not in the copy of "));
  EXPECT_THAT(other,
              HasSubstr(" that trials work in: lightning_logs/ (records of "
                        "other runs), models/ by .gitignore:2 (models/), "
                        "sub/runs/ by sub/.gitignore:1 (runs)\n"));
  fs::remove_all(outside);
}

TEST_F(ContextTest, RefusesATooLargeContext) {
  Write("data/train.bin", "");
  fs::resize_file(context() / "data/train.bin", 96'000'000);
  const CliResult result = dtrain_.Run({"create", "in/exp.yaml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("in: has more than 95.0 MB"),
                                HasSubstr("data/train.bin 96.0 MB"),
                                HasSubstr("in/.detignore")));
  EXPECT_FALSE(fs::exists(dtrain_.store()));
  Write(".detignore", "data/\n");
  EXPECT_EQ(DryRun()["files"], 3);
}

TEST_F(ContextTest, IsListedByADryRun) {
  const CliResult result = dtrain_.Run({"create", "in/exp.yaml", "--dry-run"});
  EXPECT_THAT(result.out, HasSubstr("; would store 2 files, "));
  fs::remove(context() / "model_def.cpp");
  EXPECT_EQ(DryRun(), nullptr);
}

// The output changes while the files are copied.
TEST_F(ContextTest, LeavesOutWhatTheCommandIsWritingTo) {
  Write("out.json", "");
  Write("err.txt", "of an earlier run");
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c",
       "cd in && " DTRAIN_BINARY " create exp.yaml --dry-run --json >out.json "
       "2>>err.txt && cat out.json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["context"]["files"], 2) << result.out;
}

TEST_F(ContextTest, ListsSkippedFiles) {
  fs::create_symlink("/etc/passwd", context() / "link");
  const CliResult result = dtrain_.Run({"create", "in/exp.yaml", "--dry-run"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("warning: context in: 'link' is a link "
                                    "that leads out of the directory"));
}

TEST_F(ContextTest, HasNeitherTheStoreNorSecrets) {
  const json before = DryRun();
  Write("runs/dtrain.db", "");
  EXPECT_EQ(dtrain_
                .Run({"--store", "in/runs", "create", "in/exp.yaml",
                      "--dry-run", "--json"})
                .Json()["context"],
            before);
  Write("exp.yaml",
        "name: mine\n"
        "entrypoint: model_def:ImageNetTrial\n"
        "hyperparameters: {dataset: fake, global_batch_size: 4}\n"
        "environment: {environment_variables: [TOKEN=secret]}\n"
        "searcher: {name: single, metric: val_loss, max_length: 10}\n");
  fs::remove_all(context() / "runs");
  EXPECT_EQ(DryRun()["files"], 1);
}

TEST_F(ContextTest, IsPartOfTheDescription) {
  const std::string hash = AddExperiment();
  const CliResult text = dtrain_.Run({"describe", "4"});
  EXPECT_THAT(text.out, HasSubstr("  stored        2 files, 1.2 kB, " + hash));
  EXPECT_THAT(text.out, Not(HasSubstr("context_hash")));
  const json document = dtrain_.Run({"describe", "4", "--json"}).Json();
  EXPECT_EQ(document["context"], json({{"files", 2},
                                       {"bytes", 1234},
                                       {"hash", hash},
                                       {"links", json::array()}}));
  EXPECT_EQ(dtrain_.Run({"describe", "1", "--json"}).Json()["context"],
            nullptr);
}

TEST_F(ContextTest, IsDeletedWithItsExperiment) {
  AddExperiment();
  EXPECT_TRUE(fs::exists(layout_.Context(4) / "model_def.cpp"));
  EXPECT_EQ(dtrain_.Run({"gc", "--json"}).Json()["removed"], json::array());
  EXPECT_EQ(dtrain_.Run({"delete", "4", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(layout_.Experiment(4)));
}

TEST_F(ContextTest, IsCollectedIfItsCreatorDied) {
  AddExperiment();
  const fs::path left = layout_.Experiments() / "new-left/files";
  fs::create_directories(left);
  EXPECT_THAT(dtrain_.Run({"doctor"}).out,
              HasSubstr("its experiment was never recorded"));
  EXPECT_THAT(dtrain_.Run({"gc"}).out,
              HasSubstr("its experiment was never recorded"));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(ContextTest, IsExportedIntoANewDirectory) {
  AddExperiment();
  EXPECT_EQ(dtrain_.Run({"config", "4", "--export", "in"}).code, 2);
  ASSERT_EQ(dtrain_.Run({"config", "4", "--export", "out"}).code, 0);
  EXPECT_THAT(
      NamesIn(dtrain_.directory() / "out"),
      testing::ElementsAre("exp.yaml", "experiment-4.yaml", "model_def.cpp"));
  EXPECT_EQ(dtrain_.Run({"config", "4", "--export", "out"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"config", "4", "--export", "other/"}).code, 0);
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "other/exp.yaml"));
}

TEST_F(ContextTest, IsExportedAtomically) {
  AddExperiment();
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c",
       std::string(kUnderStrace) +
           "exec strace -qq -o /dev/null "
           "-e trace=renameat2 -e inject=renameat2:signal=KILL:when=1 "
           "dtrain config 4 --export out"});
  if (result.code == 77) {
    GTEST_SKIP() << "strace is not there, or may not trace";
  }
  EXPECT_NE(result.code, 0);
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "out"));
}

TEST_F(ContextTest, IsRefusedIfDamaged) {
  AddExperiment();
  fs::remove(layout_.Context(4) / "model_def.cpp");
  std::ofstream(layout_.Context(4) / "model_def.cpp") << "// other";
  const CliResult result = dtrain_.Run({"config", "4", "--export", "out"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("'model_def.cpp' is missing or has changed "
                                    "since it was stored"));
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "out"));
}

// Commands, each trial in its own copy of the files.
class OwnTreeTest : public ContextTest {
 protected:
  OwnTreeTest() {
    Write("value", "3\n");
    Write("run.sh",
          "#!/bin/sh\n"
          "n=$(cat count 2>/dev/null || echo 0); n=$((n + 1)); echo $n >count\n"
          "value=$(cat value); echo 4 >value\n"
          "echo \"start $n, value $value, in $PWD\"\n"
          "if [ \"$DTRAIN_HPARAM_waits\" = true ] && [ $n = 1 ]; then\n"
          "  echo waiting; read -r order <&4; exit 0\n"
          "fi\n"
          "printf '{\"type\":\"validation\",\"batches\":1,\"metrics\":"
          "{\"loss\":%s}}\\n' \"$value\" >&3\n");
    fs::permissions(context() / "run.sh", fs::perms::owner_all);
    fs::remove(context() / "model_def.cpp");
  }
  CliResult Create(const std::vector<std::string>& more = {},
                   const CliCall& call = {}) const {
    Write("exp.yaml",
          "name: mine\nentrypoint: ./run.sh\n"
          "hyperparameters: {waits: false, x: {type: categorical, "
          "vals: [1, 2]}}\n"
          "searcher: {name: grid, metric: loss, max_length: 1}\n"
          "resources: {slots: cpu}\nmax_restarts: 0\n");
    std::vector<std::string> arguments = {"create", "in/exp.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return dtrain_.Run(arguments, call);
  }
  // Leaves experiment 1 PAUSED, its trial in the middle.
  void CreatePaused() const {
    const CliResult result = Create({"--set", "hyperparameters={waits: true}",
                                     "--set", "searcher.name=single"},
                                    {.signal_when = "waiting"});
    ASSERT_EQ(result.code, 130) << result.err;
  }
  void Tamper() const {
    fs::remove(layout_.Context(1) / "value");
    std::ofstream(layout_.Context(1) / "value") << "5\n";
  }
  std::string Logs() const { return dtrain_.Run({"logs", "1"}).out; }
};

TEST_F(OwnTreeTest, TrialsDoNotSeeFilesThatOthersRewrote) {
  const CliResult result = Create();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Logs(), AllOf(HasSubstr("1.1 | start 1, value 3, in "),
                            HasSubstr("1.2 | start 1, value 3, in "),
                            HasSubstr("experiments/1/trials/2/work\n")));
  EXPECT_EQ(dtrain_.Run({"doctor"}).out.find("has changed since it was stored"),
            std::string::npos);
  // Written files stay, unchanged ones are removed.
  EXPECT_THAT(NamesIn(layout_.WorkingTree({1, 1})),
              testing::ElementsAre("count", "value"));
  EXPECT_EQ(fs::status(layout_.Context(1) / "value").permissions(),
            fs::perms::owner_read);
}

TEST_F(OwnTreeTest, ReproducesATrialThatRewroteItsFiles) {
  ASSERT_EQ(Create().code, 0);
  const CliResult result = dtrain_.Run({"reproduce", "1.2"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(OwnTreeTest, SurvivesAPause) {
  CreatePaused();
  EXPECT_TRUE(fs::exists(layout_.WorkingTree({1, 1}) / "run.sh"));
  const CliResult resumed = dtrain_.Run({"resume", "1"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(Logs(), HasSubstr("start 2, value 4, in "));
}

TEST_F(OwnTreeTest, IsMadeFromTheStoredFilesAfterAnUpgrade) {
  CreatePaused();
  // It worked among them, and they could be written to.
  fs::remove_all(layout_.WorkingTree({1, 1}));
  fs::permissions(layout_.Context(1) / "value", fs::perms::owner_write,
                  fs::perm_options::add);
  std::ofstream(layout_.Context(1) / "count") << "1\n";
  ASSERT_EQ(dtrain_.Run({"doctor", "--json"}).out.find("count"),
            std::string::npos);
  const CliResult resumed =
      dtrain_.Run({"resume", "1"}, {.signal_when = "waiting"});
  EXPECT_EQ(resumed.code, 130) << resumed.err;
  EXPECT_THAT(Logs(), HasSubstr("start 1, value 3, in "));
  EXPECT_TRUE(fs::exists(layout_.WorkingTree({1, 1}) / "run.sh"));
}

TEST_F(OwnTreeTest, IsNotMadeFromChangedFiles) {
  CreatePaused();
  Tamper();
  const CliResult resumed = dtrain_.Run({"resume", "1"});
  EXPECT_EQ(resumed.code, 5);
  EXPECT_THAT(
      resumed.err,
      AllOf(HasSubstr("experiments/1/context/value: has changed since it "
                      "was stored; restore it"),
            HasSubstr("nothing was started"), HasSubstr("from a backup")));
  const CliResult doctor = dtrain_.Run({"doctor"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.out, HasSubstr("contexts     " +
                                    (layout_.Context(1) / "value").string() +
                                    ": has changed since it was stored"));
}

TEST_F(OwnTreeTest, IsNotMadeAgainFromChangedFiles) {
  ASSERT_EQ(Create().code, 0);
  Tamper();
  const CliResult result = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err,
              HasSubstr("context/value: has changed since it was stored"));
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 1u);
}

TEST_F(OwnTreeTest, IsCollectedAfterItsExperimentEnds) {
  CreatePaused();
  fs::create_directories(layout_.Trial({1, 1}) / "work.new/half");
  const CliResult paused = dtrain_.Run({"gc", "--json"});
  EXPECT_EQ(paused.Json()["removed"].size(), 1u) << paused.out;
  EXPECT_TRUE(fs::exists(layout_.WorkingTree({1, 1})));
  ASSERT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
  EXPECT_FALSE(fs::exists(layout_.WorkingTree({1, 1}) / "run.sh"));
  EXPECT_EQ(dtrain_.Run({"gc", "--json"}).Json()["removed"], json::array());
  const json ended = dtrain_.Run({"gc", "--files", "--json"}).Json();
  ASSERT_EQ(ended["removed"].size(), 1u);
  EXPECT_EQ(ended["removed"][0]["kind"], "files");
  EXPECT_EQ(ended["bytes"], 4);  // "1\n" and "4\n"
  EXPECT_FALSE(fs::exists(layout_.WorkingTree({1, 1})));
}

TEST_F(OwnTreeTest, ReportsTheSizeOfManyTrees) {
  EXPECT_THAT(Create().err, Not(HasSubstr("copies the context")));
  Write("large", "");
  fs::resize_file(context() / "large", 11'000'000);
  const CliResult result = Create({"--slots", "cpu:1"});
  EXPECT_EQ(result.code, 0);
  if (result.err.find("copies the context") == std::string::npos) {
    GTEST_SKIP() << "the file system shares blocks";
  }
  EXPECT_THAT(result.err,
              HasSubstr("each trial copies the context, 11.0 MB, until it "
                        "ends: 11.0 MB for 1 trial at once, up to 22.0 MB"));
}

TEST_F(OwnTreeTest, IsNotMadeInADirectoryThatOthersCanWrite) {
  CreatePaused();
  fs::permissions(layout_.Experiments(), fs::perms::others_write,
                  fs::perm_options::add);
  const CliResult resumed = dtrain_.Run({"resume", "1"});
  EXPECT_EQ(resumed.code, 5);
  EXPECT_THAT(resumed.err,
              AllOf(HasSubstr("experiments: others may write to it"),
                    HasSubstr("chmod go-w ")));
  const CliResult created = Create();
  EXPECT_EQ(created.code, 5);
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 1u);
  // It is read all the same.
  EXPECT_THAT(Logs(), HasSubstr("waiting"));
}

TEST_F(OwnTreeTest, IsNotMadeFromFilesOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes what is of another";
  CreatePaused();
  ASSERT_EQ(::chown(layout_.Experiment(1).c_str(), 65534, 65534), 0);
  const CliResult resumed = dtrain_.Run({"resume", "1"});
  EXPECT_EQ(resumed.code, 5);
  EXPECT_THAT(resumed.err, HasSubstr("experiments/1: belongs to another user "
                                     "(uid 65534)"));
  // Whoever names a store trusts its owner.
  ASSERT_EQ(::chown(dtrain_.store().c_str(), 65534, 65534), 0);
  EXPECT_EQ(dtrain_.Run({"resume", "1"}).code, 0);
}

}  // namespace
}  // namespace dtrain
