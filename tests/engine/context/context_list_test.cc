#include "engine/context/context_list.h"

#include <fstream>

#include <sys/stat.h>
#include <sys/types.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ContextListTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories((root() / name).parent_path());
    std::ofstream(root() / name) << text;
  }
  std::vector<std::string> Paths(const ContextLimits& limits = {}) const {
    std::vector<std::string> paths;
    for (const ContextFile& file : ListContext(root(), {}, limits).files) {
      paths.push_back(file.path);
    }
    return paths;
  }
  // Error for a context that cannot be stored.
  std::string Refusal(const ContextLimits& limits = {}) const {
    try {
      ListContext(root(), {}, limits);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  }
  fs::path root() const { return directory_.path() / "context"; }

  TemporaryDirectory directory_;
};

TEST_F(ContextListTest, RefusesAMissingDirectory) {
  EXPECT_THAT(Refusal(), HasSubstr("cannot be read: No such file"));
}

TEST_F(ContextListTest, OmitsStoresOfAnyName) {
  Write("runs/dtrain.db", std::string(2000, 'x'));
  Write("runs/experiments/1/trials/1/log");
  Write("mine/dtrain.db");  // no store: no experiments beside it
  Write("train.py");
  EXPECT_THAT(Paths({.bytes = 1000}),
              ElementsAre("mine/dtrain.db", "train.py"));

  Write("dtrain.db");
  Write("dtrain.db-wal");
  Write("experiments/1/lock");
  EXPECT_THAT(Paths({.bytes = 1000}),
              ElementsAre("mine/dtrain.db", "train.py"));
}

TEST_F(ContextListTest, KnowsWellKnownSecretsByTheirNames) {
  const std::vector<std::string> secrets = {
      ".aws/credentials", ".env",        ".env.local",      ".git-credentials",
      ".netrc",           ".npmrc",      ".pypirc",         "a/id_rsa",
      "b/.env",           "id_ecdsa_sk", "id_ed25519_work", "kaggle.json",
      "server.key",       "tls.pem",     "x.p12",           "x.pfx"};
  std::ranges::for_each(secrets, [&](const auto& name) { Write(name); });
  Write(".env.example");
  Write("credentials");
  Write("environment.py");
  Write("id_map.csv");
  Write("id_rsa.pub");
  Write("keys.py");
  EXPECT_EQ(LikelySecrets(ListContext(root())), secrets);
}

// What tools and dtrain itself put beside a program. The same names with the
// user's own files in them are stored.
TEST_F(ContextListTest, OmitsWhatNoTrialNeeds) {
  const std::string page =
      "<!DOCTYPE html>\n<meta name=\"generator\" content=\"dtrain\">";
  std::string database = "SQLite format 3";
  database.resize(68);
  Write("env/pyvenv.cfg");
  Write("env/lib/a.py");
  Write("sub/conda/conda-meta/history");
  Write("web/node_modules/d3/d3.js");
  Write("wandb/run-1/log.txt");
  Write("mlruns/0/meta.yaml");
  Write("sub/lightning_logs/version_0/hparams.yaml");
  Write("tb/dtrain-export.json");
  Write("page.txt", page + std::string(16 << 10, ' '));
  Write("saved", database + "DTRN" + std::string(16 << 10, ' '));
  const std::vector<std::string> kinds = {
      "env/ (a Python environment)",
      "mlruns/ (records of other runs)",
      "page.txt (a report of dtrain)",
      "saved (a backup of a store)",
      "sub/conda/ (a conda environment)",
      "sub/lightning_logs/ (records of other runs)",
      "tb/ (an export of dtrain)",
      "wandb/ (records of other runs)",
      "web/node_modules/ (packages of Node)"};
  EXPECT_THAT(Paths(), IsEmpty());
  EXPECT_EQ(ListContext(root()).ignored, kinds);
  EXPECT_EQ(FindExclusion(root(), "env/lib/a.py"),
            kinds[0] + " is not stored by default");

  // Of other programs, and too small.
  Write("mlruns/plot.py");
  Write("notes.html", "<!DOCTYPE html>" + std::string(16 << 10, ' '));
  Write("other.db", database + "XXXX" + std::string(16 << 10, ' '));
  Write("page.html", page);
  Write(".detignore", "!wandb/\n!/env\n!saved\n");
  EXPECT_THAT(
      Paths(),
      ElementsAre(".detignore", "env/lib/a.py", "env/pyvenv.cfg",
                  "mlruns/0/meta.yaml", "mlruns/plot.py", "notes.html",
                  "other.db", "page.html", "saved", "wandb/run-1/log.txt"));
  EXPECT_FALSE(FindExclusion(root(), "env/lib/a.py"));
}

