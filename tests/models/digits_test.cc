#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/train/train_trial.h"
#include "engine/train/trainer_context.h"
#include "models/data_sets.h"
#include "models/digit_strokes.h"
#include "models/nets/conv_nets.h"
#include "models/table.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LeNetTest, HasTheParametersOfThePaper) {
  std::int64_t count = 0;
  for (const auto& parameter : LeNet(10).parameters()) {
    count += parameter.numel();
  }
  EXPECT_EQ(count, 61'706);
}

TEST(LeNetTest, GivesLogitsOfEveryClass) {
  const auto net = std::make_shared<LeNet>(10);
  EXPECT_EQ(net->forward(torch::zeros({3, 1, 28, 28})).sizes(),
            torch::IntArrayRef({3, 10}));
}

// A directory with an MNIST of three images to train on and one to validate.
class DigitsTest : public ::testing::Test {
 protected:
  // An idx file: magic, dimensions, bytes of one value.
  static void Write(const fs::path& path, const std::string& header,
                    std::size_t count, char value) {
    std::ofstream(path, std::ios::binary)
        << std::string("\0\0\x08", 3) + header + std::string(count, value);
  }
  void WriteMnist(char label) const {
    const std::string side("\0\0\0\x1C\0\0\0\x1C", 8);
    Write(root_ / "train-images-idx3-ubyte",
          std::string("\x03\0\0\0\x03", 5) + side, 3 * kDigitPixels, 7);
    Write(root_ / "train-labels-idx1-ubyte", std::string("\x01\0\0\0\x03", 5),
          3, label);
    Write(root_ / "t10k-images-idx3-ubyte",
          std::string("\x03\0\0\0\x01", 5) + side, kDigitPixels, 8);
    Write(root_ / "t10k-labels-idx1-ubyte", std::string("\x01\0\0\0\x01", 5), 1,
          9);
  }

  const TemporaryDirectory directory_;
  const fs::path root_ = directory_.path();
};

class LoadDigitsTest : public DigitsTest {
 protected:
  DigitSets Load(const DigitOptions& options) const {
    return LoadDigits(options, [this](const char* name) {
      return std::string_view(name) == "DTRAIN_DATA"
                 ? std::optional<std::string>(root_)
                 : std::nullopt;
    });
  }
};

TEST_F(LoadDigitsTest, UsesMnistIfPresent) {
  WriteMnist(/*label=*/4);
  const DigitSets sets = Load({});
  EXPECT_EQ(sets.training.images.sizes(), torch::IntArrayRef({3, 1, 28, 28}));
  EXPECT_TRUE(sets.training.images.eq(7).all().item<bool>());
  EXPECT_TRUE(torch::equal(sets.training.labels, torch::tensor({4, 4, 4})));
  EXPECT_TRUE(sets.validation.images.eq(8).all().item<bool>());
  EXPECT_TRUE(torch::equal(sets.validation.labels, torch::tensor({9})));
  EXPECT_EQ(sets.description, "MNIST from " + root_.string());
}

