// Edge cases of the kernels: ties, NaN, ranges, pointers.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/kernels/conv.h"
#include "tests/engine/kernels/conv_reference.h"
#include "tests/engine/kernels/conv_variants.h"

namespace dtrain {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;
using testing::ThrowsMessage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ConvMeaningTest : public ConvVariantTest {
 protected:
  // A window of 2x2 through a kernel that changes nothing: the output, and
  // where the gradient of 5 goes.
  struct Window {
    float output = 0;
    std::vector<float> gradient;
  };
  Window Pool(const std::vector<float>& values, bool relu) const {
    const ConvShape shape{
        .height = 2, .width = 2, .bias = false, .relu = relu, .pool = true};
    ConvTensors<float> tensors = DrawTensors(shape, 1, Draw::kGrid, 1);
    tensors.input = values;
    tensors.weight = {1};
    tensors.grad_output = {5};
    RunConv(shape, 1, kernels(), tensors);
    return {tensors.output[0], tensors.grad_input};
  }
};

INSTANTIATE_TEST_SUITE_P(Variants, ConvMeaningTest, ConvVariants(),
                         ConvVariantName);

TEST_P(ConvMeaningTest, TheFirstOfEqualMaximaTakesTheGradient) {
  EXPECT_THAT(Pool({1, 2, 2, 2}, true).gradient, ElementsAre(0, 5, 0, 0));
  EXPECT_THAT(Pool({3, 3, 3, 3}, true).gradient, ElementsAre(5, 0, 0, 0));
  EXPECT_THAT(Pool({-4, -4, -3, -3}, false).gradient, ElementsAre(0, 0, 5, 0));
  EXPECT_THAT(
      Pool({-kInfinity, -kInfinity, -kInfinity, -kInfinity}, false).gradient,
      ElementsAre(5, 0, 0, 0));
}

TEST_P(ConvMeaningTest, ReluLetsNothingThroughAtZero) {
  const Window window = Pool({-1, 0, -0.0F, -2}, true);
  EXPECT_EQ(window.output, 0);
  EXPECT_THAT(window.gradient, Each(0));
  EXPECT_THAT(Pool({-1, 0, -0.0F, -2}, false).gradient,
              ElementsAre(0, 5, 0, 0));
}

TEST_P(ConvMeaningTest, NanPassesThroughReluAndPooling) {
  const Window first = Pool({kNan, 9, 1, 2}, true);
  EXPECT_THAT(first.output, IsNan());
  EXPECT_THAT(first.gradient, ElementsAre(5, 0, 0, 0));
  EXPECT_THAT(Pool({1, 2, 3, kNan}, true).output, IsNan());
  EXPECT_THAT(Pool({1, 2, 3, kNan}, true).gradient, ElementsAre(0, 0, 0, 5));
  EXPECT_THAT(Pool({kInfinity, kNan, -1, 4}, false).output, IsNan());
}

// PyTorch too replaces the maximum by each NaN.
TEST_P(ConvMeaningTest, TheLastNanOfAWindowTakesTheGradient) {
  EXPECT_THAT(Pool({kNan, 1, kNan, 3}, true).gradient, ElementsAre(0, 0, 5, 0));
}

TEST_P(ConvMeaningTest, NanPassesThroughReluAlone) {
  const ConvShape shape{
      .height = 1, .width = 3, .bias = false, .relu = true, .pool = false};
  ConvTensors<float> tensors = DrawTensors(shape, 1, Draw::kGrid, 1);
  tensors.input = {kNan, -kInfinity, 2};
  tensors.weight = {1};
  tensors.grad_output = {5, 6, 7};
  RunConv(shape, 1, kernels(), tensors);
  EXPECT_THAT(tensors.output, ElementsAre(IsNan(), 0, 2));
  EXPECT_THAT(tensors.grad_input, ElementsAre(5, 0, 7));
}

TEST_P(ConvMeaningTest, ANanStaysInItsImage) {
  const ConvShape shape{.in_channels = 2,
                        .height = 7,
                        .width = 7,
                        .out_channels = 3,
                        .kernel = 3,
                        .padding = 1};
  ConvTensors<float> tensors = DrawTensors(shape, 9, Draw::kGrid, 3);
  tensors.input[0] = kNan;  // of image 0, in a corner
  const ConvTensors<double> expected = ReferenceConv(shape, 9, tensors);
  RunConv(shape, 9, kernels(), tensors);
  EXPECT_EQ(Difference(tensors.output, expected.output), 0);
  EXPECT_EQ(Difference(tensors.grad_input, expected.grad_input), 0);
}

constexpr ConvShape kShape{.in_channels = 3,
                           .height = 9,
                           .width = 11,
                           .out_channels = 4,
                           .kernel = 3,
                           .padding = 1};

// Pointers to the floats one behind the start of each tensor.
struct Shifted {
  explicit Shifted(const ConvTensors<float>& from) : tensors(from) {
    for (auto* values :
         {&tensors.input, &tensors.weight, &tensors.bias, &tensors.output,
          &tensors.grad_output, &tensors.grad_input, &tensors.grad_weight,
          &tensors.grad_bias}) {
      values->insert(values->begin(), 99.0F);
    }
  }

