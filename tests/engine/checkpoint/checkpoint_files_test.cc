// CheckpointWriter and CheckpointFiles together.

#include "engine/checkpoint/checkpoint_files.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "tests/support/sync_count.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class CheckpointFilesTest : public testing::Test {
 protected:
  std::string Path() const { return parent_ + "/one"; }

  WrittenCheckpoint Write() {
    CheckpointWriter writer(Path());
    writer.Write("a.bin", "0123456789");
    writer.Write("b.json", "{}");
    return writer.Commit();
  }

  // Returns the error of reading it, or "valid".
  std::string Fault() {
    try {
      (void)CheckpointFiles::Read(Path());
      return "valid";
    } catch (const Error& error) {
      return error.what();
    }
  }

  TemporaryDirectory directory_;
  const std::string parent_ = directory_.path() / "checkpoints";
};

TEST_F(CheckpointFilesTest, RoundTrips) {
  const WrittenCheckpoint written = Write();
  const CheckpointFiles files = CheckpointFiles::Read(Path());
  EXPECT_EQ(files["a.bin"].size(), 10u);
  EXPECT_TRUE(files.Has("b.json"));
  EXPECT_FALSE(files.Has("c"));
  EXPECT_EQ(written.files.size(), 3u);
  EXPECT_EQ(written.files.at("a.bin"),
            "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
}

TEST_F(CheckpointFilesTest, CountsTheBytesOfAllFiles) {
  const WrittenCheckpoint written = Write();
  const auto manifest = fs::file_size(Path() + "/MANIFEST.json");
  EXPECT_EQ(written.bytes, 12 + static_cast<std::int64_t>(manifest));
}

TEST_F(CheckpointFilesTest, SummaryMatchesTheContent) {
  CheckpointWriter writer(Path());
  writer.Write("a.bin", "0123456789");
  writer.Write(kStateName, R"({"batches":30,"epoch":1.5})");
  const WrittenCheckpoint written = writer.Commit();
  const CheckpointSummary summary = SummarizeCheckpoint(Path());
  EXPECT_EQ(summary.batches, 30);
  EXPECT_EQ(summary.epoch, 1.5);
  EXPECT_EQ(summary.bytes, written.bytes);
  EXPECT_EQ(summary.files, written.files);
}

// Every file, their directory and its name are synced.
TEST_F(CheckpointFilesTest, WaitsForTheDisk) {
  const int before = SyncCount();
  (void)Write();
  constexpr int kOfThree = 3 + 1 + 1;  // a.bin, b.json and the manifest
  constexpr int kAbove = 2;            // the directory of all is new, too
  EXPECT_EQ(SyncCount() - before, kOfThree + kAbove);

  CheckpointWriter writer(parent_ + "/two");
  writer.Write("a", "0");
  const int after_a = SyncCount();
  EXPECT_EQ(after_a - before, kOfThree + kAbove + 1);
  writer.Write("sub/b", "1");
  (void)writer.Commit();
  constexpr int kOfSub = 2;  // it and what is in it
  EXPECT_EQ(SyncCount() - after_a, kOfSub + 1 + 1 + 1);
}

// Other processes write to the disk of this test, so the bounds are wide.
TEST_F(CheckpointFilesTest, NeedsAsMuchSpaceAgainAsAMargin) {
  fs::create_directories(parent_);
  struct statvfs system {};
  ASSERT_EQ(::statvfs(parent_.c_str(), &system), 0);
  const auto free = static_cast<std::int64_t>(system.f_bavail) *
                    static_cast<std::int64_t>(system.f_frsize);
  const CheckpointWriter writer(Path());
  EXPECT_NO_THROW(writer.RequireSpace(free / 4));
  try {
    writer.RequireSpace(free / 4 * 3);
    ADD_FAILURE() << "no margin is left";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDiskFull);
  }
}

