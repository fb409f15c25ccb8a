#include "models/ops/softmax_cross_entropy.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/base/error.h"
#include "engine/kernels/cross_entropy.h"
#include "engine/train/torch_modules.h"
#include "models/building_blocks.h"
#include "tests/engine/kernels/host_block.h"
#include "tests/support/recorded_graph.h"

namespace dtrain {
namespace {

class SoftmaxCrossEntropyTest : public testing::Test {
 protected:
  SoftmaxCrossEntropyTest() { torch::manual_seed(4); }

  torch::Tensor logits_ =
      torch::randn({5, 7}, torch::kDouble).mul_(3).requires_grad_();
  const torch::Tensor target_ = torch::tensor({0, 6, 3, 3, 1}, torch::kInt64);
};

TEST_F(SoftmaxCrossEntropyTest, AgreesWithFiniteDifferences) {
  (SoftmaxCrossEntropy(logits_, target_) * 2).backward();
  const torch::NoGradGuard guard;
  constexpr double kStep = 1e-5;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 7; ++j) {
      const auto at = [&](double step) {
        torch::Tensor moved = logits_.clone();
        moved[i][j] += step;
        return 2 * SoftmaxCrossEntropy(moved, target_).item<double>();
      };
      EXPECT_NEAR(logits_.grad()[i][j].item<double>(),
                  (at(kStep) - at(-kStep)) / (2 * kStep), 1e-9);
    }
  }
}

TEST_F(SoftmaxCrossEntropyTest, AgreesWithLibTorch) {
  const torch::Tensor ours = SoftmaxCrossEntropy(logits_, target_);
  ours.backward();
  const torch::Tensor gradient = logits_.grad().clone();
  logits_.mutable_grad().reset();
  const torch::Tensor theirs =
      torch::nn::functional::cross_entropy(logits_, target_);
  theirs.backward();
  EXPECT_NEAR(ours.item<double>(), theirs.item<double>(), 1e-14);
  EXPECT_TRUE(torch::allclose(gradient, logits_.grad(), 1e-12, 1e-15));
}

TEST_F(SoftmaxCrossEntropyTest, IsStableForLargeLogits) {
  const torch::Tensor logits = torch::tensor({{1e4, -1e4}}, torch::kDouble);
  EXPECT_EQ(SoftmaxCrossEntropy(logits, torch::tensor({0})).item<double>(), 0);
  EXPECT_EQ(SoftmaxCrossEntropy(logits, torch::tensor({1})).item<double>(),
            2e4);
}

// The CUDA kernels, on the CPU.
template <bool kReversed>
int ForwardOnHost(const CrossEntropyJob* job, void*) {
  const auto shared = std::make_unique<CrossEntropyShared>();
  // Memory of a GPU's block has any values at first: NaN, here.
  std::memset(shared.get(), 0xFF, sizeof(CrossEntropyShared));
  const HostBlock block{kCrossEntropyThreads, kReversed};
  CrossEntropyForward(*job, *shared, block).Run();
  return 0;
}

template <bool kReversed>
int GradientOnHost(const CrossEntropyGradientJob* job, void*) {
  const HostBlock block{kCrossEntropyThreads, kReversed};
  for (std::int64_t i = 0; i < CrossEntropyGradientBlocks(*job); ++i) {
    block.ForEach([&](int thread) { CrossEntropyGradient(*job, i, thread); });
  }
  return 0;
}

constexpr CrossEntropyKernels kHostKernels = {
    .forward = ForwardOnHost<false>, .gradient = GradientOnHost<false>};
constexpr CrossEntropyKernels kReversedKernels = {
    .forward = ForwardOnHost<true>, .gradient = GradientOnHost<true>};

struct LossResults {
  torch::Tensor loss;
  torch::Tensor accuracy;
  torch::Tensor gradient;  // by the logits, of three times the loss
};

LossResults ComputeResults(const torch::Tensor& logits,
                           const torch::Tensor& target,
                           const CrossEntropyKernels& kernels) {
  const torch::Tensor x = logits.clone().requires_grad_();
  const auto [loss, accuracy] = FusedCrossEntropy(x, target, kernels);
  (loss * 3).backward();
  return {loss.detach(), accuracy, x.grad()};
}

LossResults LibTorchsResults(const torch::Tensor& logits,
                             const torch::Tensor& target) {
  const torch::Tensor x = logits.to(torch::kDouble).requires_grad_();
  const torch::Tensor loss = torch::nn::functional::cross_entropy(x, target);
  (loss * 3).backward();
  return {loss.detach(), Accuracy(logits, target), x.grad()};
}

void ExpectSame(const LossResults& ours, const LossResults& theirs,
                double tolerance) {
  const auto same = [&](const torch::Tensor& one, const torch::Tensor& other) {
    return torch::allclose(one.to(torch::kDouble), other.to(torch::kDouble),
                           tolerance, tolerance, /*equal_nan=*/true);
  };
  EXPECT_TRUE(same(ours.loss, theirs.loss)) << ours.loss << theirs.loss;
  EXPECT_TRUE(same(ours.accuracy, theirs.accuracy)) << ours.accuracy;
  EXPECT_TRUE(same(ours.gradient, theirs.gradient)) << ours.gradient;
}

