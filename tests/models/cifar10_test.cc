#include <cstdlib>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/base/error.h"
#include "engine/data/dataset_readers.h"
#include "engine/train/train_trial.h"
#include "models/data_sets.h"
#include "models/nets/conv_nets.h"
#include "models/table.h"
#include "tests/support/recorded_network.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CifarCnnTest, HasTheParametersOfTheGuide) {
  std::int64_t count = 0;
  for (const auto& parameter : CifarCnn(10).parameters()) {
    count += parameter.numel();
  }
  EXPECT_EQ(count, 62'006);
}

// Against PyTorch with the same weights: tests/golden/make_networks.py.
TEST(CifarCnnTest, AgreesWithPyTorch) {
  torch::set_num_threads(1);
  const auto net = std::make_shared<CifarCnn>(10);
  ExpectAsRecorded("cifar_cnn", *net, [&](const torch::Tensor& images) {
    return net->forward(images);
  });
}

TEST(CifarCnnTest, LearnsAsPyTorchDoesForAHundredSteps) {
  torch::set_num_threads(1);
  const nlohmann::json recorded =
      ReadGolden("networks.json").at("cifar_cnn_training");
  const auto shape = recorded.at("images").get<std::vector<std::int64_t>>();
  const auto losses = recorded.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 100);
  const auto net = std::make_shared<CifarCnn>(10);
  FillByName(*net);
  torch::optim::Adam optimizer(net->parameters(),
                               torch::optim::AdamOptions().eps(1e-3));
  const torch::Tensor target = torch::arange(shape[0], torch::kInt64) * 7 % 10;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        net->forward(RecordedImages(step, shape)), target);
    loss.backward();
    optimizer.step();
    EXPECT_NEAR(loss.item<double>(), losses[step], 1e-4) << "step " << step;
  }
}

// A directory with a CIFAR-10 of five batches of four images, each of the class
// of its index there; their pixels are 20 times the class.
class Cifar10Test : public ::testing::Test {
 protected:
  Cifar10Test() {
    torch::set_num_threads(1);
    ::setenv("XDG_CACHE_HOME", root_.c_str(), 1);
    for (int i = 1; i <= 5; ++i) {
      Write("data_batch_" + std::to_string(i) + ".bin", 4);
    }
  }
  void Write(const std::string& name, int images) const {
    std::ofstream file(root_ / name, std::ios::binary);
    for (int i = 0; i < images; ++i) {
      file << static_cast<char>(i)
           << std::string(kCifar10Values, static_cast<char>(20 * i));
    }
  }
  Cifar10Sets Load() const { return LoadCifar10(root_.string()); }

