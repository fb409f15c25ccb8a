#include "engine/image/image_folder.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageFolderTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << "x";
  }
  // The samples as "label path", the path from the root.
  std::vector<std::string> Samples() const {
    std::vector<std::string> samples;
    for (const ImageSample& sample : ListImageFolder(root_).samples) {
      samples.push_back(std::to_string(sample.label) + " " +
                        sample.path.lexically_relative(root_).string());
    }
    return samples;
  }
  void ExpectRefused(const std::string& what) const {
    EXPECT_THAT([this] { (void)ListImageFolder(root_); },
                testing::ThrowsMessage<Error>(
                    AllOf(HasSubstr(root_.string()), HasSubstr(what))));
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path() / "train";
};

TEST_F(ImageFolderTest, SortsClassesAndFiles) {
  Touch("cat/2.jpg");
  Touch("cat/10.jpg");
  Touch("ant/1.png");
  Touch("Zebra/1.jpeg");
  EXPECT_THAT(ListImageFolder(root_).classes,
              ElementsAre("Zebra", "ant", "cat"));
  EXPECT_THAT(Samples(), ElementsAre("0 Zebra/1.jpeg", "1 ant/1.png",
                                     "2 cat/10.jpg", "2 cat/2.jpg"));
}

TEST_F(ImageFolderTest, SortsDirectoriesByTheirWholePaths) {
  Touch("c/z.jpg");
  Touch("c/a/1.jpg");
  Touch("c/a/b/1.jpg");
  Touch("c/a b/1.jpg");
  EXPECT_THAT(Samples(), ElementsAre("0 c/z.jpg", "0 c/a/1.jpg",
                                     "0 c/a b/1.jpg", "0 c/a/b/1.jpg"));
}

TEST_F(ImageFolderTest, TakesExtensionsInEitherCaseAndCountsTheRest) {
  Touch("c/1.JPEG");
  Touch("c/2.Png");
  Touch("c/.jpg");
  Touch("c/4.gif");
  Touch("c/jpg");
  Touch("c/5.jpg.txt");
  EXPECT_THAT(Samples(), ElementsAre("0 c/.jpg", "0 c/1.JPEG", "0 c/2.Png"));
  EXPECT_EQ(ListImageFolder(root_).ignored, 3);
}

TEST_F(ImageFolderTest, NamesHiddenDirectoriesWithImages) {
  Touch("ant/1.jpg");
  EXPECT_THAT(FindFolderFaults(ListImageFolder(root_), "train"), IsEmpty());
  Touch(".ipynb_checkpoints/1.jpg");
  Touch("ant/.ipynb_checkpoints/1-checkpoint.jpg");
  Touch("ant/@eaDir/small/1.jpg");
  Touch("ant/.empty/nothing.txt");
  fs::remove(root_ / "ant/.empty/nothing.txt");
  Touch("bee/__MACOSX/1.jpg");
  EXPECT_THAT(
      FindFolderFaults(ListImageFolder(root_), "train"),
      ElementsAre(HasSubstr(
          "train: images of '.ipynb_checkpoints', 'ant/.ipynb_checkpoints', "
          "'ant/@eaDir/small', 'bee/__MACOSX' are trained on")));
}

TEST_F(ImageFolderTest, NamesLeftOutFilesAboveOnePercent) {
  for (int i = 0; i < 198; ++i) Touch("a/" + std::to_string(i) + ".jpg");
  Touch("a/x.webp");
  Touch("a/y.webp");
  EXPECT_THAT(FindFolderFaults(ListImageFolder(root_), "train"), IsEmpty());
  Touch("a/z.tif");
  EXPECT_THAT(FindFolderFaults(ListImageFolder(root_), "train"),
              ElementsAre(HasSubstr("train: 3 of 201 files are left out, such "
                                    "as 'a/x.webp'")));
}

TEST_F(ImageFolderTest, NamesTheClassesThatDiffer) {
  ImageFolder training{.classes = {".hidden", "a", "b"}};
  ImageFolder validation{.classes = {"a", "b"}};
  EXPECT_EQ(CompareClasses(validation, validation), "");
  EXPECT_EQ(CompareClasses(training, validation), "'.hidden' only in train/");
  validation.classes = {"a", "c"};
  EXPECT_EQ(CompareClasses(training, validation),
            "'.hidden', 'b' only in train/; 'c' only in val/");
}

TEST_F(ImageFolderTest, ReadsUnusualNames) {
  Touch("a\nb/\xff\x1b.jpg");
  Touch("a\nb/ .jpg");
  EXPECT_THAT(Samples(), ElementsAre("0 a\nb/ .jpg", "0 a\nb/\xff\x1b.jpg"));
}

TEST_F(ImageFolderTest, FollowsLinksButNotInCircles) {
  Touch("c/1.jpg");
  Touch("elsewhere.d/2.jpg");
  fs::rename(root_ / "elsewhere.d", directory_.path() / "elsewhere");
  fs::create_directory_symlink(directory_.path() / "elsewhere",
                               root_ / "linked");
  fs::create_directory_symlink(root_ / "c", root_ / "c/self");
  fs::create_directory_symlink(root_, root_ / "c/root");
  EXPECT_THAT(Samples(), ElementsAre("0 c/1.jpg", "0 c/root/linked/2.jpg",
                                     "1 linked/2.jpg"));
}

TEST_F(ImageFolderTest, KeepsADanglingLink) {
  Touch("c/1.jpg");
  fs::create_symlink("gone", root_ / "c/2.jpg");
  EXPECT_THAT(Samples(), ElementsAre("0 c/1.jpg", "0 c/2.jpg"));
}

TEST_F(ImageFolderTest, RefusesAMissingDirectory) {
  ExpectRefused("cannot be read: No such file or directory; check the path");
}

TEST_F(ImageFolderTest, RefusesADirectoryWithoutClasses) {
  Touch("1.jpg");
  ExpectRefused("found no class directories in ");
}

TEST_F(ImageFolderTest, RefusesAClassWithoutImages) {
  Touch("ant/1.jpg");
  Touch("bee/1.bmp");
  ExpectRefused("/bee; expected .jpg, .jpeg or .png");
  ExpectRefused("no image files in ");
}

}  // namespace
}  // namespace dtrain
