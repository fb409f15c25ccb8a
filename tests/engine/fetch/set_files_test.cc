#include "engine/fetch/set_files.h"

#include "engine/base/error.h"
#include "tests/engine/fetch/made_up_set.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SetFilesTest : public testing::Test {
 protected:
  FoundSet Locate() const { return LocateSet(made_up_.set, places_); }
  FoundSet Verify() const { return *VerifySet(made_up_.set, places_, nullptr); }
  void WriteSet(const fs::path& directory) const {
    WriteText(directory / "images.gz", made_up_.images);
    WriteText(directory / "labels.gz", made_up_.labels);
  }

  const TemporaryDirectory directory_;
  const fs::path first_ = directory_.path() / "first";
  const fs::path second_ = directory_.path() / "second";
  const std::vector<fs::path> places_ = {first_, second_};
  const MadeUpSet made_up_;
};

TEST_F(SetFilesTest, FindsNothing) {
  EXPECT_EQ(Locate().state, SetState::kMissing);
  EXPECT_EQ(Verify().state, SetState::kMissing);
}

TEST_F(SetFilesTest, SaysWhatIsMissing) {
  WriteText(first_ / "made/images.gz", made_up_.images);
  EXPECT_EQ(Locate().state, SetState::kPartial);
  EXPECT_EQ(Verify().problem, "'labels.gz' is missing");
}

TEST_F(SetFilesTest, SaysThatAFetchWasBrokenOff) {
  fs::create_directories(PartialDirectory(made_up_.set, second_));
  EXPECT_EQ(Locate().state, SetState::kPartial);
  EXPECT_THAT(Locate().directory.string(), "");
}

TEST_F(SetFilesTest, SeesAnotherSizeWithoutReading) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/labels.gz", "012");
  EXPECT_EQ(Locate().state, SetState::kDamaged);
  EXPECT_EQ(Locate().problem, "'labels.gz' has 3 bytes, not 10");
}

TEST_F(SetFilesTest, SeesAFlippedBitByReading) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/labels.gz", "0123456788");
  EXPECT_EQ(Locate().state, SetState::kThere);
  EXPECT_EQ(Verify().state, SetState::kDamaged);
  EXPECT_EQ(Verify().problem, "'labels.gz' does not match its SHA-256");
}

TEST_F(SetFilesTest, FindsAWholeSetInAnyPlace) {
  WriteText(first_ / "made/images.gz", made_up_.images);
  WriteSet(second_ / "made");
  const FoundSet found = Verify();
  EXPECT_EQ(found.state, SetState::kGood);
  EXPECT_EQ(found.directory, second_ / "made");
  EXPECT_EQ(found.files, 2);
  EXPECT_EQ(found.bytes, 150'010);
}

TEST_F(SetFilesTest, FindsFilesInThePlaceItself) {
  WriteSet(first_);
  EXPECT_EQ(Verify().state, SetState::kGood);
  EXPECT_EQ(Verify().directory, first_);
}

TEST_F(SetFilesTest, TakesOtherSetsFilesOfTheSameNameForNone) {
  WriteText(first_ / "images.gz", "of another set");
  WriteText(first_ / "labels.gz", "of another set, too");
  EXPECT_EQ(Locate().state, SetState::kMissing);
}

TEST_F(SetFilesTest, KnowsNoChecksumOfAnUnpackedFile) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/images", "plain, and read first");
  const FoundSet found = Verify();
  EXPECT_EQ(found.state, SetState::kUnchecked);
  EXPECT_TRUE(found.Complete());
  EXPECT_EQ(found.problem, "of 'images' no checksum is known");
}

TEST_F(SetFilesTest, BelievesTheRecordOfTheFetch) {
  WriteText(first_ / "made/one", "1");
  WriteText(first_ / "made/two", "2");
  WriteSetRecord(
      made_up_.set, first_,
      {{"one", 1, Sha256OfText("1")}, {"two", 1, Sha256OfText("2")}});
  EXPECT_EQ(Verify().state, SetState::kGood);
  fs::remove(first_ / "made/two");
  EXPECT_EQ(Verify().state, SetState::kPartial);
}

TEST_F(SetFilesTest, BelievesNoDamagedRecord) {
  WriteSet(first_ / "made");
  for (const char* text :
       {"", "[1", "[]", R"({"format": "dtrain-data", "files": [3]})",
        R"({"format": 1, "files": []})",
        R"({"format": "dtrain-data", "files": [{"name": "../x"}]})"}) {
    WriteText(first_ / ".made-up.fetched", text);
    EXPECT_EQ(Verify().state, SetState::kGood) << text;
  }
}

TEST_F(SetFilesTest, CannotTellWithoutARecordWhatAnArchiveHeld) {
  DataSet set = made_up_.set;
  set.archive_root = "made";
  EXPECT_EQ(LocateSet(set, places_).state, SetState::kMissing);
  WriteText(first_ / "made/train/x.jpg", "x");
  EXPECT_EQ(VerifySet(set, places_, nullptr)->state, SetState::kUnchecked);
}

TEST_F(SetFilesTest, StopsWhenItIsTold) {
  WriteSet(first_ / "made");
  EXPECT_EQ(VerifySet(made_up_.set, places_, [] { return true; }),
            std::nullopt);
}

}  // namespace
}  // namespace dtrain
