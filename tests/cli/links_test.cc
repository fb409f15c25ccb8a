// Directories of data that are linked into the copies that trials work in.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/file_tree.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A program that reads $1/a.csv if it is there, and adds a file to $1.
constexpr char kTrain[] = R"(mkdir -p "$1"
cat "$1/a.csv" 2>/dev/null
echo new > "$1/new-$DTRAIN_SEED"
echo "from $DTRAIN_CONTEXT"
echo "loss=0.5"
)";

class LinksTest : public testing::Test {
 protected:
  LinksTest() {
    fs::create_directory(dtrain_.directory() / "proj");
    dtrain_.Write("proj/train.sh", kTrain);
  }

  fs::path root() const { return fs::canonical(dtrain_.directory()); }
  // Makes a directory with one file.
  void AddData(const std::string& name) const {
    fs::create_directories(root() / name);
    std::ofstream(root() / name / "a.csv") << "rows of " << name << '\n';
  }
  // Runs the program with the path that it works with.
  CliResult Train(const std::string& path,
                  const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {
        "sh",      "-c",        "cd proj && exec dtrain \"$@\"",
        "sh",      "run",       "--metric",
        "loss",    "--pattern", "loss=loss=(\\S+)",
        "--slots", "cpu:1"};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : {std::string("--"), std::string("sh"),
                                    std::string("train.sh"), path}) {
      words.push_back(word);
    }
    return dtrain_.RunProgram(words);
  }
  json Links(int experiment) const {
    return dtrain_.Run({"describe", std::to_string(experiment), "--json"})
        .Json()["context"]["links"];
  }

  CliRunner dtrain_;
};

struct Place {
  const char* name;
  const char* data;    // directory that exists, below the one around proj
  const char* path;    // as the program names it
  const char* link;    // --link, or empty
  const char* ignore;  // proj/.gitignore
  bool linked;
};

class LinkPlaceTest : public LinksTest,
                      public testing::WithParamInterface<Place> {};