TEST_F(ContextListTest, DoesNotReportIgnoredSecrets) {
  Write(".env");
  Write("tls.pem");
  Write("train.py");
  Write(".gitignore", ".env\n");
  Write(".detignore", "*.pem\n");
  EXPECT_THAT(LikelySecrets(ListContext(root())), IsEmpty());
}

TEST_F(ContextListTest, NamesTheLargestFiles) {
  Write("data/a.bin", std::string(600, 'a'));
  Write("data/b.bin", std::string(500, 'b'));
  Write("train.py");
  EXPECT_THAT(Refusal({.bytes = 1000}),
              AllOf(HasSubstr("has more than 1.0 kB"),
                    HasSubstr("(the largest: data/ 1.1 kB, data/a.bin 600 B"),
                    HasSubstr("list files that no trial needs in "),
                    HasSubstr("context/.detignore")));
  EXPECT_THAT(Paths({.bytes = 1101}), testing::SizeIs(3));
}

TEST_F(ContextListTest, RefusesTooManyFilesAndEntries) {
  Write("a");
  Write("b");
  Write(".gitignore", "b\n");
  EXPECT_THAT(Refusal({.files = 1}), HasSubstr("has more than 1 files"));
  EXPECT_THAT(Refusal({.files = 2}), IsEmpty());
  EXPECT_THAT(Refusal({.entries = 2}), HasSubstr("ignored ones included"));
}

TEST_F(ContextListTest, RefusesUnreadableFiles) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  Write("closed/a");
  fs::permissions(root() / "closed", fs::perms::none);
  EXPECT_THAT(Refusal(), HasSubstr("'closed' cannot be read: Permission"));
  fs::permissions(root() / "closed", fs::perms::owner_all);
}

TEST_F(ContextListTest, ListsFilesByPath) {
  Write("b/c.py", "12345");
  Write("a.py");
  Write("b.py");
  fs::permissions(root() / "a.py", fs::perms::owner_all);
  const ContextList list = ListContext(root());
  EXPECT_THAT(Paths(), ElementsAre("a.py", "b.py", "b/c.py"));
  EXPECT_EQ(list.bytes, 7);
  EXPECT_TRUE(list.files[0].executable);
  EXPECT_FALSE(list.files[1].executable);
  EXPECT_THAT(list.left_out, IsEmpty());
}

TEST_F(ContextListTest, OmitsIgnoredFiles) {
  Write(".gitignore", "*.bin\nout/\n");
  Write(".detignore", "!keep.bin\n/local\n");
  Write("sub/.gitignore", "!own.bin\n");
  for (const char* name : {"a.bin", "keep.bin", "local", "out/x", "sub/own.bin",
                           "sub/local", "sub/.detignore"}) {
    Write(name);
  }
  EXPECT_THAT(Paths(), ElementsAre(".detignore", ".gitignore", "keep.bin",
                                   "sub/.detignore", "sub/.gitignore",
                                   "sub/local", "sub/own.bin"));
}

TEST_F(ContextListTest, OmitsFilesThatAreNeverNeeded) {
  Write(".git/config");
  Write(".dtrain/dtrain.db");
  Write("pkg/__pycache__/a.pyc");
  Write("pkg/a.py");
  Write("runs/dtrain.db");
  const ContextList list = ListContext(root(), {root() / "runs"});
  ASSERT_EQ(list.files.size(), 1);
  EXPECT_EQ(list.files[0].path, "pkg/a.py");
}

