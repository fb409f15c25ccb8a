#include "models/nets/image_classifier.h"

#include <string>

#include <gtest/gtest.h>
#include <torch/optim.h>
#include <zlib.h>

#include "engine/base/error.h"
#include "models/image_archs.h"
#include "tests/support/recorded_network.h"

namespace dtrain {
namespace {

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

class ImageArchTest : public testing::TestWithParam<std::string_view> {};

TEST_P(ImageArchTest, HasTheNamesShapesAndOrderOfTorchvision) {
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

}  // namespace
}  // namespace dtrain
