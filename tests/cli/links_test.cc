// Directories of data that are linked into the copies that trials work in.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/files.h"
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

struct LargeCopy {
  const char* name;
  std::vector<std::pair<const char*, int>> files;  // sparse, with megabytes
  const char* many;                // with 15,000 more files, beside 5,000 in c
  const char* ignore;              // proj/.gitignore
  std::vector<const char*> links;  // empty: refused
};

class LargeCopyTest : public LinksTest,
                      public testing::WithParamInterface<LargeCopy> {};

// The program names code, a, a/in and b. Of these, those are linked without
// which the copy has its size, and no others.
TEST_P(LargeCopyTest, LinksWhatMakesItTooLarge) {
  const LargeCopy& large = GetParam();
  AddData("proj/code");
  for (const auto& [file, megabytes] : large.files) {
    fs::create_directories((root() / "proj" / file).parent_path());
    dtrain_.Write("proj/" + std::string(file), "");
    fs::resize_file(root() / "proj" / file, megabytes * 1'000'000);
  }
  fs::create_directory(root() / "proj/c");
  for (int i = 0; *large.many != '\0' && i < 20'000; ++i) {
    std::ofstream(root() / "proj" / (i < 5000 ? "c" : large.many) /
                  std::to_string(i));
  }
  dtrain_.Write("proj/.gitignore", large.ignore);
  dtrain_.Write("proj/train.sh",
                "cat code/a.csv a/x a/in/x b/x\necho loss=1\n");
  const CliResult result = Train("x", {"--dry-run", "--json"});
  if (large.links.empty()) {
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("link directories of data: --link DIR"));
    return;
  }
  ASSERT_EQ(result.code, 0) << result.err;
  std::vector<std::string> links;
  const json plan = result.Json();
  for (const json& link : plan["context"]["links"]) {
    links.push_back(link["path"]);
  }
  EXPECT_THAT(links, testing::ElementsAreArray(large.links));
}

INSTANTIATE_TEST_SUITE_P(
    All, LargeCopyTest,
    testing::Values(
        LargeCopy{"OneLarge", {{"a/x", 96}, {"b/x", 1}}, "", "", {"a"}},
        LargeCopy{"TwoTogether", {{"a/x", 60}, {"b/x", 50}}, "", "", {"a"}},
        LargeCopy{"ThreeTogether",
                  {{"a/x", 96}, {"b/x", 96}, {"c/x", 1}},
                  "",
                  "",
                  {"a", "b"}},
        LargeCopy{"ManyInAnother", {{"a/x", 60}, {"b/x", 1}}, "b", "", {"b"}},
        LargeCopy{"LargeBelow", {{"a/in/x", 96}, {"b/x", 1}}, "", "", {"a"}},
        LargeCopy{"WiderThanWhatARuleNames",
                  {{"a/x", 96}, {"a/in/x", 1}},
                  "",
                  "in\n",
                  {"a"}},
        LargeCopy{"NotWiderThanNeeded",
                  {{"a/x", 1}, {"a/in/x", 1}, {"b/x", 96}},
                  "",
                  "in\n",
                  {"a/in", "b"}},
        LargeCopy{"WithAProgram", {{"a/x", 96}, {"a/load.py", 0}}, "", "", {}},
        LargeCopy{"NotNamed", {{"a/x", 1}, {"c/x", 96}}, "", "", {}}),
    [](const auto& param) { return param.param.name; });

// A link would hide the fault, and share what was to be copied.
TEST_F(LinksTest, AreNoRemedyForFilesThatCannotBeRead) {
  AddData("proj/data");
  dtrain_.Write("proj/train.sh", "cat data/a.csv\necho loss=1\n");
  dtrain_.Write("proj/data/.gitignore", std::string(1'100'000, '#'));
  const CliResult result = Train("x");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'data/.gitignore' cannot be read: "));
}

