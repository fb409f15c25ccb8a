#include "engine/context/stored_context.h"

#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/context/staged_files.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

class StoredContextTest : public testing::Test {
 protected:
  StoredContextTest() {
    const fs::path source = directory_.path() / "source";
    fs::create_directories(source / "sub");
    std::ofstream(source / "train.py") << "print()";
    std::ofstream(source / "sub/run") << "go";
    StagedFiles staged(layout_);
    const ContextManifest manifest = staged.AddContext(ListContext(source));
    staged.Place(1);
    staged.Keep();
    provenance_ = {{kContextHash, manifest.Hash()}};
  }
  std::optional<std::string> Problem(
      StrayFiles strays = StrayFiles::kAllowed) const {
    return ContextProblem(layout_, 1, provenance_, strays);
  }
  // Why its files are not executed, or empty.
  std::string Refusal() const {
    try {
      RequireOwnFiles(layout_, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kStore);
      return error.what();
    }
    return "";
  }
  void Replace(const std::string& name, const std::string& text) const {
    fs::remove(context_ / name);
    std::ofstream(context_ / name) << text;
  }

  TemporaryDirectory directory_;
  StoreLayout layout_{directory_.path() / "store"};
  const fs::path context_ = layout_.Context(1);
  nlohmann::json provenance_;
};

TEST_F(StoredContextTest, AcceptsUnchangedFiles) {
  EXPECT_EQ(Problem(StrayFiles::kRefused), std::nullopt);
  RequireStoredContext(layout_, 1, provenance_, StrayFiles::kRefused);
  EXPECT_EQ(
      ContextProblem(layout_, 2, {{"git", nullptr}}, StrayFiles::kRefused),
      std::nullopt);
}

TEST_F(StoredContextTest, NamesAFileThatChanged) {
  Replace("sub/run", "ga");
  EXPECT_THAT(
      Problem(),
      Optional(HasSubstr("context/sub/run: has changed since it was stored")));
  try {
    RequireStoredContext(layout_, 1, provenance_, StrayFiles::kAllowed);
    ADD_FAILURE() << "took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("sub/run"), HasSubstr("nothing was started"),
                      HasSubstr("dtrain config 1")));
  }
}

TEST_F(StoredContextTest, NamesAFileThatGrew) {
  Replace("train.py", "print()\n");
  EXPECT_THAT(Problem(), Optional(HasSubstr("train.py: has changed")));
}

TEST_F(StoredContextTest, NamesAFileThatIsGoneOrALink) {
  fs::rename(context_ / "train.py", directory_.path() / "other");
  EXPECT_THAT(Problem(), Optional(HasSubstr("train.py: is missing")));
  fs::create_symlink(directory_.path() / "other", context_ / "train.py");
  EXPECT_THAT(Problem(), Optional(HasSubstr("train.py: is a link")));
}

TEST_F(StoredContextTest, NamesAListThatChanged) {
  std::ofstream(layout_.ContextListFile(1), std::ios::app) << "x";
  EXPECT_THAT(Problem(), Optional(HasSubstr("context.list")));
  fs::remove(layout_.ContextListFile(1));
  EXPECT_THAT(Problem(), Optional(HasSubstr("context.list")));
}

TEST_F(StoredContextTest, AllowsExtraFilesOnlyIfTheyAreNotCompiled) {
  Replace("sub/more.h", "x");
  EXPECT_EQ(Problem(), std::nullopt);
  EXPECT_THAT(
      Problem(StrayFiles::kRefused),
      Optional(HasSubstr("sub/more.h: is not one of the stored files")));
}

TEST_F(StoredContextTest, NamesADirectoryThatOthersCanWrite) {
  EXPECT_EQ(Refusal(), "");
  for (const fs::path& path :
       {layout_.Experiments(), layout_.Experiment(1), context_}) {
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr(path.string() + ": others may"),
                                 HasSubstr("chmod go-w " + path.string())));
    fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
  }
  fs::permissions(context_ / "sub", fs::perms::group_write,
                  fs::perm_options::add);
  EXPECT_THAT(Problem(), Optional(HasSubstr("sub: others may write to it")));
}

TEST_F(StoredContextTest, BelongsToTheUserOrTheOwnerOfTheStore) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes what is of another";
  ASSERT_EQ(::chown(context_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Refusal(), HasSubstr(context_.string() +
                                   ": belongs to another user (uid 65534)"));
  ASSERT_EQ(::chown(layout_.root().c_str(), 65534, 65534), 0);
  EXPECT_EQ(Refusal(), "");
  ASSERT_EQ(::chown(layout_.Experiments().c_str(), 65533, 65533), 0);
  EXPECT_THAT(Refusal(), HasSubstr("(uid 65533)"));
}

TEST_F(StoredContextTest, RefusesFilesOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes what is of another";
  ASSERT_EQ(::chown((context_ / "train.py").c_str(), 65534, 65534), 0);
  EXPECT_THAT(Problem(),
              Optional(HasSubstr("train.py: belongs to another user")));
}

}  // namespace
}  // namespace dtrain