  void Run(const ConvKernels& kernels, ImageRange range) {
    std::vector<std::uint8_t> kept(kShape.KeptBytes(range.last) + 1);
    ConvForward(kShape,
                {.input = &tensors.input[1],
                 .weight = &tensors.weight[1],
                 .bias = &tensors.bias[1],
                 .output = &tensors.output[1],
                 .kept = &kept[1]},
                range, scratch, kernels);
    ConvBackward(kShape,
                 {.input = &tensors.input[1],
                  .weight = &tensors.weight[1],
                  .kept = &kept[1],
                  .grad_output = &tensors.grad_output[1],
                  .grad_input = &tensors.grad_input[1],
                  .grad_weight = &tensors.grad_weight[1],
                  .grad_bias = &tensors.grad_bias[1]},
                 range, scratch, kernels);
  }

  ConvTensors<float> Back() const {
    ConvTensors<float> back = tensors;
    for (auto* values :
         {&back.output, &back.grad_input, &back.grad_weight, &back.grad_bias}) {
      EXPECT_EQ(values->front(), 99.0F);
      values->erase(values->begin());
    }
    return back;
  }

  ConvTensors<float> tensors;
  ConvScratch scratch;
};

TEST_P(ConvMeaningTest, PointersNeedBeAlignedForFloatsAlone) {
  const ConvTensors<float> tensors = DrawTensors(kShape, 16, Draw::kGrid, 4);
  Shifted shifted(tensors);
  shifted.Run(kernels(), {0, 16});
  EXPECT_EQ(Difference(shifted.Back(), ReferenceConv(kShape, 16, tensors)), 0);
}

// Images 8 to 15 by themselves, then the others with the same scratch.
TEST_P(ConvMeaningTest, RangesMakeUpTheBatch) {
  const std::int64_t block = ImagesPerBlock(kernels());
  const std::int64_t images = 2 * block + 3;
  const ConvTensors<float> tensors =
      DrawTensors(kShape, images, Draw::kGrid, 5);
  Shifted shifted(tensors);
  shifted.Run(kernels(), {block, 2 * block});
  const std::int64_t image = kShape.in_channels * kShape.height * kShape.width;
  EXPECT_EQ(shifted.tensors.grad_input[block * image], 0);
  EXPECT_EQ(shifted.tensors.grad_input[1 + 2 * block * image], 0);
  shifted.Run(kernels(), {2 * block, images});
  shifted.Run(kernels(), {0, block});
  EXPECT_EQ(Difference(shifted.Back(), ReferenceConv(kShape, images, tensors)),
            0);
}

TEST_P(ConvMeaningTest, NoImagesChangeNothing) {
  Shifted shifted(DrawTensors(kShape, 0, Draw::kGrid, 6));
  ConvScratch scratch;
  ConvForward(kShape, {}, {0, 0}, scratch, kernels());
  ConvBackward(kShape, {.grad_weight = &shifted.tensors.grad_weight[1]}, {0, 0},
               scratch, kernels());
  EXPECT_THAT(shifted.Back().grad_weight, Each(1.0F));
}

TEST_P(ConvMeaningTest, WithoutKeptTheOutputIsTheSame) {
  ConvTensors<float> tensors = DrawTensors(kShape, 9, Draw::kReal, 7);
  ConvTensors<float> alone = tensors;
  RunConv(kShape, 9, kernels(), tensors);
  ConvScratch scratch;
  ConvForward(kShape,
              {.input = alone.input.data(),
               .weight = alone.weight.data(),
               .bias = alone.bias.data(),
               .output = alone.output.data()},
              {0, 9}, scratch, kernels());
  EXPECT_EQ(alone.output, tensors.output);
}

TEST_P(ConvMeaningTest, GradientsThatAreNotWantedMayBeNull) {
  ConvTensors<float> tensors = DrawTensors(kShape, 9, Draw::kReal, 8);
  RunConv(kShape, 9, kernels(), tensors);
  std::vector<std::uint8_t> kept(kShape.KeptBytes(9));
  ConvScratch scratch;
  ConvForward(kShape,
              {.input = tensors.input.data(),
               .weight = tensors.weight.data(),
               .bias = tensors.bias.data(),
               .output = tensors.output.data(),
               .kept = kept.data()},
              {0, 9}, scratch, kernels());
  ConvBackwardData back{.input = tensors.input.data(),
                        .weight = tensors.weight.data(),
                        .kept = kept.data(),
                        .grad_output = tensors.grad_output.data()};
  std::vector<float> grad_input(tensors.grad_input.size());
  back.grad_input = grad_input.data();
  ConvBackward(kShape, back, {0, 9}, scratch, kernels());
  EXPECT_EQ(grad_input, tensors.grad_input);
  std::vector<float> grad_weight(tensors.grad_weight.size(), 1.0F);
  back.grad_input = nullptr;
  back.grad_weight = grad_weight.data();
  ConvBackward(kShape, back, {0, 9}, scratch, kernels());
  EXPECT_EQ(grad_weight, tensors.grad_weight);
}

TEST(ConvShapeTest, ReportsInvalidShapes) {
  EXPECT_THAT([] { CheckConvShape({.in_channels = 0}); },
              ThrowsMessage<Error>(HasSubstr("at least 1, one is 0")));
  EXPECT_THAT([] { CheckConvShape({.padding = -1}); },
              ThrowsMessage<Error>(HasSubstr("padding must not be negative")));
  EXPECT_THAT(
      [] { CheckConvShape({.height = 4, .width = 9, .kernel = 5}); },
      ThrowsMessage<Error>(HasSubstr("nothing is left of an image of 4x9")));
  EXPECT_THAT([] { CheckConvShape({.height = 5, .width = 9, .kernel = 5}); },
              ThrowsMessage<Error>(HasSubstr("and pooling")));
}

TEST(ConvShapeTest, PoolingDropsAnOddRowAndColumn) {
  const ConvShape shape{
      .height = 9, .width = 8, .out_channels = 2, .kernel = 3};
  EXPECT_EQ(shape.output_height(), 3);
  EXPECT_EQ(shape.output_width(), 3);
  EXPECT_EQ(shape.KeptBytes(9), 16 * 2 * 3 * 3);
  EXPECT_EQ((ConvShape{.relu = false, .pool = false}.KeptBytes(9)), 0);
}

}  // namespace
}  // namespace dtrain