// Their targets stay in the copy, and other links to them are named.
TEST_F(LinksTest, MayBeLinksInside) {
  AddData("proj/src");
  AddData("shared");
  fs::create_directory_symlink("src", root() / "proj/lib");
  fs::create_directory_symlink("../shared", root() / "proj/one");
  fs::create_directory_symlink("../shared", root() / "proj/two");
  dtrain_.Write("proj/train.sh",
                "cat src/a.csv lib/a.csv one/a.csv\n"
                "echo loss=1\n");
  const CliResult result = Train("x", {"--link", "lib", "--link", "one"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("'two' is a link that leads out of"));
  EXPECT_THAT(dtrain_.Run({"logs", "1.1"}).out,
              AllOf(HasSubstr("rows of proj/src\n1.1 | rows of proj/src\n"),
                    HasSubstr("rows of shared")));
}

// The directory around the context is not linked, but what it holds is.
TEST_F(LinksTest, LeadThroughLinksAroundTheContext) {
  AddData("shared");
  fs::create_directory_symlink("..", root() / "proj/up");
  dtrain_.Write("proj/train.sh", "ls up; cat up/shared/a.csv\necho loss=1\n");
  ASSERT_EQ(Train("x").code, 0);
  ASSERT_EQ(Links(1).size(), 1u);
  EXPECT_EQ(Links(1)[0]["path"], "up/shared");
  EXPECT_THAT(dtrain_.Run({"logs", "1.1"}).out,
              AllOf(HasSubstr("1.1 | shared\n1.1 | rows of shared\n"),
                    Not(HasSubstr("proj"))));
}

TEST_F(LinksTest, OfMisspeltNamesAreWarnedOf) {
  AddData("proj/data");
  AddData("shared");
  for (const auto& [link, hint] :
       {std::pair("dta",
                  "'dta' does not exist, so it is made; did you mean "
                  "'data'?"),
        std::pair("Data/mnist", "did you mean 'data'?"),
        std::pair("../share", "did you mean 'shared'?"), std::pair("cache", ""),
        std::pair("data/mnist", ""), std::pair("train", "")}) {
    const CliResult result = Train("data", {"--link", link, "--dry-run"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr(hint)) << link;
    EXPECT_EQ(result.err.find("warning") == std::string::npos, *hint == '\0')
        << link;
  }
  const CliResult both =
      Train("data", {"--link", "data2", "--link", "data", "--dry-run"});
  EXPECT_THAT(both.err, Not(HasSubstr("warning")));
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

// Trials that fill an empty directory are why it is linked.
TEST_F(LinksTest, MayBeEmptyWhenTheyAreRecorded) {
  ASSERT_EQ(Train("data", {"--link", "data"}).code, 0);
  const CliResult same = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(same.err,
              AllOf(HasSubstr("note: 'data' is a link to "),
                    HasSubstr("which was empty when the experiment was "
                              "recorded; what it holds now"),
                    Not(HasSubstr("warning"))));
  fs::remove_all(root() / "proj/data");
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.1"}).err, HasSubstr("is missing"));
}

// As those of DVC and git-annex, which keep the files elsewhere.
TEST_F(LinksTest, MayHoldLinks) {
  AddData("shared");
  fs::create_directory(root() / "proj/data");
  fs::create_symlink("../../shared/a.csv", root() / "proj/data/a.csv");
  dtrain_.Write("proj/train.sh", "cat data/a.csv\necho loss=1\n");
  const CliResult first = Train("x", {"--link", "data"});
  EXPECT_THAT(first.err, HasSubstr("data (0 B, 1 link)\n"));
  EXPECT_EQ(Links(1)[0]["links"], 1);
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("0 files and 1 link, 0 B at create"));
  fs::create_symlink("../../shared/a.csv", root() / "proj/data/b.csv");
  EXPECT_THAT(dtrain_.Run({"reproduce", "1.1"}).err,
              HasSubstr("holds 0 files and 2 links, 0 B (then 0 files and 1 "
                        "link, 0 B)"));
}

TEST_F(LinksTest, AreRecordedAndUsedAgain) {
  AddData("proj/data");
  ASSERT_EQ(Train("data", {"--link", "data"}).code, 0);
  const CliResult same = dtrain_.Run({"reproduce", "1.1"});
  EXPECT_THAT(same.err, AllOf(HasSubstr("warning: "), HasSubstr("proj/data"),
                              HasSubstr("(then 1 file, 18 B)")));
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
  fs::create_directory_symlink("..", root() / "proj/up");
  const std::string store = (root() / "kept/store").string();
  ASSERT_EQ(Train("data", {"--store", store}).code, 0);
  fs::create_directory_symlink("../kept", root() / "proj/all");
  for (const auto& [link, why] :
       {std::pair("/srv", "is an absolute path"), std::pair("..", "own files"),
        std::pair("up", "own files"), std::pair("file", "is not a directory"),
        std::pair("train.sh/x", "cannot be made"),
        std::pair("~/data", "only a shell replaces '~' and '$'"),
        std::pair("../kept/store", "is a store of dtrain"),
        std::pair("../kept", "contains a store of dtrain"),
        std::pair("all", "contains a store of dtrain"),
        std::pair("../kept/store/experiments/1", "is part of a store")}) {
    const CliResult result = Train("data", {"--store", store, "--link", link});
    EXPECT_EQ(result.code, 2) << link;
    EXPECT_THAT(result.err, HasSubstr(why)) << link;
    EXPECT_EQ(result.err.find("dtrain: error: "),
              result.err.rfind("dtrain: error: "));
  }
  // Nor is one linked because a program names it.
  AddData("kept");
  const CliResult named = Train("../kept", {"--store", store});
  EXPECT_THAT(named.err,
              HasSubstr("warning: not linked: '../kept', which the program "
                        "names, contains a store of dtrain"));
  const json list = dtrain_.Run({"list", "--json", "--store", store}).Json();
  EXPECT_EQ(list["experiments"].size(), 2u);
  EXPECT_THAT(NamesIn(root() / "proj"), Not(testing::Contains("~")));
}

TEST_F(LinksTest, LeadToTheOriginalWhateverItsName) {
  const fs::path odd = root() / "p\xff";
  fs::rename(root() / "proj", odd);
  fs::create_directory_symlink(odd, root() / "proj");
  dtrain_.Write("proj/train.sh",
                "cat \"$DTRAIN_CONTEXT/a.csv\"\necho loss=1\n");
  dtrain_.Write("proj/a.csv", "rows\n");
  ASSERT_EQ(Train("x").code, 0);
  EXPECT_THAT(dtrain_.Run({"logs", "1.1"}).out, HasSubstr("1.1 | rows\n"));
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

// In a copy that lies deeper, and where the directory was copied before.
TEST_F(LinksTest, ReplaceWhatWasCopied) {
  AddData("proj/data");
  AddData("shared");
  dtrain_.Write("proj/train.sh",
                "cat data/a.csv ../shared/a.csv\necho model > model.pt\n"
                "echo loss=0.5\n"
                "printf '{\"type\":\"validation\",\"batches\":1,"
                "\"metrics\":{\"loss\":1}}\\n' >&3\n"
                "echo w > \"$DTRAIN_DIRECTORY/w\"\n"
                "printf '{\"type\":\"checkpoint\",\"batches\":1,"
                "\"path\":\"%s\"}\\n' \"$DTRAIN_DIRECTORY/w\" >&3\n");
  dtrain_.Write("proj/x.yaml",
                "entrypoint: sh train.sh\n"
                "searcher: {name: single, metric: loss, max_length: 1}\n"
                "resources: {slots: 'cpu:1'}\n");
  const CliResult first = dtrain_.Run({"create", "proj/x.yaml"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(Links(1).size(), 1u);  // data is copied
  EXPECT_EQ(dtrain_.Run({"files", "1.1", "model.pt", "--out", "got"}).code, 0);
  EXPECT_TRUE(fs::exists(root() / "got/model.pt"));

  std::ofstream(root() / "proj/data/a.csv") << "newer rows\n";
  const CliResult next =
      dtrain_.Run({"continue", "1", "--set", "context.links=[data]"});
  ASSERT_EQ(next.code, 0) << next.err;
  EXPECT_EQ(Links(2).size(), 2u);
  EXPECT_THAT(dtrain_.Run({"logs", "2.1"}).out,
              AllOf(HasSubstr("newer rows"), HasSubstr("rows of shared")));
  // A part of a directory that was linked.
  fs::create_directory(root() / "shared/train");
  const CliResult narrower = dtrain_.Run(
      {"continue", "1", "--set", "context.links=[../shared/train]"});
  ASSERT_EQ(narrower.code, 0) << narrower.err;
  ASSERT_EQ(Links(3).size(), 1u);
  EXPECT_EQ(Links(3)[0]["path"], "../shared/train");
  EXPECT_THAT(narrower.err, Not(HasSubstr("warning: context.links")));
  const CliResult misspelt =
      dtrain_.Run({"continue", "1", "--set", "context.links=[dat]"});
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean 'data'?"));
  // Of a directory that has not changed, no more is said than is known.
  EXPECT_THAT(dtrain_.Run({"reproduce", "2.1"}).err,
              HasSubstr("whose files have the number, size and newest time of "
                        "when the experiment was recorded"));
  // Experiments of earlier versions have no record of their links.
  fs::remove(dtrain_.store() / "experiments/1/context.links");
  ASSERT_EQ(
      dtrain_.Run({"continue", "1", "--set", "context.links=[../shared]"}).code,
      0);
  EXPECT_THAT(ReadFile(dtrain_.store() / "experiments/6/context.links"),
              testing::Optional(HasSubstr("\"below\": \"proj\"")));
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