TEST_F(LoadDigitsTest, DrawsDigitsWithoutMnist) {
  const DigitSets sets = Load({.threads = 2});
  EXPECT_EQ(sets.training.labels.size(0), 60'000);
  EXPECT_EQ(sets.validation.labels.size(0), 10'000);
  EXPECT_THAT(sets.description, HasSubstr("handwritten digits, seed 0"));
}

TEST_F(LoadDigitsTest, RequiresMnistInTheDirectoryOfTheHyperparameter) {
  EXPECT_THAT([&] { Load({.data = root_ / "nowhere"}); },
              ThrowsMessage<Error>(HasSubstr("no mnist data; looked in " +
                                             (root_ / "nowhere").string())));
}

TEST_F(LoadDigitsTest, RequiresMnistOnRequest) {
  EXPECT_THAT([&] { Load({.dataset = "mnist"}); },
              ThrowsMessage<Error>(HasSubstr("no mnist data")));
}

TEST_F(LoadDigitsTest, RefusesAnotherDataset) {
  EXPECT_THAT([&] { Load({.dataset = "svhn"}); },
              ThrowsMessage<InvalidHyperparameters>(HasSubstr(
                  "'svhn' is unknown; expected auto, mnist or strokes")));
}

TEST_F(LoadDigitsTest, RefusesLabelsOfAnotherCount) {
  WriteMnist(/*label=*/4);
  Write(root_ / "train-labels-idx1-ubyte", std::string("\x01\0\0\0\x02", 5), 2,
        4);
  EXPECT_THAT([&] { Load({}); },
              ThrowsMessage<Error>(HasSubstr("2 labels for 3 images")));
}

TEST_F(LoadDigitsTest, RefusesLabelsAboveNine) {
  WriteMnist(/*label=*/10);
  EXPECT_THAT([&] { Load({}); },
              ThrowsMessage<Error>(HasSubstr("a label is above 9")));
}

// Trains LeNet as a trial is trained, in this process.
class LeNetTrialTest : public DigitsTest {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);  // other tests have the other cores
    ::setenv("XDG_CACHE_HOME", root_.c_str(), 1);
    WriteMnist(/*label=*/4);
    spec_.hparams = {{"global_batch_size", 64}, {"data", root_}};
    spec_.directory = root_;
    spec_.until = Length{.count = 1, .unit = Unit::kEpochs};
    fs::create_directory(root_ / "checkpoints");
  }
  Finished Train() {
    const TrialLink link = {
        .send = [this](TrialMessage message) { sent_.push_back(message); },
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    return TrainTrial(spec_, FindModel("digits:LeNetTrial")->make, link,
                      torch::kCPU, Clock::System());
  }
  std::unique_ptr<Trial> Make() {
    return FindModel("digits:LeNetTrial")->make(context_);
  }
  // The last value of a validation metric.
  double Validated(const std::string& name) const {
    double value = -1;
    for (const TrialMessage& message : sent_) {
      const auto* report = std::get_if<ValidationReport>(&message);
      if (report == nullptr) continue;
      for (const auto& [metric, v] : report->metrics) {
        if (metric == name) value = v;
      }
    }
    return value;
  }

  TrialSpec spec_;
  TrainerContext context_{spec_, torch::kCPU};
  std::vector<TrialMessage> sent_;
};

TEST_F(LeNetTrialTest, BeatsALinearModelOnDigits) {
  spec_.hparams = {{"dataset", "strokes"},    {"global_batch_size", 64},
                   {"optimizer", "adam"},     {"lr", 0.003},
                   {"schedule", "one_cycle"}, {"schedule_epochs", 2}};
  spec_.until = Length{.count = 2, .unit = Unit::kEpochs};
  EXPECT_EQ(Train().reason, EndReason::kCompleted);
  EXPECT_GE(Validated("val_accuracy"), 0.98);
  EXPECT_LE(Validated("val_loss"), 0.08);
}

// Accuracy of multinomial logistic regression on the digits, as good as
// it gets.
TEST(LogisticRegressionTest, FailsOnTheDigits) {
  torch::set_num_threads(1);
  const DigitSets sets = LoadDigits({.dataset = "strokes", .threads = 2},
                                    [](auto) { return std::nullopt; });
  MemorySource source(sets.training, {.batch_size = 250, .shuffle = true},
                      sets.normalization, torch::kCPU);
  torch::nn::Linear model(kDigitPixels, 10);
  torch::optim::Adam optimizer(model->parameters(), /*lr=*/1e-3);
  for (int i = 0; i < 8 * 240; ++i) {
    const Batch batch = source.Read();
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model(batch.data.flatten(1)),
                                         batch.target)
        .backward();
    optimizer.step();
  }
  const torch::NoGradGuard guard;
  MemorySource held_out(sets.validation, {.batch_size = 10'000},
                        sets.normalization, torch::kCPU);
  const Batch batch = held_out.Read();
  const double accuracy = model(batch.data.flatten(1))
                              .argmax(1)
                              .eq(batch.target)
                              .to(torch::kDouble)
                              .mean()
                              .item<double>();
  RecordProperty("accuracy", std::to_string(accuracy));
  EXPECT_LE(accuracy, 0.92);
  EXPECT_GE(accuracy, 0.5);  // it did learn
}

TEST_F(LeNetTrialTest, ReportsLossAndAccuracy) {
  EXPECT_EQ(Train().reason, EndReason::kCompleted);
  EXPECT_GT(Validated("val_loss"), 0);
  EXPECT_GE(Validated("val_accuracy"), 0);
}

TEST_F(LeNetTrialTest, TrainsOnTheFirstSamplesIfAsked) {
  spec_.hparams["training_samples"] = 2;
  EXPECT_EQ(Make()->TrainingData()->SamplesPerEpoch(), 2);
}

TEST_F(LeNetTrialTest, EndsAsInvalidForAnUnknownOptimizer) {
  spec_.hparams["optimizer"] = "lamb";
  EXPECT_EQ(Train().reason, EndReason::kInvalidHp);
}

TEST_F(LeNetTrialTest, PredictsProbabilities) {
  const torch::Tensor said =
      Make()->Predict({.data = torch::zeros({2, 1, 28, 28})});
  EXPECT_TRUE(torch::allclose(said.sum(1), torch::ones({2})));
}

TEST_F(LeNetTrialTest, ValidatesOnItsSecondSet) {
  const auto trial = Make();
  EXPECT_EQ(trial->TrainingData()->SamplesPerEpoch(), 3);
  EXPECT_EQ(trial->ValidationData()->SamplesPerEpoch(), 1);
  EXPECT_EQ(trial->ValidationData()->Read().target.item<std::int64_t>(), 9);
  EXPECT_EQ(trial->TestData(), nullptr);
}

}  // namespace
}  // namespace dtrain
