#include "engine/data/image_source.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/image/cached_images.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder of two classes with four images each.
class ImageSourceTest : public ::testing::Test {
 protected:
  ImageSourceTest() {
    int number = 0;
    for (const char* name : {"420.jpg", "444.jpg", "gray.jpg", "rgb.png"}) {
      Put("a/" + std::to_string(number) + name, name);
      Put("b/" + std::to_string(number++) + name, name);
    }
  }
  void Put(const std::string& to, const std::string& image) const {
    fs::create_directories((root_ / to).parent_path());
    fs::copy_file(fs::path(DTRAIN_GOLDEN_DIR) / "images" / image, root_ / to);
  }
  std::unique_ptr<DataSource> Source(SamplerOptions samples,
                                     int workers = 0) const {
    return MakeImageSource(
        std::make_shared<const ImageFolder>(ListImageFolder(root_)), samples,
        {.crop = 16,
         .resize = 20,
         .channels = static_cast<std::int64_t>(normalization_.mean.size()),
         .augment = augment_,
         .normalization = normalization_},
        {.workers = workers, .normalize_on_device = gives_bytes_}, skipped_,
        cache_);
  }
  std::shared_ptr<CachedImages> Cache() const {
    CachedImages::Options options;
    options.file = cache_directory_.path() / "images";
    options.side = 20;
    return std::make_shared<CachedImages>(
        std::make_shared<const ImageFolder>(ListImageFolder(root_)),
        std::move(options));
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
  const TemporaryDirectory cache_directory_;
  std::shared_ptr<CachedImages> cache_;
  // A batch of bytes, normalised afterwards, and one of floats.
  void ExpectBytesBecomeTheFloats() {
    const SamplerOptions samples = {.batch_size = 8, .shuffle = true};
    const Batch floats = Source(samples)->Read();
    gives_bytes_ = true;
    const Batch bytes = Source(samples)->Read();
    EXPECT_EQ(bytes.data.scalar_type(), torch::kByte);
    EXPECT_EQ(4 * bytes.data.nbytes(), floats.data.nbytes());
    const Batch batch = bytes.Normalized();
    EXPECT_TRUE(torch::equal(batch.data, floats.data));
    EXPECT_TRUE(batch.data.is_contiguous());
    EXPECT_FALSE(batch.scales.defined());
    EXPECT_TRUE(torch::equal(batch.target, floats.target));
  }

  bool augment_ = true;
  bool gives_bytes_ = false;
  Normalization normalization_ = {.mean = {0.5, 0.5, 0.5},
                                  .std = {0.5, 0.5, 0.5}};
  std::vector<std::string> said_;
  const std::shared_ptr<SkippedFiles> skipped_ = std::make_shared<SkippedFiles>(
      [this](const std::string& line) { said_.push_back(line); });
};

TEST_F(ImageSourceTest, GivesNormalizedImagesAndTheirClasses) {
  const Batch batch = Source({.batch_size = 8})->Read();
  EXPECT_EQ(batch.data.sizes(), torch::IntArrayRef({8, 3, 16, 16}));
  EXPECT_LE(batch.data.abs().max().item<float>(), 1.0001F);
  EXPECT_TRUE(
      torch::equal(batch.target, torch::tensor({0, 0, 0, 0, 1, 1, 1, 1})));
}

TEST_F(ImageSourceTest, BytesBecomeTheSameFloatsToTheBit) {
  normalization_ = {.mean = {0.485F, 0.456F, 0.406F},
                    .std = {0.229F, 0.224F, 0.225F}};
  ExpectBytesBecomeTheFloats();
}

TEST_F(ImageSourceTest, BytesBecomeTheSameFloatsWithoutAugmentation) {
  augment_ = false;
  ExpectBytesBecomeTheFloats();
}

TEST_F(ImageSourceTest, GrayBytesBecomeTheSameFloats) {
  normalization_ = {.mean = {0.45F}, .std = {0.22F}};
  ExpectBytesBecomeTheFloats();
}

TEST_F(ImageSourceTest, GivesTheSamePixelsWithAnyNumberOfWorkers) {
  const SamplerOptions samples = {.batch_size = 3, .shuffle = true, .seed = 7};
  const auto alone = Source(samples);
  const auto threads = Source(samples, /*workers=*/3);
  EXPECT_TRUE(torch::equal(alone->Read().data, threads->Read().data));
  EXPECT_TRUE(torch::equal(alone->Read().data, threads->Read().data));
}

TEST_F(ImageSourceTest, GivesTwoRanksThePixelsOfOne) {
  const Batch one = Source({.batch_size = 4})->Read();
  const Batch first = Source({.batch_size = 2, .ranks = 2})->Read();
  const Batch second = Source({.batch_size = 2, .rank = 1, .ranks = 2})->Read();
  EXPECT_TRUE(torch::equal(one.data, torch::cat({first.data, second.data}, 0)));
}

TEST_F(ImageSourceTest, CropsDifferentlyInEveryPass) {
  const auto source = Source({.batch_size = 8});
  const torch::Tensor first = source->Read().data;
  EXPECT_FALSE(torch::equal(first, source->Read().data));
}

TEST_F(ImageSourceTest, CropsTheMiddleAlikeWithoutAugmentation) {
  augment_ = false;
  const auto source = Source({.batch_size = 8});
  const torch::Tensor first = source->Read().data;
  EXPECT_TRUE(torch::equal(first, source->Read().data));
  EXPECT_TRUE(torch::equal(first[0], first[4])) << "the same file";
}

TEST_F(ImageSourceTest, CropsTheSameMiddleFromACacheOfTheSameSide) {
  augment_ = false;
  const torch::Tensor decoded = Source({.batch_size = 8})->Read().data;
  cache_ = Cache();
  ASSERT_TRUE(cache_->WaitUntilMade());
  EXPECT_TRUE(torch::equal(decoded, Source({.batch_size = 8})->Read().data));
}

TEST_F(ImageSourceTest, CropsTheSameBeforeTheCacheIsMadeAndAfter) {
  const torch::Tensor without = Source({.batch_size = 8})->Read().data;
  cache_ = Cache();
  const torch::Tensor before = Source({.batch_size = 8})->Read().data;
  ASSERT_TRUE(cache_->WaitUntilMade());
  const torch::Tensor after =
      Source({.batch_size = 8}, /*workers=*/3)->Read().data;
  EXPECT_TRUE(torch::equal(before, after));
  EXPECT_FALSE(torch::equal(before, without)) << "of the shrunk images";
}

TEST_F(ImageSourceTest, OmitsImagesThatTheCacheMarksUnreadable) {
  std::ofstream(root_ / "a/torn.jpg") << "\xff\xd8\xff";
  cache_ = Cache();
  ASSERT_TRUE(cache_->WaitUntilMade());
  EXPECT_EQ(Source({.batch_size = 9})->Read().size(), 8);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("a/torn.jpg")));
}

