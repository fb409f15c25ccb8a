#include "engine/fetch/data_sets.h"

#include <set>

#include "engine/base/error.h"
#include "models/data_files.h"
#include "tests/engine/fetch/fetch_support.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::ThrowsMessage;

TEST(DataSetsTest, RefusesUnknownNamesWithASuggestion) {
  EXPECT_THAT([] { FindDataSet("mnsit"); },
              ThrowsMessage<Error>(HasSubstr("did you mean 'mnist'?")));
  EXPECT_THAT([] { FindDataSet("imagenet"); },
              ThrowsMessage<Error>(HasSubstr("'dtrain data list'")));
}

TEST(DataSetsTest, HasEveryNameOnce) {
  std::set<std::string_view> names;
  for (const DataSet& set : DataSets()) names.insert(set.name);
  EXPECT_EQ(names.size(), DataSets().size());
}

TEST(DataSetsTest, HasAWholeChecksumForEveryFileButWeights) {
  for (const DataSet& set : DataSets()) {
    for (const KnownFile& file : set.files) {
      EXPECT_GT(file.bytes, 0) << file.name;
      EXPECT_THAT(
          std::string(file.sha256),
          MatchesRegex(set.approximate ? "[0-9a-f]{8}" : "[0-9a-f]{64}"))
          << file.name;
    }
    for (const KnownFile& file : set.contents) {
      EXPECT_EQ(file.sha256.size(), 64) << file.name;
    }
  }
}

TEST(DataSetsTest, NamesDirectoriesAsAddresses) {
  for (const DataSet& set : DataSets()) {
    ASSERT_FALSE(set.addresses.empty());
    EXPECT_TRUE(set.addresses.front().starts_with("https://"));
    for (const auto address : set.addresses) {
      EXPECT_TRUE(address.ends_with('/')) << address;
    }
  }
}

// The message about missing weights tells users to fetch them by this name.
TEST(DataSetsTest, HasWeightsForEveryNetworkOfImageNetTrial) {
  for (const std::string_view arch : kImageArchs) {
    const DataSet& set = FindDataSet(std::string(arch));
    EXPECT_EQ(set.directory, "pretrained");
    EXPECT_EQ(PlacedName(set, set.files.front()),
              std::string(arch) + "-" + std::string(set.files.front().sha256) +
                  ".pth");
  }
}

class LocateSetTest : public testing::Test {
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

TEST_F(LocateSetTest, ReportsAMissingSet) {
  EXPECT_EQ(Locate().state, SetState::kMissing);
  EXPECT_EQ(Verify().state, SetState::kMissing);
}

TEST_F(LocateSetTest, NamesMissingFiles) {
  WriteText(first_ / "made/images.gz", made_up_.images);
  EXPECT_EQ(Locate().state, SetState::kPartial);
  EXPECT_EQ(Verify().problem, "'labels.gz' is missing");
}

TEST_F(LocateSetTest, ReportsAnInterruptedFetch) {
  fs::create_directories(PartialDirectory(made_up_.set, second_));
  EXPECT_EQ(Locate().state, SetState::kPartial);
  EXPECT_THAT(Locate().directory.string(), "");
}

TEST_F(LocateSetTest, DetectsAnotherSizeWithoutReading) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/labels.gz", "012");
  EXPECT_EQ(Locate().state, SetState::kDamaged);
  EXPECT_EQ(Locate().problem, "'labels.gz' has 3 bytes, not 10");
}

TEST_F(LocateSetTest, DetectsAFlippedBitByReading) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/labels.gz", "0123456788");
  EXPECT_EQ(Locate().state, SetState::kThere);
  EXPECT_EQ(Verify().state, SetState::kDamaged);
  EXPECT_EQ(Verify().problem, "'labels.gz' does not match its SHA-256");
}

TEST_F(LocateSetTest, FindsAWholeSetInAnyPlace) {
  WriteText(first_ / "made/images.gz", made_up_.images);
  WriteSet(second_ / "made");
  const FoundSet found = Verify();
  EXPECT_EQ(found.state, SetState::kGood);
  EXPECT_EQ(found.directory, second_ / "made");
  EXPECT_EQ(found.files, 2);
  EXPECT_EQ(found.bytes, 150'010);
}

TEST_F(LocateSetTest, FindsFilesInThePlaceItself) {
  WriteSet(first_);
  EXPECT_EQ(Verify().state, SetState::kGood);
  EXPECT_EQ(Verify().directory, first_);
}

TEST_F(LocateSetTest, IgnoresFilesOfOtherSetsWithTheSameName) {
  WriteText(first_ / "images.gz", "of another set");
  WriteText(first_ / "labels.gz", "of another set, too");
  EXPECT_EQ(Locate().state, SetState::kMissing);
}

TEST_F(LocateSetTest, HasNoChecksumOfUnpackedFiles) {
  WriteSet(first_ / "made");
  WriteText(first_ / "made/images", "plain, and read first");
  const FoundSet found = Verify();
  EXPECT_EQ(found.state, SetState::kUnchecked);
  EXPECT_TRUE(found.Complete());
  EXPECT_EQ(found.problem, "the checksum of 'images' is not known");
}

TEST_F(LocateSetTest, TrustsTheRecordOfTheFetch) {
  WriteText(first_ / "made/one", "1");
  WriteText(first_ / "made/two", "2");
  WriteSetRecord(
      made_up_.set, first_,
      {{"one", 1, Sha256OfText("1")}, {"two", 1, Sha256OfText("2")}});
  EXPECT_EQ(Verify().state, SetState::kGood);
  fs::remove(first_ / "made/two");
  EXPECT_EQ(Verify().state, SetState::kPartial);
}

TEST_F(LocateSetTest, IgnoresADamagedRecord) {
  WriteSet(first_ / "made");
  for (const char* text :
       {"", "[1", "[]", R"({"format": "dtrain-data", "files": [3]})",
        R"({"format": 1, "files": []})",
        R"({"format": "dtrain-data", "files": [{"name": "../x"}]})"}) {
    WriteText(first_ / ".made-up.fetched", text);
    EXPECT_EQ(Verify().state, SetState::kGood) << text;
  }
}

TEST_F(LocateSetTest, CannotVerifyAnUnpackedArchiveWithoutARecord) {
  DataSet set = made_up_.set;
  set.archive_root = "made";
  EXPECT_EQ(LocateSet(set, places_).state, SetState::kMissing);
  WriteText(first_ / "made/train/x.jpg", "x");
  EXPECT_EQ(VerifySet(set, places_, nullptr)->state, SetState::kUnchecked);
}

TEST_F(LocateSetTest, StopsOnRequest) {
  WriteSet(first_ / "made");
  EXPECT_EQ(VerifySet(made_up_.set, places_, [] { return true; }),
            std::nullopt);
}

}  // namespace
}  // namespace dtrain
