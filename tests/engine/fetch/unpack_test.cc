#include "engine/fetch/unpack.h"

#include "engine/base/error.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/archive_file.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = ArchiveEntry::Kind;

class UnpackTest : public testing::Test {
 protected:
  std::vector<FileSum> UnpackAll(const std::string& name = "set.tar.gz",
                                 std::int64_t max_bytes = 1000) const {
    auto files = Unpack({.archive = root_ / name,
                         .root = "set",
                         .to = root_ / "out",
                         .max_bytes = max_bytes});
    return files ? *std::move(files) : std::vector<FileSum>{};
  }
  void ExpectRefused(const ArchiveEntry& entry, const std::string& why) const {
    WriteArchive(root_ / "set.tar.gz", {{"set/good", "good"}, entry});
    EXPECT_THAT([&] { UnpackAll(); }, ThrowsMessage<Error>(HasSubstr(why)));
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
};

TEST_F(UnpackTest, RefusesPathsThatLeaveTheDirectory) {
  ExpectRefused({"set/../../evil", "x"}, "unsafe path 'set/../../evil'");
  EXPECT_FALSE(fs::exists(root_ / "evil"));
}

TEST_F(UnpackTest, RefusesPathsOutsideTheSetThatAreNotSafe) {
  ExpectRefused({"../evil", "x"}, "unsafe path '../evil'");
}

TEST_F(UnpackTest, RefusesAbsolutePaths) {
  ExpectRefused({(root_ / "evil").string(), "x"}, "unsafe path");
  EXPECT_FALSE(fs::exists(root_ / "evil"));
}

TEST_F(UnpackTest, RefusesControlCharacters) {
  ExpectRefused({"set/a\x1b[2Jb", "x"}, "unsafe path 'set/a\\x1b[2Jb'");
}

TEST_F(UnpackTest, RefusesSymbolicLinks) {
  ExpectRefused({"set/link", "/etc", Kind::kSymlink},
                "neither file nor directory");
}

TEST_F(UnpackTest, RefusesHardLinks) {
  ExpectRefused({"set/link", "set/good", Kind::kHardlink},
                "neither file nor directory");
}

TEST_F(UnpackTest, RefusesPipes) {
  ExpectRefused({"set/pipe", "", Kind::kFifo}, "neither file nor directory");
}

TEST_F(UnpackTest, RefusesADuplicateFile) {
  ExpectRefused({"set/good", "other"}, "holds 'good' twice");
}

TEST_F(UnpackTest, RefusesMoreBytesThanExpected) {
  WriteArchive(root_ / "set.tar.gz", {{"set/a", std::string(1001, 'x')}});
  EXPECT_THAT([&] { UnpackAll(); },
              ThrowsMessage<Error>(HasSubstr("holds more than the 1.0 kB")));
}

TEST_F(UnpackTest, RefusesDamage) {
  WriteArchive(root_ / "set.tar.gz", {{"set/a", SomeText(50'000)}});
  const std::string text = ReadText(root_ / "set.tar.gz");
  WriteText(root_ / "set.tar.gz", text.substr(0, text.size() / 2));
  EXPECT_THAT([&] { UnpackAll("set.tar.gz", 100'000); },
              ThrowsMessage<Error>(HasSubstr("damaged archive")));
}

TEST_F(UnpackTest, RefusesOtherFiles) {
  WriteText(root_ / "set.tar.gz", "<html>please log in</html>");
  EXPECT_THAT([&] { UnpackAll(); },
              ThrowsMessage<Error>(HasSubstr("damaged archive")));
}

TEST_F(UnpackTest, RefusesAnArchiveOfSomethingElse) {
  WriteArchive(root_ / "set.tar.gz", {{"other/a", "x"}});
  EXPECT_THAT([&] { UnpackAll(); },
              ThrowsMessage<Error>(HasSubstr("holds no directory 'set'")));
}

TEST_F(UnpackTest, UnpacksATarFile) {
  WriteArchive(root_ / "set.tar.gz", {{"set", "", Kind::kDirectory},
                                      {"./set/a/b.bin", "one"},
                                      {"set/empty", ""},
                                      {"__MACOSX/set/a", "junk"}});
  const auto files = UnpackAll();
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(files[0].name, "a/b.bin");
  EXPECT_EQ(files[0].bytes, 3);
  EXPECT_EQ(files[0].sha256, Sha256OfText("one"));
  EXPECT_EQ(ReadText(root_ / "out/a/b.bin"), "one");
  EXPECT_TRUE(fs::exists(root_ / "out/empty"));
  EXPECT_FALSE(fs::exists(root_ / "__MACOSX"));
  EXPECT_EQ(
      fs::status(root_ / "out/a/b.bin").permissions() & fs::perms::owner_exec,
      fs::perms::none);
}

TEST_F(UnpackTest, UnpacksAZipFile) {
  WriteArchive(root_ / "set.zip",
               {{"set/", "", Kind::kDirectory}, {"set/train/x.jpg", "jpeg"}});
  ASSERT_EQ(UnpackAll("set.zip").size(), 1);
  EXPECT_EQ(ReadText(root_ / "out/train/x.jpg"), "jpeg");
}

TEST_F(UnpackTest, StopsOnRequest) {
  WriteArchive(root_ / "set.tar.gz", {{"set/a", "x"}});
  EXPECT_EQ(Unpack({.archive = root_ / "set.tar.gz",
                    .root = "set",
                    .to = root_ / "out",
                    .max_bytes = 1000,
                    .stop = [] { return true; }}),
            std::nullopt);
}

}  // namespace
}  // namespace dtrain