TEST_F(ImageSourceTest, OmitsUnreadableImagesAndReportsThemOnce) {
  std::ofstream(root_ / "a/torn.jpg") << "\xff\xd8\xff";
  const auto source = Source({.batch_size = 9});
  EXPECT_EQ(source->Read().size(), 8);
  EXPECT_EQ(source->Read().size(), 8);
  EXPECT_EQ(skipped_->count(), 1);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("a/torn.jpg")));
}

TEST_F(ImageSourceTest, FillsAnEmptyBatchWithAnotherImage) {
  std::ofstream(root_ / "b/torn.jpg") << "\xff\xd8\xff";
  const auto source = Source({.batch_size = 1});
  source->Seek(8);
  const Batch batch = source->Read();
  EXPECT_EQ(batch.size(), 1);
  EXPECT_EQ(batch.target.item<int>(), 0) << "the first one of the folder";
}

TEST_F(ImageSourceTest, CountsNoImageTwiceInAPassOfItsOwn) {
  augment_ = false;
  for (const char* name : {"b/4torn.jpg", "b/5torn.jpg", "b/6torn.jpg"}) {
    std::ofstream(root_ / name) << "\xff\xd8\xff";
  }
  const auto source = Source({.batch_size = 2, .wrap = false});
  ASSERT_EQ(source->BatchesPerEpoch(), 6);
  source->Seek(3);
  EXPECT_EQ(source->Read().size(), 2);
  const Batch empty = source->Read();
  EXPECT_EQ(empty.data.sizes(), torch::IntArrayRef({0, 3, 16, 16}));
  EXPECT_EQ(empty.target.size(0), 0);
  EXPECT_EQ(empty[kSampleNumbers].size(0), 0);
}

TEST_F(ImageSourceTest, WithoutANormalizationPixelsAreFromZeroToOne) {
  const auto folder =
      std::make_shared<const ImageFolder>(ListImageFolder(root_));
  const Batch colors =
      MakeImageSource(folder, {.batch_size = 8}, {.crop = 16, .resize = 20}, {})
          ->Read();
  EXPECT_GE(colors.data.min().item<float>(), 0);
  EXPECT_LE(colors.data.max().item<float>(), 1);
  EXPECT_GT(colors.data.max().item<float>(), 0.5);
  const Batch grays =
      MakeImageSource(folder, {.batch_size = 8},
                      {.crop = 16, .resize = 20, .channels = 1}, {})
          ->Read();
  EXPECT_EQ(grays.data.sizes(), torch::IntArrayRef({8, 1, 16, 16}));
}

TEST_F(ImageSourceTest, WithoutSkippedFilesADamagedFileIsAnError) {
  std::ofstream(root_ / "a/torn.jpg") << "\xff\xd8\xff";
  const auto source = MakeImageSource(
      std::make_shared<const ImageFolder>(ListImageFolder(root_)),
      {.batch_size = 9}, {.crop = 16}, {.workers = 2});
  EXPECT_THAT([&] { source->Read(); },
              testing::ThrowsMessage<Error>(AllOf(
                  HasSubstr("a/torn.jpg"), HasSubstr("pass a SkippedFiles"))));
}

TEST_F(ImageSourceTest, RefusesInvalidSteps) {
  const auto folder =
      std::make_shared<const ImageFolder>(ListImageFolder(root_));
  const auto fault = [&](const ImageSteps& steps) -> std::string {
    try {
      MakeImageSource(folder, {.batch_size = 1}, steps, {});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(fault({.channels = 4}), HasSubstr("channels is 4"));
  EXPECT_THAT(fault({.crop = 0}), HasSubstr("crop and resize"));
  EXPECT_THAT(fault({.normalization = {.mean = {0.5}, .std = {0.5}}}),
              HasSubstr("must have 3 means"));
  EXPECT_THAT(
      fault({.channels = 1, .normalization = {.mean = {0.5}, .std = {0}}}),
      HasSubstr("deviation of 0"));
}

TEST_F(ImageSourceTest, RefusesAFolderOfDamagedFiles) {
  fs::remove_all(root_ / "a");
  fs::remove_all(root_ / "b");
  fs::create_directories(root_ / "c");
  std::ofstream(root_ / "c/torn.jpg") << "\xff\xd8\xff";
  EXPECT_THAT([this] { Source({.batch_size = 1})->Read(); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("none of 1 images could be read")));
}

}  // namespace
}  // namespace dtrain
