#include "models/data_files.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

class ImageNetFilesTest : public ::testing::Test {
 protected:
  void Touch(const std::string& file) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "x";
  }
  void MakeFolders() const {
    fs::create_directories(root_ / "data/train/a");
    fs::create_directories(root_ / "data/val/a");
  }
  ImageNetFiles Files() const { return ImageNetFiles(data_, Variable()); }
  std::optional<std::string> Check(nlohmann::json hparams) const {
    hparams["data"] = data_;
    return CheckImageNet(hparams, Variable());
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
  const std::string data_ = (root_ / "data").string();

 private:
  ReadVariable Variable() const {
    return [this](const char* name) -> std::optional<std::string> {
      if (std::string(name) == "HOME") return root_.string();
      return std::nullopt;
    };
  }
};

TEST_F(ImageNetFilesTest, FindsFoldersInTheDirectoryOrItsChild) {
  EXPECT_EQ(Files().Folders(), std::nullopt);
  fs::create_directories(root_ / "data/imagenet/train");
  fs::create_directories(root_ / "data/imagenet/val");
  EXPECT_THAT(Files().Folders(), Optional(root_ / "data/imagenet"));
  MakeFolders();
  EXPECT_THAT(Files().Folders(), Optional(root_ / "data"));
}

TEST_F(ImageNetFilesTest, FindsWeightsByTorchvisionsNames) {
  Touch(".cache/torch/hub/checkpoints/resnet18-f37072fd.pth");
  EXPECT_THAT(
      Files().Weights("resnet18"),
      Optional(root_ / ".cache/torch/hub/checkpoints/resnet18-f37072fd.pth"));
  Touch("data/pretrained/resnet18.pth");
  EXPECT_THAT(Files().Weights("resnet18"),
              Optional(root_ / "data/pretrained/resnet18.pth"));
  Touch("data/resnet18.pth");
  Touch("data/resnet18.safetensors");
  EXPECT_THAT(Files().Weights("resnet18"),
              Optional(root_ / "data/resnet18.safetensors"));
}

TEST_F(ImageNetFilesTest, RefusesWeightsOfOtherNetworks) {
  Touch("data/vgg11_bn.pth");
  Touch("data/vgg11-old.pth");
  Touch("data/vgg11.txt");
  EXPECT_EQ(Files().Weights("vgg11"), std::nullopt);
}

TEST_F(ImageNetFilesTest, SuggestsOtherData) {
  EXPECT_THAT(Check({}),
              Optional(AllOf(HasSubstr(data_), HasSubstr("train/ and val/"),
                             HasSubstr("dataset: cifar10"),
                             HasSubstr("dataset: fake"))));
}

TEST_F(ImageNetFilesTest, SuggestsTheDownloadOfMissingWeights) {
  MakeFolders();
  EXPECT_EQ(Check({{"pretrained", false}}), std::nullopt);
  EXPECT_THAT(
      Check({{"pretrained", true}, {"arch", "vgg16"}}),
      Optional(AllOf(
          HasSubstr("no weights of vgg16; looked for vgg16.safetensors"),
          HasSubstr(data_ + ", "),
          HasSubstr("; 'dtrain data fetch vgg16' downloads them; or set"))));
}

TEST_F(ImageNetFilesTest, RefusesUnknownNetworks) {
  MakeFolders();
  EXPECT_THAT(Check({{"arch", "resnet81"}}),
              Optional(AllOf(HasSubstr("no network 'resnet81'"),
                             HasSubstr("did you mean 'resnet18'"))));
}

TEST_F(ImageNetFilesTest, ChecksEveryValueThatIsSearched) {
  MakeFolders();
  Touch("data/resnet50.pth");
  const auto archs = [](const char* other) {
    return nlohmann::json{{"type", "categorical"},
                          {"vals", {"resnet50", other}}};
  };
  EXPECT_EQ(Check({{"arch", archs("resnet50")}, {"pretrained", true}}),
            std::nullopt);
  EXPECT_THAT(Check({{"arch", archs("vgg11")}, {"pretrained", true}}),
              Optional(HasSubstr("no weights of vgg11")));
  EXPECT_THAT(Check({{"arch", archs("vgg12")}}),
              Optional(HasSubstr("no network 'vgg12'")));
}

TEST_F(ImageNetFilesTest, TakesNullForTheDefault) {
  MakeFolders();
  EXPECT_THAT(Check({{"arch", nullptr}, {"pretrained", true}}),
              Optional(HasSubstr("no weights of resnet18")));
}

TEST_F(ImageNetFilesTest, RefusesUnknownData) {
  EXPECT_THAT(Check({{"dataset", "imagnet"}}),
              Optional(HasSubstr("expected imagefolder, cifar10 or fake")));
}

TEST_F(ImageNetFilesTest, NeedsNoFilesForSyntheticImages) {
  EXPECT_EQ(Check({{"dataset", "fake"}}), std::nullopt);
}

}  // namespace

}  // namespace dtrain
