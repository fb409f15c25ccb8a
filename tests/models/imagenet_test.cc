#include "models/imagenet.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/train_trial.h"
#include "models/table.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The trial as it is trained, on images that it makes up.
class ImageNetTrialTest : public testing::Test {
 protected:
  ImageNetTrialTest() {
    torch::set_num_threads(1);
    // Other files of this machine must not matter.
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "TORCH_HOME"}) {
      ::setenv(name, directory_.path().c_str(), 1);
    }
    ::unsetenv("DTRAIN_DATA");
    spec_.hparams = {{"dataset", "fake"},      {"fake_samples", 10},
                     {"num_classes", 6},       {"crop_size", 32},
                     {"global_batch_size", 4}, {"workers", 0}};
    spec_.settings.scheduling_unit = 1;
  }
  Finished Train(std::int64_t epochs) {
    fs::create_directories(directory_.path() / "checkpoints");
    spec_.directory = directory_.path();
    spec_.until = Length{.count = epochs, .unit = Unit::kEpochs};
    const TrialLink link = {
        .send = [this](TrialMessage message) { sent_.push_back(message); },
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    return TrainTrial(spec_, FindModel("model_def:ImageNetTrial")->make, link,
                      torch::kCPU, Clock::System());
  }
  // The names of what reports of this type hold.
  template <typename Report>
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const TrialMessage& message : sent_) {
      const auto* report = std::get_if<Report>(&message);
      if (report == nullptr) continue;
      for (const auto& [name, value] : report->metrics) names.insert(name);
    }
    return names;
  }
  // The learning rates of the training reports.
  std::vector<double> Rates() const {
    std::vector<double> rates;
    for (const TrialMessage& message : sent_) {
      const auto* report = std::get_if<TrainingReport>(&message);
      if (report == nullptr) continue;
      for (const auto& [name, value] : report->metrics) {
        if (name == "lr") rates.push_back(value);
      }
    }
    return rates;
  }
  std::ptrdiff_t Reports() const {
    return std::ranges::count_if(sent_, [](const TrialMessage& message) {
      return std::holds_alternative<TrainingReport>(message);
    });
  }

  const TemporaryDirectory directory_;
  TrialSpec spec_;
  std::vector<TrialMessage> sent_;
};

TEST_F(ImageNetTrialTest, MatchesTheMetricsOfTheTutorial) {
  const Finished finished = Train(1);
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  EXPECT_THAT(Names<TrainingReport>(),
              testing::IsSupersetOf({"loss", "top1", "top5"}));
  EXPECT_THAT(Names<ValidationReport>(),
              testing::IsSupersetOf({"val_loss", "val_top1", "val_top5"}));
  EXPECT_EQ(Reports(), 3) << "10 images, four a batch";
}

TEST_F(ImageNetTrialTest, LowersTheRateEveryTwoEpochs) {
  spec_.hparams["fake_samples"] = 4;
  ASSERT_EQ(Train(3).reason, EndReason::kCompleted);
  EXPECT_THAT(Rates(), ElementsAre(0.1, 0.1, DoubleNear(0.01, 1e-9)));
}

TEST_F(ImageNetTrialTest, CountsEpochsBeforeItsOwn) {
  spec_.hparams["fake_samples"] = 4;
  spec_.hparams["start-epoch"] = 3;
  ASSERT_EQ(Train(2).reason, EndReason::kCompleted);
  EXPECT_THAT(Rates(),
              ElementsAre(DoubleNear(0.01, 1e-9), DoubleNear(0.001, 1e-9)));
}

TEST_F(ImageNetTrialTest, RefusesImagesTooSmallForTheNetwork) {
  spec_.hparams["arch"] = "alexnet";
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, HasSubstr("at least 63 pixels a side"));
}

TEST_F(ImageNetTrialTest, TakesEveryWeightFromItsCheckpoint) {
  ASSERT_EQ(Train(1).reason, EndReason::kCompleted);
  const fs::path saved =
      fs::directory_iterator(directory_.path() / "checkpoints")->path();
  spec_.hparams["pretrained"] = true;
  spec_.warm_start = saved.string();
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
}

TEST_F(ImageNetTrialTest, DropsAShortLastBatchOnRequest) {
  spec_.hparams["drop_last"] = true;
  ASSERT_EQ(Train(1).reason, EndReason::kCompleted);
  EXPECT_EQ(Reports(), 2);
}

TEST_F(ImageNetTrialTest, NeverLeavesAnEpochWithoutABatch) {
  spec_.hparams["drop_last"] = true;
  spec_.hparams["global_batch_size"] = 64;
  ASSERT_EQ(Train(1).reason, EndReason::kCompleted);
  EXPECT_EQ(Reports(), 1);
}

