#include "engine/kernels/conv.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/engine/kernels/conv_reference.h"
#include "tests/engine/kernels/conv_variants.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

class ConvTest : public ConvVariantTest {};

INSTANTIATE_TEST_SUITE_P(Variants, ConvTest, ConvVariants(), ConvVariantName);

struct Sample {
  ConvShape shape;
  std::int64_t images = 0;
};

std::string Text(const Sample& sample) {
  const ConvShape& shape = sample.shape;
  return std::to_string(sample.images) + " of " +
         std::to_string(shape.in_channels) + "x" +
         std::to_string(shape.height) + "x" + std::to_string(shape.width) +
         " to " + std::to_string(shape.out_channels) + ", kernel " +
         std::to_string(shape.kernel) + ", padding " +
         std::to_string(shape.padding) + ", bias " +
         std::to_string(shape.bias) + ", relu " + std::to_string(shape.relu) +
         ", pool " + std::to_string(shape.pool);
}

bool Fits(const ConvShape& shape) {
  try {
    CheckConvShape(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

constexpr unsigned kSamples = kSanitized ? 24 : 160;

// The flags go through all their combinations, the sizes are drawn.
Sample DrawSample(unsigned number) {
  std::mt19937 random(number);
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random() % (to - from + 1));
  };
  Sample sample;
  ConvShape& shape = sample.shape;
  do {
    shape = {.in_channels = draw(1, 5),
             .height = draw(1, 15),
             .width = draw(1, 15),
             .out_channels = draw(1, 9),
             .kernel = draw(1, 11),
             .padding = draw(0, 3),
             .bias = (number & 1) != 0,
             .relu = (number & 2) != 0,
             .pool = (number & 4) != 0};
  } while (!Fits(shape));
  const std::int64_t products = shape.in_channels * shape.out_channels *
                                shape.kernel * shape.kernel * shape.height *
                                shape.width;
  sample.images = draw(1, products < 40'000 ? 33 : 9);
  return sample;
}

double MaxDifference(const Sample& sample, Draw draw,
                     const ConvKernels& kernels) {
  ConvTensors<float> tensors =
      DrawTensors(sample.shape, sample.images, draw, /*seed=*/7);
  const ConvTensors<double> expected =
      ReferenceConv(sample.shape, sample.images, tensors);
  RunConv(sample.shape, sample.images, kernels, tensors);
  return Difference(tensors, expected);
}

TEST_P(ConvTest, IsExactForExactFloats) {
  for (unsigned number = 0; number < kSamples; ++number) {
    const Sample sample = DrawSample(number);
    EXPECT_EQ(MaxDifference(sample, Draw::kGrid, kernels()), 0) << Text(sample);
  }
}

TEST_P(ConvTest, EqualsPlainLoops) {
  for (unsigned number = 1000; number < 1000 + kSamples; ++number) {
    const Sample sample = DrawSample(number);
    EXPECT_LE(MaxDifference(sample, Draw::kReal, kernels()), 1e-5)
        << Text(sample);
  }
}

TEST_P(ConvTest, EqualsPlainLoopsForEveryKernelSize) {
  for (int kernel = 1; kernel <= 12; ++kernel) {
    const Sample sample{.shape = {.in_channels = 2,
                                  .height = 13,
                                  .width = 14,
                                  .out_channels = 5,
                                  .kernel = kernel},
                        .images = 9};
    EXPECT_EQ(MaxDifference(sample, Draw::kGrid, kernels()), 0) << kernel;
  }
}

TEST_P(ConvTest, EqualsPlainLoopsForTheLayersOfLeNet) {
  const Sample first{.shape = {.in_channels = 1,
                               .height = 32,
                               .width = 32,
                               .out_channels = 6,
                               .kernel = 5},
                     .images = 9};
  EXPECT_EQ(MaxDifference(first, Draw::kGrid, kernels()), 0);
  EXPECT_LE(MaxDifference(first, Draw::kReal, kernels()), 1e-5);
  const Sample second{.shape = {.in_channels = 6,
                                .height = 14,
                                .width = 14,
                                .out_channels = 16,
                                .kernel = 5},
                      .images = 9};
  EXPECT_EQ(MaxDifference(second, Draw::kGrid, kernels()), 0);
  EXPECT_LE(MaxDifference(second, Draw::kReal, kernels()), 1e-5);
}

TEST_P(ConvTest, PaddingMayBeWiderThanTheKernel) {
  const Sample sample{.shape = {.in_channels = 2,
                                .height = 3,
                                .width = 5,
                                .out_channels = 4,
                                .kernel = 2,
                                .padding = 6},
                      .images = 3};
  EXPECT_EQ(MaxDifference(sample, Draw::kGrid, kernels()), 0);
}

struct Pair {
  ConvTensors<float> portable;
  ConvTensors<double> other;
};

Pair RunBoth(const Sample& sample, Draw draw, const ConvKernels& kernels) {
  ConvTensors<float> portable =
      DrawTensors(sample.shape, sample.images, draw, /*seed=*/9);
  ConvTensors<float> other = portable;
  RunConv(sample.shape, sample.images, *UsableConvKernels().front(), portable);
  RunConv(sample.shape, sample.images, kernels, other);
  return {portable, Widened(other)};
}

TEST_P(ConvTest, AgreesWithThePortableOne) {
  for (unsigned number = 2000; number < 2000 + kSamples; ++number) {
    const Sample sample = DrawSample(number);
    const Pair real = RunBoth(sample, Draw::kReal, kernels());
    EXPECT_LE(Difference(real.portable.output, real.other.output), 1e-6)
        << Text(sample);
    EXPECT_LE(Difference(real.portable.grad_input, real.other.grad_input), 1e-6)
        << Text(sample);
    const Pair positive = RunBoth(sample, Draw::kPositive, kernels());
    EXPECT_LE(Difference(positive.portable, positive.other), 1e-6)
        << Text(sample);
  }
}

TEST(ConvVariantsTest, TheBestIsChosenForTheProcessor) {
  std::vector<std::string> names;
  for (const ConvKernels* kernels : UsableConvKernels()) {
    names.emplace_back(KernelsName(*kernels));
  }
  EXPECT_EQ(names.front(), "portable");
  EXPECT_EQ(&BestConvKernels(), UsableConvKernels().back());
#if defined(__x86_64__) && defined(__linux__)
  const auto has = [&](const char* name) {
    return std::ranges::find(names, name) != names.end();
  };
  EXPECT_EQ(has("avx2"),
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(has("avx512"), has("avx2") && __builtin_cpu_supports("avx512bw") &&
                               __builtin_cpu_supports("avx512dq") &&
                               __builtin_cpu_supports("avx512vl"));
#endif
}

// The sum of the outputs, each times its grad_output: what the gradients are
// of.
double Loss(const Sample& sample, ConvTensors<float> tensors,
            const ConvKernels& kernels) {
  RunConv(sample.shape, sample.images, kernels, tensors);
  double sum = 0;
  for (std::size_t i = 0; i < tensors.output.size(); ++i) {
    sum += static_cast<double>(tensors.output[i]) * tensors.grad_output[i];
  }
  return sum;
}

// The largest difference between a gradient and what the loss changes by.
double SlopeDifference(const Sample& sample, const ConvTensors<float>& tensors,
                       std::vector<float> ConvTensors<float>::*values,
                       const std::vector<float>& gradient, double start,
                       const ConvKernels& kernels) {
  constexpr float kStep = 1.0F / 512;
  double largest = 0;
  for (std::size_t i = 0; i < gradient.size(); i += gradient.size() / 8 + 1) {
    ConvTensors<float> more = tensors;
    ConvTensors<float> less = tensors;
    (more.*values)[i] += kStep;
    (less.*values)[i] -= kStep;
    const double slope =
        (Loss(sample, more, kernels) - Loss(sample, less, kernels)) /
        (2 * kStep);
    largest = std::max(largest, std::abs(slope - (gradient[i] - start)));
  }
  return largest;
}

TEST_P(ConvTest, GradientIsTheSlopeOfTheOutput) {
  const Sample sample{.shape = {.in_channels = 2,
                                .height = 9,
                                .width = 8,
                                .out_channels = 3,
                                .kernel = 3,
                                .padding = 1},
                      .images = 3};
  using Tensors = ConvTensors<float>;
  const Tensors tensors =
      DrawTensors(sample.shape, sample.images, Draw::kReal, 5);
  Tensors done = tensors;
  RunConv(sample.shape, sample.images, kernels(), done);
  const auto difference = [&](auto values, const std::vector<float>& gradient,
                              double start) {
    return SlopeDifference(sample, tensors, values, gradient, start, kernels());
  };
  EXPECT_LE(difference(&Tensors::input, done.grad_input, 0), 2e-2);
  EXPECT_LE(difference(&Tensors::weight, done.grad_weight, 1), 2e-2);
  EXPECT_LE(difference(&Tensors::bias, done.grad_bias, 1), 2e-2);
}

}  // namespace
}  // namespace dtrain
