#include <fstream>
#include <set>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/nodes/distributed_env.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class SecretFileTest : public testing::Test {
 protected:
  fs::path Write(const std::string& bytes, mode_t mode = 0600) const {
    const fs::path file = directory_.path() / "file";
    std::ofstream(file) << bytes;
    ::chmod(file.c_str(), mode);
    return file;
  }
  SecretFile Named(const fs::path& file) const {
    return SecretFile::Locate(layout_, [file](const char* name) {
      return std::string(name) == "DTRAIN_SECRET_FILE"
                 ? std::optional(file.string())
                 : std::nullopt;
    });
  }
  void ExpectRefused(const SecretFile& secret, const std::string& why) const {
    EXPECT_THAT(
        [&] { secret.Read(); },
        ThrowsMessage<Error>(AllOf(HasSubstr(secret.Name()), HasSubstr(why))));
    EXPECT_THROW(secret.ReadOrMake(), Error);
  }

  TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
  const SecretFile of_store_{layout_};
  const std::string good_ = std::string(32, 'x');
};

TEST_F(SecretFileTest, IsCreatedOnceAndPrivate) {
  EXPECT_EQ(of_store_.Read(), std::nullopt);
  EXPECT_FALSE(fs::exists(layout_.root()));

  const std::string made = of_store_.ReadOrMake();

  EXPECT_THAT(made, SizeIs(65));
  EXPECT_EQ(of_store_.ReadOrMake(), made);
  EXPECT_EQ(of_store_.Read(), made);
  EXPECT_EQ(fs::status(layout_.Secret()).permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(layout_.root()).permissions(), fs::perms(0700));
  // Nothing is left beside it.
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(layout_.root()),
                                    fs::directory_iterator()),
              SizeIs(1));
}

TEST_F(SecretFileTest, DiffersBetweenStores) {
  const SecretFile other(StoreLayout(directory_.path() / "other"));
  EXPECT_NE(of_store_.ReadOrMake(), other.ReadOrMake());
}

TEST_F(SecretFileTest, ConcurrentCreatorsGetTheSame) {
  std::vector<std::string> made(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& secret : made) {
      threads.emplace_back([&] { secret = of_store_.ReadOrMake(); });
    }
  }
  EXPECT_THAT(std::set<std::string>(made.begin(), made.end()), SizeIs(1));
}

TEST_F(SecretFileTest, VariableNamesAnotherFile) {
  const SecretFile named = Named(Write(good_, 0400));

  EXPECT_EQ(named.Read(), good_);
  EXPECT_EQ(named.ReadOrMake(), good_);
  EXPECT_FALSE(fs::exists(layout_.root()));
}

TEST_F(SecretFileTest, IgnoresAnEmptyVariable) {
  EXPECT_EQ(Named("").Name(), of_store_.Name());
}

TEST_F(SecretFileTest, NamedFileMustExist) {
  ExpectRefused(Named(directory_.path() / "none"), "No such file");
}

TEST_F(SecretFileTest, RefusesAFileThatOthersCanRead) {
  ExpectRefused(Named(Write(good_, 0640)), "others may read the secret");
  ExpectRefused(Named(Write(good_, 0604)), "others may read the secret");
}

TEST_F(SecretFileTest, RefusesAWrongSize) {
  ExpectRefused(Named(Write(std::string(31, 'x'))), "31 bytes");
  ExpectRefused(Named(Write("")), "0 bytes");
  ExpectRefused(Named(Write(std::string(4097, 'x'))), "more than 4096");
}

TEST_F(SecretFileTest, RefusesSpecialFiles) {
  ExpectRefused(Named(directory_.path()), "not a regular file");
  const fs::path pipe = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefused(Named(pipe), "not a regular file");
}

TEST_F(SecretFileTest, RefusesALinkInPlaceOfTheStore) {
  fs::create_directory(layout_.root());
  fs::create_symlink(Write(good_), layout_.Secret());
  ExpectRefused(of_store_, "is a symbolic link");
}

TEST_F(SecretFileTest, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const fs::path file = Write(good_);
  ASSERT_EQ(::chown(file.c_str(), 65534, 65534), 0);

  ExpectRefused(Named(file), "belongs to another user");
  ::setenv("SUDO_UID", "65534", 1);
  EXPECT_EQ(Named(file).Read(), good_);
  ::unsetenv("SUDO_UID");
}

TEST_F(SecretFileTest, NamesAStoreThatCannotBeCreated) {
  std::ofstream(directory_.path() / "store") << "a file";
  EXPECT_THAT([&] { of_store_.ReadOrMake(); },
              ThrowsMessage<Error>(HasSubstr(layout_.root().string())));
}

}  // namespace
}  // namespace dtrain
