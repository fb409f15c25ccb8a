#include "engine/train/gradient_sync.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/optim.h>

#include "engine/train/gradients.h"
#include "tests/engine/train/in_ranks.h"

namespace dtrain {
namespace {

constexpr int kRanks = 3;
constexpr float kMeanOfRanks = 2;  // of 1, 2, 3

// Some parameters of one rank, and what keeps their gradients equal.
struct Synced {
  explicit Synced(RankGroup& group, std::size_t bucket_bytes = 1 << 20) {
    for (const std::int64_t size : {5, 1, 300, 70}) {
      parameters.push_back(torch::zeros({size}).requires_grad_());
    }
    optimizer = std::make_unique<torch::optim::SGD>(parameters, 0.1);
    sync = std::make_unique<GradientSync>(
        *optimizer, group.Tensors(torch::kCPU), bucket_bytes);
  }

  // Adds `value` to all gradients of the parameters [first, last).
  void Backward(float value, std::size_t first = 0, std::size_t last = 4) {
    torch::Tensor loss = torch::zeros({});
    for (std::size_t i = first; i < last; ++i) {
      loss = loss + (parameters[i] * value).sum();
    }
    loss.backward();
  }

  void ExpectGradient(std::size_t parameter, float value) {
    const torch::Tensor& gradient = parameters[parameter].grad();
    ASSERT_TRUE(gradient.defined());
    EXPECT_TRUE(torch::equal(gradient, torch::full_like(gradient, value)))
        << "parameter " << parameter << ": " << gradient[0];
  }

  std::vector<torch::Tensor> parameters;
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::unique_ptr<GradientSync> sync;
};

float ValueOf(const RankGroup& group) {
  return static_cast<float>(group.rank() + 1);
}

// Buckets of one parameter, of some, of all.
class GradientSyncTest : public testing::TestWithParam<std::size_t> {};

TEST_P(GradientSyncTest, GivesTheMeanStepForStep) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    for (const bool overlap : {true, true, false, true}) {
      synced.sync->SetOverlap(overlap);
      synced.Backward(ValueOf(group));
      synced.sync->Finish();
      for (std::size_t i = 0; i < 4; ++i) {
        synced.ExpectGradient(i, kMeanOfRanks);
      }
      ResetGradients(*synced.optimizer);
    }
  });
}

TEST_P(GradientSyncTest, SendsAnewWhatASecondBackwardChanged) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    synced.sync->SetOverlap(true);
    synced.Backward(ValueOf(group));
    synced.Backward(10 * ValueOf(group), 0, 2);
    synced.sync->Finish();
    synced.ExpectGradient(0, 11 * kMeanOfRanks);
    synced.ExpectGradient(1, 11 * kMeanOfRanks);
    synced.ExpectGradient(2, kMeanOfRanks);
    synced.ExpectGradient(3, kMeanOfRanks);
  });
}

TEST_P(GradientSyncTest, WaitsForWhatAccumulates) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    synced.Backward(ValueOf(group));
    synced.sync->SetOverlap(true);
    synced.Backward(ValueOf(group));
    synced.sync->Finish();
    for (std::size_t i = 0; i < 4; ++i) {
      synced.ExpectGradient(i, 2 * kMeanOfRanks);
    }
  });
}

TEST_P(GradientSyncTest, CountsAMissingGradientAsZeroUnlessAllLackIt) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    synced.sync->SetOverlap(true);
    // Parameter 2 has one on rank 1 only, parameter 3 nowhere.
    synced.Backward(ValueOf(group), 0, group.rank() == 1 ? 3 : 2);
    synced.sync->Finish();
    synced.ExpectGradient(0, kMeanOfRanks);
    synced.ExpectGradient(2, 2.0F / 3);
    EXPECT_FALSE(synced.parameters[3].grad().defined());
  });
}

INSTANTIATE_TEST_SUITE_P(Buckets, GradientSyncTest,
                         testing::Values(4, 1000, 1 << 20));

}  // namespace
}  // namespace dtrain