// Whatever way a program names a directory that its copy lacks, it reads and
// writes the original; a usual name for outputs is its own in each trial.
TEST_P(LinkPlaceTest, IsTheOriginal) {
  const Place& place = GetParam();
  if (*place.data != '\0') AddData(place.data);
  dtrain_.Write("proj/.gitignore", place.ignore);
  const CliResult result =
      Train(place.path, *place.link == '\0'
                            ? std::vector<std::string>()
                            : std::vector<std::string>{"--link", place.link});
  ASSERT_EQ(result.code, 0) << result.err;
  const fs::path original = (root() / "proj" / place.path).lexically_normal();
  const bool has_rows = fs::exists(original / "a.csv");
  EXPECT_EQ(fs::exists(original) ? NamesIn(original).size() : 0u,
            (has_rows ? 1u : 0u) + (place.linked ? 1u : 0u));
  const std::string log = dtrain_.Run({"logs", "1.1"}).out;
  EXPECT_THAT(log, HasSubstr("from " + (root() / "proj").string() + "\n"));
  const json links = Links(1);
  EXPECT_EQ(links.size(), place.linked ? 1u : 0u);
  if (!place.linked) return;
  EXPECT_THAT(result.err, HasSubstr("linked into "));
  EXPECT_EQ(links[0]["declared"], *place.link != '\0');
  if (has_rows) {
    EXPECT_THAT(log, HasSubstr("rows of " + std::string(place.data) + "\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LinkPlaceTest,
    testing::Values(
        Place{"ByARule", "proj/data", "data", "", "data/\n", true},
        Place{"ByARuleBelow", "proj/sets/raw", "./sets/raw/", "", "raw\n",
              true},
        Place{"Beside", "shared", "../shared", "", "", true},
        Place{"BesideAndBelow", "shared/mnist", "../shared/mnist", "", "",
              true},
        Place{"Declared", "proj/data", "data", "data", "", true},
        Place{"DeclaredAndMissing", "", "data/mnist", "data", "", true},
        Place{"DeclaredBeside", "", "../cache", "../cache", "", true},
        Place{"DeclaredOutputs", "proj/runs", "runs", "runs", "runs/\n", true},
        Place{"Outputs", "proj/runs", "runs", "", "runs/\n", false},
        Place{"OutputsBeside", "models", "../models", "", "", false},
        Place{"BelowARule", "proj/data", "data/new", "", "data/\n", true},
        Place{"BelowADirectoryBeside", "shared", "../shared/new", "", "", true},
        Place{"Missing", "", "data", "", "data/\n", false}),
    [](const auto& param) { return param.param.name; });

TEST_F(LinksTest, AreFoundInTheScriptAndThroughLinks) {
  AddData("proj/data");
  AddData("elsewhere");
  fs::create_directory_symlink(root() / "elsewhere", root() / "proj/sets");
  dtrain_.Write("proj/.gitignore", "data/\n");
  dtrain_.Write("proj/train.sh",
                "cat ./data/a.csv sets/a.csv\necho loss=0.5\n");
  const CliResult result = Train("x");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("linked into the copy of . that trials work in: data "
                        "(18 B), sets (18 B)\n"));
  EXPECT_THAT(
      dtrain_.Run({"logs", "1.1"}).out,
      AllOf(HasSubstr("rows of proj/data"), HasSubstr("rows of elsewhere")));
}

TEST_F(LinksTest, AreFoundInFilesOfSettings) {
  AddData("proj/data");
  AddData("proj/sets");
  dtrain_.Write("proj/.gitignore", "data/\nsets/\n");
  dtrain_.Write("proj/conf.yaml", "data_dir: ./data\n");
  dtrain_.Write("proj/conf.json", "{\"root\": \"sets/\"}");
  dtrain_.Write("proj/train.sh",
                "cat \"$(sed 's/.*: //' conf.yaml)/a.csv\" "
                "\"$(grep -o sets conf.json)/a.csv\"\n"
                "echo loss=0.5\n");
  const CliResult result = Train("--config=conf.yaml");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      dtrain_.Run({"logs", "1.1"}).out,
      AllOf(HasSubstr("rows of proj/data"), HasSubstr("rows of proj/sets")));
}

TEST_F(LinksTest, LinksWhatMakesTheCopyTooLarge) {
  AddData("proj/data");
  AddData("proj/code");
  dtrain_.Write("proj/data/large", "");
  fs::resize_file(root() / "proj/data/large", 96'000'000);
  dtrain_.Write("proj/train.sh", "cat data/a.csv code/a.csv\necho loss=1\n");
  const CliResult result = Train("x");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("that trials work in: data (96.0 MB)\n"));
  EXPECT_EQ(Links(1).size(), 1u);
  EXPECT_THAT(dtrain_.Run({"logs", "1.1"}).out, HasSubstr("rows of proj/code"));
  // One with a program in it is not data.
  dtrain_.Write("proj/data/load.py", "");
  const CliResult refused = Train("x");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("link directories of data: --link DIR"));
}

