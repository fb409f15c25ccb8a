// `files`, and `gc --files`: what a trial's program wrote in its working
// directory.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/file_tree.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    FillSampleStore(dtrain_.store());
    AddAccuracySearch(dtrain_.store());
    for (const std::int64_t trial : {1, 2, 3}) {
      Write(trial, "model.pt", std::string(1000, 'm'));
      Write(trial, "out/log.txt", "log");
      Write(trial, "__pycache__/a.pyc", "code");
    }
  }
  fs::path Tree(std::int64_t trial) const {
    return layout_.WorkingTree({4, trial});
  }
  void Write(std::int64_t trial, const std::string& name,
             const std::string& text) const {
    fs::create_directories((Tree(trial) / name).parent_path());
    std::ofstream(Tree(trial) / name) << text;
  }
  CliResult Run(const std::vector<std::string>& words) const {
    return dtrain_.Run(words);
  }
  std::vector<std::string> Names(std::vector<std::string> words) const {
    words.insert(words.begin(), {"files", "--json"});
    std::vector<std::string> names;
    const json document = Run(words).Json();
    for (const json& file : document["files"]) names.push_back(file["file"]);
    return names;
  }

  CliRunner dtrain_;
  const StoreLayout layout_{dtrain_.store()};
};

TEST_F(FilesTest, AreWhatTheProgramWrote) {
  fs::create_symlink("/etc", Tree(2) / "data");
  fs::create_symlink("model.pt", Tree(2) / "latest.pt");
  EXPECT_THAT(Names({"4.2"}), ElementsAre("model.pt", "out/log.txt"));
  const CliResult text = Run({"files", "4.2"});
  EXPECT_THAT(text.out, HasSubstr("model.pt"));
  EXPECT_THAT(text.err, HasSubstr("2 files, 1.0 kB; --out DIR copies them"));
  EXPECT_THAT(Run({"describe", "4.2"}).out,
              HasSubstr("model.pt and 1 more file, 1.0 kB: dtrain"));
  EXPECT_EQ(Run({"describe", "4.2", "--json"}).Json()["files"], 2);
}

TEST_F(FilesTest, AreChosenByNameOrDirectory) {
  EXPECT_THAT(Names({"4.1", "model.pt"}), ElementsAre("model.pt"));
  EXPECT_THAT(Names({"4.1", "out"}), ElementsAre("out/log.txt"));
  EXPECT_THAT(Names({"4.1", "./out/", "out/log.txt"}),
              ElementsAre("out/log.txt"));
  EXPECT_THAT(Names({"4.1", "."}), ElementsAre("model.pt", "out/log.txt"));
}

TEST_F(FilesTest, RefusesWhatItDoesNotHave) {
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string text;
  };
  fs::create_directories(dtrain_.directory() / "copies");
  dtrain_.Write("copies/model.pt", "mine");
  const std::vector<Case> cases = {
      {{"4.1", "modle.pt"},
       3,
       "wrote no file 'modle.pt'; did you mean 'model.pt'?"},
      {{"4.1", "../../log"}, 3, "wrote no file '../../log'"},
      {{"4.1", "/etc/passwd"}, 3, "wrote no file '/etc/passwd'"},
      {{"4"}, 2, "experiment 4 has 3 trials; give one such as 4.1"},
      {{"4.9"}, 3, "4.9"},
      {{"4.1", "--out", "copies"}, 2, "copies/model.pt' exists already"},
      {{"4.1", "--out", "copies/model.pt"}, 1, "cannot be made"},
      {{"4.1", "--force"}, 2, "--out"},
  };
  for (const Case& it : cases) {
    std::vector<std::string> words = {"files"};
    words.insert(words.end(), it.words.begin(), it.words.end());
    const CliResult result = Run(words);
    EXPECT_EQ(result.code, it.code) << it.text << result.err;
    EXPECT_THAT(result.err, HasSubstr(it.text));
  }
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "copies/out"));
}

TEST_F(FilesTest, AreCopiedUnderTheirNames) {
  const json copied =
      Run({"files", "4.3", "--out", "new/place", "--json"}).Json();
  EXPECT_EQ(copied["copied"], true);
  const fs::path place = dtrain_.directory() / "new/place";
  EXPECT_EQ(copied["files"][1]["path"], (place / "out/log.txt").string());
  EXPECT_EQ(fs::file_size(place / "model.pt"), 1000u);
  Write(3, "model.pt", "later");
  EXPECT_EQ(Run({"files", "4.3", "--out", "new/place"}).code, 2);
  EXPECT_EQ(fs::file_size(place / "model.pt"), 1000u);
  EXPECT_EQ(Run({"files", "4.3", "--out", "new/place", "--force"}).code, 0);
  EXPECT_EQ(fs::file_size(place / "model.pt"), 5u);
}

TEST_F(FilesTest, AreNamedWhereThereIsNoCheckpoint) {
  EXPECT_THAT(
      Run({"best", "4"}).err,
      HasSubstr("its program wrote model.pt and 1 more file, 1.0 kB: "));
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    writer.SetTrialBatches({4, 2}, 100);
  });
  EXPECT_THAT(Run({"best", "4"}).err,
              HasSubstr("; the trial went on to batch 100\n"));
  fs::remove_all(Tree(2));
  EXPECT_THAT(Run({"best", "4"}).err, Not(HasSubstr("its program wrote")));
}

TEST_F(FilesTest, GcLeavesThemUnlessToldAndAlwaysThoseOfTheBest) {
  const CliResult usual = Run({"gc"});
  EXPECT_THAT(usual.err, HasSubstr("programs wrote 2.0 kB in their working "
                                   "directories, which --files deletes"));
  EXPECT_TRUE(fs::exists(Tree(1) / "model.pt"));
  EXPECT_EQ(Run({"gc", "--dry-run", "--json"}).Json()["left_files"], 2014);
  const json dry = Run({"gc", "4", "--files", "--dry-run", "--json"}).Json();
  EXPECT_EQ(dry["removed"].size(), 2u) << dry;
  EXPECT_TRUE(fs::exists(Tree(1) / "model.pt"));
  const json removed = Run({"gc", "--files", "--json"}).Json();
  ASSERT_EQ(removed["removed"].size(), 2u) << removed;
  EXPECT_EQ(removed["removed"][0]["kind"], "files");
  EXPECT_EQ(removed["left_files"], 0);
  EXPECT_FALSE(fs::exists(Tree(1)));
  EXPECT_TRUE(fs::exists(Tree(2) / "model.pt"));  // 4.2 is the best
  EXPECT_FALSE(fs::exists(Tree(3)));
  ASSERT_EQ(Run({"delete", "4", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(layout_.Experiment(4)));
}

}  // namespace
}  // namespace dtrain
