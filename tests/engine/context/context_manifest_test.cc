#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/context/context_list.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

ContextManifest TwoFiles() {
  const std::string sha(64, 'a');
  return {.files = {{"a b\n.py", 12, false, sha}, {"bin/run", 0, true, sha}}};
}

class DamagedManifestTest : public testing::TestWithParam<std::string> {};

TEST_P(DamagedManifestTest, IsRefused) {
  const std::string text = std::string(64, 'a') + GetParam() + '\0';
  try {
    ContextManifest::Parse(text, "there");
    ADD_FAILURE() << "read " << GetParam();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error.what(), HasSubstr("there: is not a list of files"));
  }
}

INSTANTIATE_TEST_SUITE_P(Lines, DamagedManifestTest,
                         testing::Values("", " - ", " - 12", " - 12 ", " - x a",
                                         " - -1 a", " - 1 /etc/x", " - 1 ../x",
                                         " - 1 a/../../x", " - 1 a/", " - 1 .",
                                         " - 1 a//b"));

TEST(ContextManifestTest, RefusesATruncatedManifest) {
  std::string text = TwoFiles().Text();
  text.pop_back();
  EXPECT_THROW(ContextManifest::Parse(text, "there"), Error);
}

TEST(ContextManifestTest, RoundTrips) {
  const ContextManifest manifest = TwoFiles();
  const auto again = ContextManifest::Parse(manifest.Text(), "there");
  EXPECT_EQ(again.files, manifest.files);
  EXPECT_EQ(again.bytes(), 12);
}

TEST(ContextManifestTest, HashesPathsModesAndContents) {
  const std::string hash = TwoFiles().Hash();
  EXPECT_EQ(hash.size(), 64);
  EXPECT_EQ(TwoFiles().Hash(), hash);
  ContextManifest other = TwoFiles();
  other.files[0].path = "c";
  EXPECT_NE(other.Hash(), hash);
  other = TwoFiles();
  other.files[0].executable = true;
  EXPECT_NE(other.Hash(), hash);
  other = TwoFiles();
  other.files[0].sha256[0] = 'b';
  EXPECT_NE(other.Hash(), hash);
}

}  // namespace
}  // namespace dtrain
