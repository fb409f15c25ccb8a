#include "models/nets/image_classifier.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <zlib.h>

#include "engine/base/error.h"
#include "engine/checkpoint/safetensors.h"
#include "models/building_blocks.h"
#include "models/data_files.h"
#include "tests/support/recorded_network.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

namespace {

// float32 would give 0.7350000083446503.
TEST(AccuracyTest, IsExactForTheMeanOverBatches) {
  const torch::Tensor target = torch::zeros({100}, torch::kInt64);
  double right = 0;
  for (const std::int64_t count : {73, 74}) {
    torch::Tensor logits = torch::zeros({100, 3});
    logits.select(1, 0).fill_(0.5);
    logits.slice(0, count).select(1, 2).fill_(1);
    EXPECT_EQ(TopKAccuracy(logits, target, 1).item<double>(), count / 100.0);
    right += Accuracy(logits, target).item<double>() * 100;
  }
  EXPECT_EQ(right / 200, 0.735);
}

// The names and shapes of a state dict, a line each, as Python orders them:
// parameters and buffers of a module, then its children.
std::string StateLines(const torch::nn::Module& module,
                       const std::string& prefix) {
  std::string lines;
  const auto add = [&](const auto& entries) {
    for (const auto& entry : entries) {
      std::string sizes;
      for (const std::int64_t size : entry.value().sizes()) {
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
      }
      lines += prefix + entry.key() + " [" + sizes + "]\n";
    }
  };
  add(module.named_parameters(/*recurse=*/false));
  add(module.named_buffers(/*recurse=*/false));
  for (const auto& child : module.named_children()) {
    lines += StateLines(*child.value(), prefix + child.key() + ".");
  }
  return lines;
}

// A shape of feature maps and the side that they are averaged to.
struct Averaging {
  std::vector<std::int64_t> sizes;
  std::int64_t side;
};

class AverageTest : public testing::TestWithParam<Averaging> {};

TEST_P(AverageTest, EqualsAdaptivePoolingWithItsGradient) {
  torch::manual_seed(1);
  const auto& [sizes, side] = GetParam();
  const torch::Tensor maps = torch::randn(sizes);
  const torch::Tensor weights = torch::randn({sizes[0], sizes[1], side, side});
  const auto value_and_gradient = [&](const auto& average) {
    const torch::Tensor input = maps.clone().requires_grad_();
    const torch::Tensor output = average(input);
    (output * weights).sum().backward();
    return std::pair(output.detach(), input.grad());
  };
  const auto expected = value_and_gradient([&](const torch::Tensor& input) {
    return torch::adaptive_avg_pool2d(input, {side, side});
  });
  const auto same = value_and_gradient(
      [&](const torch::Tensor& input) { return AverageToSquare(input, side); });
  EXPECT_TRUE(torch::equal(same.first, expected.first));
  EXPECT_TRUE(torch::equal(same.second, expected.second));
  const auto near = value_and_gradient([&](const torch::Tensor& input) {
    return AverageByMatrices(input, side);
  });
  EXPECT_TRUE(torch::allclose(near.first, expected.first, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(near.second, expected.second, 1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AverageTest,
    testing::Values(Averaging{{2, 3, 7, 7}, 7}, Averaging{{2, 3, 6, 6}, 6},
                    Averaging{{1, 4, 13, 9}, 6}, Averaging{{2, 2, 3, 5}, 7},
                    Averaging{{1, 1, 1, 1}, 7}, Averaging{{2, 3, 14, 14}, 7}));

// The gradient of adaptive pooling has no deterministic variant on a GPU.
TEST(AverageToSquareTest, LeavesMapsOfTheRightSizeAlone) {
  const torch::Tensor maps = torch::randn({1, 2, 7, 7}).requires_grad_();
  EXPECT_TRUE(AverageToSquare(maps, 7).is_same(maps));
}

class ImageArchTest : public testing::TestWithParam<std::string_view> {};

TEST_P(ImageArchTest, MatchesNamesShapesAndOrderOfTorchvision) {
  const std::string arch(GetParam());
  const auto net = MakeImageClassifier(arch, 1000);
  const std::string lines = StateLines(*net, "");
  const auto checksum = ::crc32(0, reinterpret_cast<const Bytef*>(lines.data()),
                                static_cast<uInt>(lines.size()));
  EXPECT_EQ(checksum, ReadGolden("networks.json").at(arch).at("signature"))
      << lines;
}

INSTANTIATE_TEST_SUITE_P(Archs, ImageArchTest, testing::ValuesIn(kImageArchs),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

// Against torchvision with the same weights: tests/golden/make_networks.py.
class RecordedArchTest : public testing::TestWithParam<const char*> {};

TEST_P(RecordedArchTest, AgreesWithPyTorch) {
  torch::set_num_threads(1);
  const auto net = MakeImageClassifier(GetParam(), 1000);
  ExpectAsRecorded(GetParam(), *net, [&](const torch::Tensor& images) {
    return net->forward(images);
  });
}

INSTANTIATE_TEST_SUITE_P(Archs, RecordedArchTest,
                         testing::Values("alexnet", "resnet18", "resnet50",
                                         "resnext50_32x4d", "vgg11_bn",
                                         "wide_resnet50_2"),
                         [](const auto& info) { return info.param; });

TEST(ImageClassifierTest, HasAHeadForAnyNumberOfClasses) {
  const auto net = MakeImageClassifier("resnet18", 7);
  net->eval();
  const torch::NoGradGuard guard;
  EXPECT_EQ(net->forward(torch::zeros({2, 3, 32, 32})).sizes(),
            torch::IntArrayRef({2, 7}));
  EXPECT_TRUE(net->named_parameters().contains(net->head() + ".weight"));
}

TEST(ImageClassifierTest, RefusesOtherNames) {
  EXPECT_THROW(MakeImageClassifier("resnet17", 10), Error);
}

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void WriteTensorBytes(const std::vector<TensorBytes>& tensors,
                      const fs::path& file) {
  std::ofstream out(file, std::ios::binary);
  out << SafetensorsHeader(tensors);
  for (const TensorBytes& tensor : tensors) {
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  }
}

// Writes every parameter and buffer of `net` but one, named as in torchvision.
void WriteWeights(const torch::nn::Module& net, const fs::path& file,
                  const std::string& without = "") {
  std::vector<TensorBytes> tensors;
  const auto add = [&](const auto& entries) {
    for (const auto& entry : entries) {
      if (entry.key() == without) continue;
      const torch::Tensor& tensor = entry.value();
      tensors.push_back(
          {.name = entry.key(),
           .dtype = tensor.is_floating_point() ? "F32" : "I64",
           .shape = tensor.sizes().vec(),
           .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()),
                     tensor.nbytes()}});
    }
  };
  add(net.named_parameters());
  add(net.named_buffers());
  WriteTensorBytes(tensors, file);
}

class PretrainedTest : public testing::Test {
 protected:
  PretrainedTest() { torch::set_num_threads(1); }
  static std::shared_ptr<ImageClassifier> Net(std::int64_t classes = 5) {
    return MakeImageClassifier("resnet18", classes);
  }
  std::string Load(ImageClassifier& net,
                   OtherHead other_head = OtherHead::kKeepNew) const {
    return LoadPretrained(net, file_, other_head);
  }

  const TemporaryDirectory directory_;
  const fs::path file_ = directory_.path() / "resnet18.safetensors";
};

TEST_F(PretrainedTest, CopiesEveryWeight) {
  const auto from = Net();
  FillByName(*from);
  WriteWeights(*from, file_);
  const auto to = Net();
  EXPECT_EQ(Load(*to), "pretrained: weights from " + file_.string());
  for (const auto& entry : from->named_parameters()) {
    EXPECT_TRUE(
        torch::equal(entry.value(), to->named_parameters()[entry.key()]))
        << entry.key();
  }
  EXPECT_TRUE(torch::equal(from->named_buffers()["bn1.running_var"],
                           to->named_buffers()["bn1.running_var"]));
}

TEST_F(PretrainedTest, KeepsAHeadForAnotherNumberOfClasses) {
  const auto from = Net(8);
  WriteWeights(*from, file_);
  const auto to = Net(5);
  const torch::Tensor head = to->named_parameters()["fc.weight"].clone();
  EXPECT_THAT(Load(*to), HasSubstr("but for fc, which"));
  EXPECT_TRUE(torch::equal(head, to->named_parameters()["fc.weight"]));
  EXPECT_TRUE(torch::equal(from->named_parameters()["conv1.weight"],
                           to->named_parameters()["conv1.weight"]));
}

TEST_F(PretrainedTest, RefusesAnotherNumberOfClassesIfNoneWasAskedFor) {
  WriteWeights(*Net(8), file_);
  EXPECT_THAT([this] { Load(*Net(5), OtherHead::kError); },
              ThrowsMessage<Error>(
                  HasSubstr("is for 8 classes, and 'num_classes' is 5")));
}

TEST_F(PretrainedTest, RefusesAnotherNetworksWeights) {
  WriteWeights(*MakeImageClassifier("resnet34", 5), file_);
  EXPECT_THAT(
      [this] { Load(*Net()); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr(file_.string()), HasSubstr("has 'layer1.2."),
          HasSubstr(", which the model lacks"), HasSubstr("check 'arch'"))));
}

TEST_F(PretrainedTest, RefusesIncompleteWeights) {
  WriteWeights(*Net(), file_, /*without=*/"fc.bias");
  EXPECT_THAT([this] { Load(*Net()); },
              ThrowsMessage<Error>(HasSubstr("lacks 'fc.bias'")));
}

TEST_F(PretrainedTest, CastsHalfPrecisionAndTakesPrefixesOff) {
  const auto from = Net();
  FillByName(*from);
  const auto to = Net();
  std::vector<TensorBytes> tensors;
  std::vector<torch::Tensor> halves;
  for (const auto& entry : from->named_parameters()) {
    halves.push_back(entry.value().detach().to(torch::kHalf));
    tensors.push_back({.name = "_orig_mod." + entry.key(),
                       .dtype = "F16",
                       .shape = halves.back().sizes().vec(),
                       .bytes = {static_cast<const std::byte*>(
                                     halves.back().const_data_ptr()),
                                 halves.back().nbytes()}});
  }
  for (const auto& entry : from->named_buffers()) {
    if (entry.key().ends_with("num_batches_tracked")) continue;
    halves.push_back(entry.value().to(torch::kDouble));
    tensors.push_back({.name = "_orig_mod." + entry.key(),
                       .dtype = "F64",
                       .shape = halves.back().sizes().vec(),
                       .bytes = {static_cast<const std::byte*>(
                                     halves.back().const_data_ptr()),
                                 halves.back().nbytes()}});
  }
  WriteTensorBytes(tensors, file_);
  Load(*to);
  EXPECT_TRUE(torch::equal(to->named_parameters()["conv1.weight"],
                           from->named_parameters()["conv1.weight"]
                               .to(torch::kHalf)
                               .to(torch::kFloat)));
  EXPECT_TRUE(torch::equal(to->named_buffers()["bn1.running_var"],
                           from->named_buffers()["bn1.running_var"]));
}

TEST_F(PretrainedTest, NeedsNoCountersOfBatchNormalisation) {
  WriteWeights(*Net(), file_, /*without=*/"bn1.num_batches_tracked");
  EXPECT_THAT(Load(*Net()), HasSubstr("pretrained: weights from"));
}

}  // namespace

}  // namespace dtrain