TEST_F(LinksTest, OutliveWhatRefersToThem) {
  AddData("proj/data");
  ASSERT_EQ(Train("data", {"--link", "data"}).code, 0);
  const std::size_t files = NamesIn(root() / "proj/data").size();
  EXPECT_THAT(dtrain_.Run({"files", "1.1", "--json"}).Json()["files"].size(),
              0u);
  EXPECT_EQ(dtrain_.Run({"gc", "--files"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_EQ(NamesIn(root() / "proj/data").size(), files);
}

TEST_F(LinksTest, AreRecordedAndUsedAgain) {
  AddData("proj/data");
  ASSERT_EQ(Train("data", {"--link", "data"}).code, 0);
  const CliResult same = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(same.err, AllOf(HasSubstr("warning: "), HasSubstr("proj/data"),
                              HasSubstr("it had 1 file of 18 B")));
  EXPECT_EQ(Links(2).size(), 1u);
  EXPECT_THAT(dtrain_.Run({"diff", "1", "2", "--files"}).out,
              HasSubstr("data -> " + (root() / "proj/data").string() +
                        ": 1 file, 18 B"));
  // One that disappears is named before a trial starts.
  const CliResult paused = Train("data", {"--link", "data", "--paused"});
  ASSERT_EQ(paused.code, 0) << paused.err;
  fs::remove_all(root() / "proj/data");
  const CliResult refused = dtrain_.Run({"resume", "3"});
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, HasSubstr("is not a directory, but 'data' of each "
                                     "trial is a link to it"));
  fs::create_directory(root() / "proj/data");
  EXPECT_EQ(dtrain_.Run({"resume", "3"}).code, 0);
  EXPECT_THAT(NamesIn(root() / "proj/data"), Not(IsEmpty()));
}

// The program itself may be in an environment that is not copied.
TEST_F(LinksTest, HoldTheProgramOfAnExperiment) {
  fs::create_directories(root() / "proj/.venv/bin");
  dtrain_.Write("proj/.venv/pyvenv.cfg", "home = /usr/bin\n");
  fs::create_symlink("/bin/sh", root() / "proj/.venv/bin/sh");
  dtrain_.Write("proj/x.yaml",
                "entrypoint: .venv/bin/sh train.sh out\n"
                "metrics: {loss: 'loss=(\\S+)'}\n"
                "searcher: {name: single, metric: loss}\n"
                "resources: {slots: 'cpu:1'}\n");
  const CliResult paused = dtrain_.Run({"create", "proj/x.yaml", "--paused"});
  ASSERT_EQ(paused.code, 0) << paused.err;
  EXPECT_THAT(paused.err, HasSubstr("that trials work in: .venv ("));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"resume", "1"}, {"reproduce", "1.1"}}) {
    const CliResult result = dtrain_.Run(words);
    EXPECT_EQ(result.code, 0) << words[0] << result.err;
  }
  fs::remove_all(root() / "proj/.venv");
  EXPECT_NE(dtrain_.Run({"reproduce", "1.1"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 2u);
}

TEST_F(LinksTest, AreNotRecordedIfRefused) {
  AddData("proj/data");
  dtrain_.Write("proj/file", "");
  for (const auto& [link, why] :
       {std::pair("/srv", "is an absolute path"), std::pair("..", "own files"),
        std::pair("file", "is not a directory"),
        std::pair("train.sh/x", "cannot be made"),
        std::pair("../store", "is a store of dtrain")}) {
    if (std::string(link) == "../store") Train("data");
    const CliResult result = Train("data", {"--link", link});
    EXPECT_EQ(result.code, 2) << link;
    EXPECT_THAT(result.err, HasSubstr(why)) << link;
    EXPECT_EQ(result.err.find("dtrain: error: "),
              result.err.rfind("dtrain: error: "));
  }
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 1u);
}

TEST_F(LinksTest, AreAdvisedWhereTrialsDownloadTheSame) {
  dtrain_.Write("proj/train.sh",
                "mkdir -p data/mnist runs\n"
                "head -c 2000000 /dev/zero > data/mnist/images\n"
                "cp data/mnist/images runs/copy\n"
                "head -c 2000000 /dev/urandom > data/noise\n"
                "echo loss=0.5\n");
  const CliResult result =
      Train("{n}", {"--hp", "n=[1,2,3]", "--searcher", "grid"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("note: 3 trials each wrote the same 2.0 MB "
                                    "to 'data': --link data keeps one copy"));
  const CliResult linked = Train(
      "{n}", {"--link", "data", "--hp", "n=[1,2,3]", "--searcher", "grid"});
  EXPECT_THAT(linked.err, Not(HasSubstr("wrote the same")));
}

TEST_F(LinksTest, AreForPrograms) {
  dtrain_.Write("m.yaml",
                "entrypoint: model_def:ImageNetTrial\n"
                "context: {links: [data]}\n"
                "hyperparameters: {dataset: fake, global_batch_size: 4}\n"
                "searcher: {name: single, metric: val_loss, max_length: 1}\n");
  const CliResult result = dtrain_.Run({"create", "m.yaml", "--dry-run"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("context.links: only programs work in a "
                                    "copy of the context"));
}

}  // namespace
}  // namespace dtrain