TEST_F(ImageNetTrialTest, RefusesUnknownData) {
  spec_.hparams["dataset"] = "imagenet21k";
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message,
              HasSubstr("expected imagefolder, cifar10 or fake"));
}

// On a folder of the recorded images, two classes.
class ImageFolderTrialTest : public ImageNetTrialTest {
 protected:
  ImageFolderTrialTest() {
    spec_.hparams["dataset"] = "imagefolder";
    spec_.hparams["data"] = root_.string();
    spec_.hparams["num_classes"] = 2;
    for (const char* part : {"train", "val"}) {
      Put(std::string(part) + "/ant", "420.jpg");
      Put(std::string(part) + "/ant", "gray.jpg");
      Put(std::string(part) + "/bee", "cmyk.jpg");
      Put(std::string(part) + "/bee", "rgba.png");
    }
  }
  void Put(const std::string& directory, const std::string& image) const {
    fs::create_directories(root_ / directory);
    fs::copy_file(fs::path(DTRAIN_GOLDEN_DIR) / "images" / image,
                  root_ / directory / image);
  }

  const fs::path root_ = directory_.path() / "data";
};

TEST_F(ImageFolderTrialTest, TrainsOnImagesOfAllKinds) {
  const Finished finished = Train(1);
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  EXPECT_EQ(Reports(), 1) << "four images, four a batch";
}

// The line of the original script.
TEST_F(ImageFolderTrialTest, LogsTheModelItCreates) {
  testing::internal::CaptureStderr();
  const Finished finished = Train(1);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  const auto arch = spec_.hparams.value("arch", "resnet18");
  EXPECT_THAT(log, HasSubstr("=> creating model '" + arch + "'\n"));
}

TEST_F(ImageFolderTrialTest, SkipsAndNamesDamagedImages) {
  spec_.hparams["global_batch_size"] = 5;
  std::ofstream(root_ / "train/bee/torn.jpg") << "\xff\xd8\xff";
  testing::internal::CaptureStderr();
  const Finished finished = Train(1);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  EXPECT_THAT(log, HasSubstr("train/bee/torn.jpg"));
  EXPECT_THAT(log, HasSubstr("1 image files could not be read"));
}

TEST_F(ImageFolderTrialTest, TrainsOnCachedImages) {
  spec_.hparams["image_cache"] = 40;
  testing::internal::CaptureStderr();
  const Finished finished = Train(2);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
  EXPECT_THAT(log, HasSubstr("dtrain/images/"));
  EXPECT_TRUE(fs::exists(directory_.path() / "dtrain/images"));
}

TEST_F(ImageFolderTrialTest, RefusesACacheOfImagesSmallerThanItsCrops) {
  spec_.hparams["image_cache"] = 36;
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, HasSubstr("give at least 37"));
}

TEST_F(ImageFolderTrialTest, RefusesFewerOutputsThanClasses) {
  spec_.hparams["num_classes"] = 1;
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, HasSubstr("the data have 2 classes"));
}

TEST_F(ImageFolderTrialTest, RefusesOtherClassesInValidation) {
  Put("val/cow", "420.jpg");
  EXPECT_THAT(Train(1).message,
              HasSubstr("have different classes, 'cow' only in val/"));
}

TEST_F(ImageFolderTrialTest, WarnsOfHiddenDirectoriesAndClippedGrey) {
  spec_.hparams["num_classes"] = 3;
  spec_.hparams["global_batch_size"] = 5;
  for (const char* split : {"train", "val"}) {
    Put(std::string(split) + "/.ipynb_checkpoints", "gray16.png");
  }
  for (const std::int64_t side : {0, 40}) {
    spec_.hparams["image_cache"] = side;
    testing::internal::CaptureStderr();
    const Finished finished = Train(1);
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_EQ(finished.reason, EndReason::kCompleted) << finished.message;
    EXPECT_THAT(log, HasSubstr("images of '.ipynb_checkpoints' are trained"));
    EXPECT_THAT(log, HasSubstr("gray16.png: grey of 16 bits is clipped"));
  }
}

TEST_F(ImageNetTrialTest, NamesWhatABatchOfOneNeeds) {
  spec_.hparams["fake_samples"] = 9;
  const std::string message = Train(1).message;
  EXPECT_THAT(message, HasSubstr("Expected more than 1 value per channel"));
  EXPECT_THAT(message, HasSubstr("'drop_last: true' of ImageNetTrial"));
  spec_.hparams["drop_last"] = true;
  EXPECT_EQ(Train(1).reason, EndReason::kCompleted);
}

TEST_F(ImageNetTrialTest, RefusesToStartWithoutTheRequestedWeights) {
  spec_.hparams["pretrained"] = true;
  spec_.hparams["data"] = directory_.path().string();
  const Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kRefused);
  EXPECT_THAT(finished.message, HasSubstr("no weights of resnet18"));
}

}  // namespace
}  // namespace dtrain