class CrossEntropyKernelTest
    : public testing::TestWithParam<std::array<std::int64_t, 2>> {
 protected:
  CrossEntropyKernelTest() { torch::manual_seed(5); }

  const std::int64_t rows_ = GetParam()[0];
  const std::int64_t classes_ = GetParam()[1];
  const torch::Tensor logits_ = torch::randn({rows_, classes_}).mul_(4);
  const torch::Tensor target_ =
      torch::randint(0, classes_, {rows_}, torch::kInt64);
};

TEST_P(CrossEntropyKernelTest, AgreesWithLibTorch) {
  ExpectSame(ComputeResults(logits_, target_, kHostKernels),
             LibTorchsResults(logits_, target_), 2e-6);
}

TEST_P(CrossEntropyKernelTest, DoesNotDependOnTheOrderOfThreads) {
  ExpectSame(ComputeResults(logits_, target_, kHostKernels),
             ComputeResults(logits_, target_, kReversedKernels), 0);
}

TEST_P(CrossEntropyKernelTest, IgnoresRowsAsLibTorchDoes) {
  target_.slice(/*dim=*/0, /*start=*/0, rows_, /*step=*/3).fill_(-100);
  ExpectSame(ComputeResults(logits_, target_, kHostKernels),
             LibTorchsResults(logits_, target_), 2e-6);
}

// Few different values: the first of equal logits is the predicted class.
TEST_P(CrossEntropyKernelTest, PredictsAsArgmaxDoes) {
  const torch::Tensor ties = logits_.div(4).round_();
  ExpectSame(ComputeResults(ties, target_, kHostKernels),
             LibTorchsResults(ties, target_), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CrossEntropyKernelTest,
                         testing::Values(std::array<std::int64_t, 2>{1, 1},
                                         std::array<std::int64_t, 2>{1, 10},
                                         std::array<std::int64_t, 2>{7, 3},
                                         std::array<std::int64_t, 2>{64, 10},
                                         std::array<std::int64_t, 2>{257, 10},
                                         std::array<std::int64_t, 2>{1000, 10},
                                         std::array<std::int64_t, 2>{33, 129},
                                         std::array<std::int64_t, 2>{1025, 2},
                                         std::array<std::int64_t, 2>{3, 5000}));

TEST(FusedCrossEntropyTest, TreatsInfinityAndNanAsLibTorch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> rows = {
      {-kInfinity, 1, 2, -kInfinity, -kInfinity, -kInfinity},
      {kInfinity, 1, 2, 3, 4, 5},
      {-kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity},
      {1, kNan, 9, kNan, 3, 4},
      {1e30F, -1e30F, 0, 0, 0, 0}};
  for (const std::vector<float>& row : rows) {
    for (const std::int64_t label : {0, 1, 2}) {
      const torch::Tensor logits = torch::tensor(row).unsqueeze(0);
      const torch::Tensor target = torch::tensor({label});
      ExpectSame(ComputeResults(logits, target, kHostKernels),
                 LibTorchsResults(logits, target), 1e-6);
    }
  }
}

TEST(FusedCrossEntropyTest, LaunchesNoOperationOfLibTorch) {
  const torch::Tensor logits = torch::randn({8, 10}).requires_grad_();
  const torch::Tensor target = torch::zeros({8}, torch::kInt64);
  const torch::Tensor one = torch::ones({});
  RecordedGraph graph;
  graph.Capture([&] {
    const auto results = FusedCrossEntropy(logits, target, kHostKernels);
    torch::autograd::grad({results.loss}, {logits}, {one});
  });
  EXPECT_THAT(graph.launches(), testing::IsEmpty());
}

TEST(FusedCrossEntropyTest, TakesHalfPrecisionAndOtherStrides) {
  torch::manual_seed(5);
  const torch::Tensor logits = torch::randn({10, 6}).to(torch::kBFloat16).t();
  const torch::Tensor target = torch::randint(0, 10, {6}, torch::kInt64);
  const LossResults ours = ComputeResults(logits, target, kHostKernels);
  EXPECT_EQ(ours.loss.scalar_type(), torch::kFloat);
  EXPECT_EQ(ours.gradient.scalar_type(), torch::kBFloat16);
  ExpectSame(ours, LibTorchsResults(logits, target), 1e-2);
}

TEST(FusedCrossEntropyTest, NamesCudasError) {
  constexpr CrossEntropyKernels kFailing = {
      .forward = [](const CrossEntropyJob*, void*) { return 719; },
      .gradient = GradientOnHost<false>};
  EXPECT_THAT(
      [&] {
        FusedCrossEntropy(torch::zeros({2, 2}), torch::tensor({0, 1}),
                          kFailing);
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("CUDA error 719")));
}

// Trainings on CPUs keep their bits.
TEST(CrossEntropyTest, OnCpusItIsLibTorchs) {
  torch::manual_seed(5);
  const torch::Tensor logits = torch::randn({64, 10});
  const torch::Tensor target = torch::randint(0, 10, {64}, torch::kInt64);
  const torch::Tensor expected =
      torch::nn::functional::cross_entropy(logits, target);
  EXPECT_TRUE(torch::equal(CrossEntropy(logits, target), expected));
  const LossAndAccuracy both = CrossEntropyAndAccuracy(logits, target);
  EXPECT_TRUE(torch::equal(both.loss, expected));
  EXPECT_TRUE(torch::equal(both.accuracy, Accuracy(logits, target)));
}

}  // namespace
}  // namespace dtrain