TEST_F(CheckpointFilesTest, IsForItsOwnerOnly) {
  (void)Write();
  struct stat status {};
  ASSERT_EQ(::stat((Path() + "/a.bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(Path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CheckpointFilesTest, LeavesNothingIfNotCommitted) {
  {
    CheckpointWriter writer(Path());
    writer.Write("a.bin", "0123456789");
    EXPECT_FALSE(fs::exists(Path()));
  }
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(CheckpointFilesTest, NeverReplacesAnother) {
  (void)Write();
  CheckpointWriter writer(Path());
  writer.Write("other", "x");
  EXPECT_THROW((void)writer.Commit(), Error);
  EXPECT_EQ(Fault(), "valid");
}

TEST_F(CheckpointFilesTest, DoesNotFollowAPlantedLink) {
  fs::create_directories(parent_);
  fs::create_symlink("/", Path() + ".tmp");
  EXPECT_THROW(CheckpointWriter{Path()}, Error);
}

TEST_F(CheckpointFilesTest, ReportsWhyItCannotWrite) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 5, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string fault;
  try {
    CheckpointWriter writer(Path());
    writer.Write("a.bin", "0123456789");
  } catch (const Error& error) {
    fault = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(fault, HasSubstr("one/a.bin: cannot be written: File too large"));
  EXPECT_TRUE(fs::is_empty(parent_));
}

TEST_F(CheckpointFilesTest, CopiesWhatIsReadIntoDirectories) {
  const fs::path source = directory_.path() / "source";
  WriteText(source, std::string(3'000'000, 'x'));
  const UniqueFd file(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  CheckpointWriter writer(Path());
  writer.Copy("files/deep/a", file.get(), source);
  writer.Write("files/b", "b");
  writer.Write(kStateName, R"({"batches":3})");
  const WrittenCheckpoint written = writer.Commit();

  const CheckpointFiles files = CheckpointFiles::Read(Path());
  EXPECT_EQ(files["files/deep/a"].size(), 3'000'000u);
  EXPECT_EQ(CheckCheckpoint(Path()).at("batches"), 3);
  EXPECT_EQ(written.files.size(), 4u);
}

TEST_F(CheckpointFilesTest, CheckFindsTheSameDamageAsReading) {
  CheckpointWriter writer(Path());
  writer.Write("files/a", "0123");
  writer.Write(kStateName, "{}");
  (void)writer.Commit();
  const auto fault = [&]() -> std::string {
    try {
      (void)CheckCheckpoint(Path());
      return "valid";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(fault(), "valid");
  WriteText(Path() + "/files/a", "0124");
  EXPECT_THAT(fault(), HasSubstr("'files/a' does not match its checksum"));
  WriteText(Path() + "/files/a", "012");
  EXPECT_THAT(fault(), HasSubstr("'files/a' has 3 bytes, not 4"));
  fs::remove_all(Path() + "/files");
  EXPECT_THAT(fault(), HasSubstr("'files/a' cannot be read"));
}

TEST_F(CheckpointFilesTest, AManifestNamesNothingOutside) {
  Write();
  for (const std::string name : {"../one/a.bin", "/etc/hostname", "./a.bin",
                                 "x/../a.bin", "a.bin/", ""}) {
    const nlohmann::json entry = {{"sha256", "0"}, {"bytes", 10}};
    WriteText(Path() + "/" + kManifestName, ManifestText({{name, entry}}));
    EXPECT_THAT(Fault(), HasSubstr("is not valid")) << name;
  }
}

TEST_F(CheckpointFilesTest, MissingCheckpointIsReported) {
  EXPECT_THAT(Fault(), HasSubstr("No such file"));
}

TEST_F(CheckpointFilesTest, CutFileIsFound) {
  (void)Write();
  WriteText(Path() + "/a.bin", "012345678");
  EXPECT_THAT(Fault(), HasSubstr("'a.bin' has 9 bytes, not 10"));
}

TEST_F(CheckpointFilesTest, MissingFileIsFound) {
  (void)Write();
  fs::remove(Path() + "/b.json");
  EXPECT_THAT(Fault(), HasSubstr("'b.json' cannot be read"));
}

TEST_F(CheckpointFilesTest, LinkInPlaceOfAFileIsFound) {
  (void)Write();
  fs::rename(Path() + "/a.bin", parent_ + "/a.bin");
  fs::create_symlink(parent_ + "/a.bin", Path() + "/a.bin");
  EXPECT_THAT(Fault(), HasSubstr("'a.bin' cannot be read"));
}

TEST_F(CheckpointFilesTest, AFlippedBitInAnyByteIsFound) {
  (void)Write();
  for (const auto& entry : fs::directory_iterator(Path())) {
    const std::string good = ReadText(entry.path());
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
      WriteText(entry.path(), bad);
      ASSERT_NE(Fault(), "valid") << entry.path() << " byte " << i;
    }
    WriteText(entry.path(), good);
  }
  EXPECT_EQ(Fault(), "valid");
}

// They come after one checkpoint, and are of no use with another.
TEST_F(CheckpointFilesTest, LateReportsAreOfTheirCheckpoint) {
  fs::create_directories(parent_);
  EXPECT_EQ(ReadLateReports(parent_, "one"), std::nullopt);
  const nlohmann::json reports = {{"batches", 7}};
  ASSERT_TRUE(WriteLateReports(parent_, "one", reports));
  EXPECT_EQ(ReadLateReports(parent_, "one"), reports);
  EXPECT_EQ(ReadLateReports(parent_, "two"), std::nullopt);
  EXPECT_EQ(ReadLateReports(parent_, ""), std::nullopt);
  ASSERT_TRUE(WriteLateReports(parent_, "two", {{"batches", 8}}));
  EXPECT_EQ(ReadLateReports(parent_, "one"), std::nullopt);
  for (const char* damaged : {"", "{", "[]", "{\"checkpoint\": \"two\"}"}) {
    std::ofstream(parent_ + "/late_reports.json") << damaged;
    EXPECT_EQ(ReadLateReports(parent_, "two"), std::nullopt) << damaged;
  }
}

TEST(RandomUuidTest, IsAUniqueVersion4Uuid) {
  const std::string uuid = RandomUuid();
  EXPECT_THAT(uuid, MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                 "[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(RandomUuid(), uuid);
}

}  // namespace
}  // namespace dtrain
