#include "engine/fetch/data_sets.h"

#include <set>

#include "engine/base/error.h"
#include "models/image_archs.h"

namespace dtrain {
namespace {

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

}  // namespace
}  // namespace dtrain