  // Trains for `epochs` and keeps what the trial said.
  Finished Train(std::int64_t epochs) {
    spec_.hparams["data"] = root_.string();
    if (!spec_.hparams.contains("global_batch_size")) {
      spec_.hparams["global_batch_size"] = 4;
    }
    spec_.directory = root_;
    spec_.until = Length{.count = epochs, .unit = Unit::kEpochs};
    spec_.settings.scheduling_unit = 1;
    fs::create_directory(root_ / "checkpoints");
    const TrialLink link = {
        .send = [this](TrialMessage message) { sent_.push_back(message); },
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    return TrainTrial(spec_, FindModel("cifar10:CNNTrial")->make, link,
                      torch::kCPU, Clock::System());
  }
  // The values of a training metric.
  std::vector<double> Trained(const std::string& name) const {
    std::vector<double> values;
    for (const TrialMessage& message : sent_) {
      const auto* report = std::get_if<TrainingReport>(&message);
      if (report == nullptr) continue;
      for (const auto& [metric, value] : report->metrics) {
        if (metric == name) values.push_back(value);
      }
    }
    return values;
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
  TrialSpec spec_;
  std::vector<TrialMessage> sent_;
};

TEST_F(Cifar10Test, LoadsTheFiveBatches) {
  const Cifar10Sets sets = Load();
  EXPECT_EQ(sets.training.images.sizes(), torch::IntArrayRef({20, 3, 32, 32}));
  EXPECT_EQ(sets.training.labels[6].item<int>(), 2);
  EXPECT_TRUE(sets.training.images[6].eq(40).all().item<bool>());
  EXPECT_EQ(sets.test.size(), 0);
  EXPECT_THAT(sets.description, HasSubstr("without its test set"));
}

TEST_F(Cifar10Test, ReportsAnIncompleteTestSet) {
  Write("test_first1000.bin", 3);
  const Cifar10Sets sets = Load();
  EXPECT_EQ(sets.test.size(), 3);
  EXPECT_FALSE(sets.whole_test);
  EXPECT_THAT(sets.description, HasSubstr("only the first 3 images"));
}

TEST_F(Cifar10Test, UsesTheWholeTestSetIfPresent) {
  Write("test_first1000.bin", 3);
  std::ofstream file(root_ / "test_batch.bin", std::ios::binary);
  for (int i = 0; i < 10'000; ++i) file << '\1' << std::string(3072, 'x');
  file.close();
  const Cifar10Sets sets = Load();
  EXPECT_TRUE(sets.whole_test);
  EXPECT_THAT(sets.description, testing::Not(HasSubstr("test set")));
}

TEST_F(Cifar10Test, FindsTheDirectoryOfTheArchive) {
  const fs::path inner = root_ / "cifar-10-batches-bin";
  fs::create_directory(inner);
  for (int i = 1; i <= 5; ++i) {
    const std::string name = "data_batch_" + std::to_string(i) + ".bin";
    fs::rename(root_ / name, inner / name);
  }
  EXPECT_EQ(Load().training.size(), 20);
}

TEST_F(Cifar10Test, ReportsSearchedPlaces) {
  fs::remove(root_ / "data_batch_3.bin");
  EXPECT_THAT([this] { Load(); },
              ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("looked in " + root_.string()),
                  HasSubstr("data_batch_3.bin"), HasSubstr("DTRAIN_DATA"))));
}

TEST_F(Cifar10Test, RecordsLossesOfBatchesAndEpochs) {
  ASSERT_EQ(Train(2).reason, EndReason::kCompleted);
  const auto micro = Trained("micro_train_loss");
  const auto epochs = Trained("train_loss");
  ASSERT_EQ(micro.size(), 8);  // 16 of 20 images, four a batch, twice
  ASSERT_EQ(epochs.size(), 2);
  EXPECT_NEAR(epochs[0], (micro[0] + micro[1] + micro[2] + micro[3]) / 4, 1e-6);
  EXPECT_NEAR(epochs[1], (micro[4] + micro[5] + micro[6] + micro[7]) / 4, 1e-6);
}

TEST_F(Cifar10Test, ValidatesOnTheOtherImages) {
  ASSERT_EQ(Train(1).reason, EndReason::kCompleted);
  const auto report =
      std::ranges::find_if(sent_, [](const TrialMessage& message) {
        return std::holds_alternative<ValidationReport>(message);
      });
  ASSERT_NE(report, sent_.end());
  std::vector<std::string> names;
  for (const auto& [name, value] :
       std::get<ValidationReport>(*report).metrics) {
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("val_accuracy", "val_loss"));
}

TEST_F(Cifar10Test, PrintsEachEpochLikeTheGuide) {
  spec_.settings.min_validation_period = {1, Unit::kEpochs};
  testing::internal::CaptureStderr();
  ASSERT_EQ(Train(2).reason, EndReason::kCompleted);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("Epoch 1/2:\n"));
  EXPECT_THAT(log, testing::ContainsRegex(
                       "Epoch 2/2:\n.*  \\[Elapsed 0:00:00\\] train_loss: "
                       "2\\.[0-9]{5}, val_accuracy: [01]\\.[0-9]{5}, "
                       "val_loss: 2\\.[0-9]{5}\n"));
}

TEST_F(Cifar10Test, TakesAnotherSplit) {
  spec_.hparams["split"] = {0.5, 0.25, 0.25};
  ASSERT_EQ(Train(1).reason, EndReason::kCompleted);
  EXPECT_EQ(Trained("micro_train_loss").size(), 3);  // of 10 images
}

TEST_F(Cifar10Test, RefusesAnUnknownSplit) {
  spec_.hparams["split"] = {0.5, 0.4};
  Finished finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, HasSubstr("must sum to 1"));
  spec_.hparams["split"] = "half";
  finished = Train(1);
  EXPECT_EQ(finished.reason, EndReason::kInvalidHp);
  EXPECT_THAT(finished.message, HasSubstr("expected a list of fractions"));
}

}  // namespace
}  // namespace dtrain
