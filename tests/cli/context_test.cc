// The files that are stored with an experiment.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/context/staged_files.h"
#include "engine/store/file_tree.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

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

TEST_F(ContextTest, WarnsOfWellKnownSecrets) {
  Write(".env", "PASSWORD=x");
  Write("keys/id_ed25519", "-");
  const std::string warning =
      "dtrain: warning: context in: '.env', 'keys/id_ed25519' look like "
      "secrets, and copies are stored with the experiment; name what its "
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

TEST_F(ContextTest, RefusesOneThatIsTooLarge) {
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

TEST_F(ContextTest, IsSaidInADryRun) {
  const CliResult result = dtrain_.Run({"create", "in/exp.yaml", "--dry-run"});
  EXPECT_THAT(result.out, HasSubstr(", and store 2 files, "));
  fs::remove(context() / "model_def.cpp");
  EXPECT_EQ(DryRun(), nullptr);
}

TEST_F(ContextTest, SaysWhatIsLeftOut) {
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
  EXPECT_EQ(document["context"],
            json({{"files", 2}, {"bytes", 1234}, {"hash", hash}}));
  EXPECT_EQ(dtrain_.Run({"describe", "1", "--json"}).Json()["context"],
            nullptr);
}

TEST_F(ContextTest, GoesWithItsExperiment) {
  AddExperiment();
  EXPECT_TRUE(fs::exists(layout_.Context(4) / "model_def.cpp"));
  EXPECT_EQ(dtrain_.Run({"gc", "--json"}).Json()["removed"], json::array());
  EXPECT_EQ(dtrain_.Run({"delete", "4", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(layout_.Experiment(4)));
}

TEST_F(ContextTest, IsCollectedWhereItsMakerDied) {
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

TEST_F(ContextTest, IsExportedAsAWholeOrNotAtAll) {
  AddExperiment();
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c",
       "strace -o /dev/null true || exit 77; exec strace -qq -o /dev/null "
       "-e trace=renameat2 -e inject=renameat2:signal=KILL:when=1 "
       "dtrain config 4 --export out"});
  if (result.code == 77) {
    GTEST_SKIP() << "strace is not there, or may not trace";
  }
  EXPECT_NE(result.code, 0);
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "out"));
}

TEST_F(ContextTest, IsRefusedOnceItIsDamaged) {
  AddExperiment();
  std::ofstream(layout_.Context(4) / "model_def.cpp") << "// other";
  const CliResult result = dtrain_.Run({"config", "4", "--export", "out"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("'model_def.cpp' is missing, or not as "
                                    "it was stored"));
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "out"));
}

}  // namespace
}  // namespace dtrain
