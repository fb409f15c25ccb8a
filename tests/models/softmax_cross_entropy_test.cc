#include "models/ops/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include "engine/train/torch_modules.h"

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

}  // namespace
}  // namespace dtrain
