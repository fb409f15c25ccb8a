// diff on a recorded store, and on experiments of a program with files.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(DiffTest, ShowsTheHparamsOfTrials) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const CliResult result = dtrain.Run({"diff", "1.1", "1.2", "--hparams"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::StartsWith("--- 1.1/hparams\n"
                                              "+++ 1.2/hparams\n@@ -1,"));
  EXPECT_THAT(result.out, HasSubstr("\n-lr: 0.5\n+lr: 0.25\n"));
}

TEST(DiffTest, NamesWhatIsEqual) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const CliResult result = dtrain.Run({"diff", "1", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("no difference in config, hparams, environment\n"));
  EXPECT_THAT(result.err, HasSubstr("note: files: 1 has no stored files"));
  EXPECT_THAT(result.err, HasSubstr("note: hyperparameters and log of 1 are "
                                    "those of its trial 1.2\n"));
  EXPECT_EQ(dtrain.Run({"diff", "1", "1", "--exit-code"}).code, 0);
  EXPECT_EQ(dtrain.Run({"diff", "1.1", "1.2", "--exit-code"}).code, 1);
}

TEST(DiffTest, SaysThatAnExperimentHasNoTrial) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const CliResult result = dtrain.Run({"diff", "2", "1", "--hparams"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("note: hparams: 2 has no best trial to compare\n"));
  EXPECT_THAT(result.out, HasSubstr("--- /dev/null\n+++ 1.2/hparams\n"));
}

TEST(DiffTest, RefusesWhatItCannotFind) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  EXPECT_EQ(dtrain.Run({"diff", "1", "9"}).code, 3);
  EXPECT_EQ(dtrain.Run({"diff", "1.1", "1.9"}).code, 3);
  EXPECT_EQ(dtrain.Run({"diff", "1"}).code, 2);
  EXPECT_EQ(dtrain.Run({"diff", "1", "x"}).code, 3);
  EXPECT_EQ(dtrain.Run({"diff", "1", "2", "3"}).code, 2);
}

// Two experiments of a program whose files changed in between.
class FilesDiffTest : public testing::Test {
 protected:
  FilesDiffTest() {
    Write("train.sh",
          "#!/bin/sh\n"
          "echo 'one line'\n"
          "echo '{\"type\":\"validation\",\"batches\":1,\"metrics\":{\"loss\":"
          "1}}' >&3\n");
    fs::permissions(dtrain_.directory() / "c/train.sh", fs::perms::owner_all);
    Write("same.txt", "same\n");
    Write("old.txt", "old\n");
    Write("tool", "x\n");
    Write("data.bin", std::string("a\0b", 3));
    Write("large.txt", std::string(5'000'000, 'a'));
    Write("config.yaml",
          "name: files\nentrypoint: ./train.sh\n"
          "hyperparameters: {lr: 1}\n"
          "searcher: {name: single, metric: loss}\n"
          "resources: {slots: cpu}\n");
    Create({});
    fs::remove(dtrain_.directory() / "c/old.txt");
    Write("new.txt", "new\n");
    Write("empty.txt", "");
    Write("data.bin", std::string("a\0c", 3));
    Write("large.txt", std::string(5'000'000, 'b'));
    fs::permissions(dtrain_.directory() / "c/tool", fs::perms::owner_all);
    std::ofstream(dtrain_.directory() / "c/train.sh", std::ios::app)
        << "echo 'another line'\n";
    Create({"--set", "hyperparameters.lr=2"});
  }

  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(dtrain_.directory() / "c");
    dtrain_.Write("c/" + name, text);
  }

  void Create(std::vector<std::string> options) const {
    options.insert(options.begin(), {"create", "c/config.yaml", "-q"});
    const CliResult result = dtrain_.Run(options);
    ASSERT_EQ(result.code, 0) << result.err;
  }

  const CliRunner dtrain_;
};

TEST_F(FilesDiffTest, ComparesFileByFile) {
  const CliResult result = dtrain_.Run({"diff", "1", "2", "--files"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("--- 1/files/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n"
                        "-old\n"));
  EXPECT_THAT(result.out,
              HasSubstr("--- /dev/null\n+++ 2/files/new.txt\n@@ -0,0 +1 @@\n"
                        "+new\n"));
  EXPECT_THAT(result.out,
              HasSubstr("1/files/data.bin and 2/files/data.bin: binary files "
                        "differ\n"));
  EXPECT_THAT(result.out,
              HasSubstr("5.0 MB are too large to compare by lines"));
  EXPECT_THAT(result.out,
              HasSubstr("1/files/tool and 2/files/tool: became executable\n"));
  EXPECT_THAT(result.out,
              HasSubstr("/dev/null and 2/files/empty.txt: only one exists, and "
                        "it is empty\n"));
  EXPECT_THAT(result.out, HasSubstr("\n+echo 'another line'\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("same.txt")));
}

TEST_F(FilesDiffTest, IsAPatchOfTheFiles) {
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c",
       "dtrain config 1 --export old && dtrain config 2 --export new && "
       "dtrain diff 1 2 --files | grep -v ' and ' | patch -s -d old -p2 && "
       "cmp old/train.sh new/train.sh && cmp old/new.txt new/new.txt && "
       "test ! -e old/old.txt"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(FilesDiffTest, ComparesTheEffectiveConfiguration) {
  // The YAML is the same; --set changed a value.
  const CliResult result = dtrain_.Run({"diff", "1", "2", "--config"});
  EXPECT_THAT(result.out, testing::StartsWith("--- 1/config.yaml\n"
                                              "+++ 2/config.yaml\n"));
  EXPECT_THAT(result.out, HasSubstr("\n-  lr: 1\n+  lr: 2\n"));
}

TEST_F(FilesDiffTest, ComparesLogsWithoutTimes) {
  EXPECT_THAT(dtrain_.Run({"diff", "1", "2", "--log"}).out,
              HasSubstr(" one line\n+another line\n"));
}

TEST_F(FilesDiffTest, CountsLinesInJson) {
  const json diff = dtrain_.Run({"diff", "1", "2", "--json"}).Json();
  EXPECT_EQ(diff["different"], true);
  EXPECT_EQ(diff["targets"][1], (json{{"id", "2"}, {"trial", "2.1"}}));
  for (const json& text : diff["sections"][2]["texts"]) {
    if (text["path"] != "files/new.txt") continue;
    EXPECT_EQ(text["exists"], (json{false, true}));
    EXPECT_EQ(text["added"], 1);
    EXPECT_EQ(text["removed"], 0);
  }
}

}  // namespace
}  // namespace dtrain