TEST_F(ContextListTest, FollowsLinksInside) {
  Write("real/a.py", "123");
  fs::create_symlink("real/a.py", root() / "b.py");
  fs::create_directory_symlink("real", root() / "linked");
  const ContextList list = ListContext(root());
  EXPECT_THAT(Paths(), ElementsAre("b.py", "linked/a.py", "real/a.py"));
  EXPECT_EQ(list.bytes, 9);
}

TEST_F(ContextListTest, OmitsLinksThatLeadOutside) {
  Write("a.py");
  std::ofstream(directory_.path() / "secret") << "x";
  fs::create_directories(directory_.path() / "context-too");
  fs::create_symlink("../secret", root() / "out");
  fs::create_directory_symlink("../context-too", root() / "beside");
  fs::create_symlink("nowhere", root() / "dangling");
  fs::create_directory_symlink(".", root() / "self");
  EXPECT_THAT(Paths(), ElementsAre("a.py"));
  EXPECT_THAT(ListContext(root()).left_out,
              ElementsAre("'beside' is a link that leads out of the directory",
                          "'dangling' is a broken link",
                          "'out' is a link that leads out of the directory",
                          "'self' is a link to a directory that contains it"));
  Write(".detignore", "/out\n/beside/\ndangling\nself\n");
  EXPECT_THAT(ListContext(root()).left_out, IsEmpty());
}

// A link is left out by its path: what else leads to its target is not lost.
TEST_F(ContextListTest, OmitsLinkedPathsOnly) {
  Write("src/a.py");
  Write("data/1.csv");
  Write("sets/raw/2.csv");
  fs::create_directories(directory_.path() / "beside");
  fs::create_directory_symlink("src", root() / "lib");
  fs::create_directory_symlink("data", root() / "more");
  fs::create_directory_symlink("../beside", root() / "out");
  fs::create_directory_symlink("../beside", root() / "out2");
  fs::create_symlink("data/1.csv", root() / "1.csv");
  ContextOrigin origin{.directory = fs::canonical(root())};
  for (const char* const path : {"lib", "data", "sets/raw", "out"}) {
    origin.Add(path, true);
  }
  const ContextList list = ListLinkedContext(root(), origin, {});
  std::vector<std::string> paths;
  for (const ContextFile& file : list.files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("1.csv", "src/a.py"));
  EXPECT_THAT(list.left_out,
              ElementsAre("'more' is a link to 'data', which trials have as a "
                          "link (--link more links this one, too)",
                          "'out2' is a link that leads out of the directory"));
  EXPECT_EQ(list.origin.links.size(), 4u);
}

// The caller may try again with more links.
TEST_F(ContextListTest, SaysThatItIsTooLarge) {
  Write("data/1.csv", std::string(2000, 'x'));
  Write("a.py");
  ContextOrigin origin{.directory = fs::canonical(root())};
  for (const ContextLimits& limits :
       {ContextLimits{.bytes = 1000}, ContextLimits{.files = 1},
        ContextLimits{.entries = 2}}) {
    EXPECT_THAT(ListLinkedContext(root(), origin, {}, limits).too_large,
                HasSubstr("has more than "));
  }
  origin.Add("data", false);
  EXPECT_THAT(ListLinkedContext(root(), origin, {}, {.bytes = 1000}).too_large,
              IsEmpty());
}

TEST_F(ContextListTest, TerminatesOnCircularLinks) {
  Write("a/1");
  Write("b/2");
  fs::create_directory_symlink("../b", root() / "a/b");
  fs::create_directory_symlink("../a", root() / "b/a");
  EXPECT_THAT(Paths(), ElementsAre("a/1", "a/b/2", "b/2", "b/a/1"));
}

TEST_F(ContextListTest, OmitsSpecialFiles) {
  Write("a.py");
  ASSERT_EQ(::mkfifo((root() / "pipe").c_str(), 0600), 0);
  const ContextList list = ListContext(root());
  EXPECT_EQ(list.files.size(), 1);
  EXPECT_THAT(list.left_out, ElementsAre("'pipe' is not a regular file"));
}

}  // namespace
}  // namespace dtrain
