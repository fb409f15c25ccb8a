#include "engine/train/channels_last.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "engine/train/torch_modules.h"

namespace dtrain {
namespace {

namespace nn = torch::nn;

TEST(ChannelsLastTest, IsForWideNetworksUnlessAsked) {
  const nn::Sequential wide(nn::Conv2d(3, 16, 3), nn::Conv2d(16, 32, 3));
  const nn::Sequential depthwise(
      nn::Conv2d(3, 32, 3),
      nn::Conv2d(nn::Conv2dOptions(32, 32, 3).groups(32)));
  const nn::Sequential small(nn::Conv2d(1, 6, 5), nn::Conv2d(6, 16, 5));
  const nn::Sequential flat(nn::Linear(20, 20));
  EXPECT_TRUE(IsChannelsLast("auto", *wide));
  EXPECT_TRUE(IsChannelsLast("auto", *depthwise));
  EXPECT_FALSE(IsChannelsLast("auto", *small));
  EXPECT_FALSE(IsChannelsLast("auto", *flat));
  EXPECT_TRUE(IsChannelsLast("on", *small));
  EXPECT_FALSE(IsChannelsLast("off", *wide));
}

TEST(ChannelsLastTest, KeepsValuesShapesAndResults) {
  torch::manual_seed(1);
  nn::Sequential net(nn::Conv2d(3, 16, 3), nn::Conv2d(16, 32, 3));
  const torch::Tensor images = torch::randn({2, 3, 8, 8});
  const torch::Tensor before = net->forward(images);
  const torch::Tensor weight = net->parameters()[2].detach().clone();
  StoreChannelsLast(*net);
  const torch::Tensor stored = net->parameters()[2];
  EXPECT_TRUE(stored.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(stored.is_contiguous());
  EXPECT_TRUE(torch::equal(stored, weight));
  const torch::Tensor after = net->forward(images);
  EXPECT_TRUE(after.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(before, after, 1e-5, 1e-6));
  after.sum().backward();
  EXPECT_EQ(stored.grad().sizes(), weight.sizes());
}

}  // namespace
}  // namespace dtrain
