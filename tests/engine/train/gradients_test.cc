#include "engine/train/gradients.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/optim.h>

#include "engine/train/fused_optimizers.h"
#include "engine/train/torch_modules.h"
#include "tests/engine/train/in_ranks.h"
#include "tests/engine/train/recorded_backend.h"

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

float ReduceValue(const RankGroup& group) {
  return static_cast<float>(group.rank() + 1);
}

// Buckets of one parameter, of some, of all.
class GradientSyncTest : public testing::TestWithParam<std::size_t> {};

TEST_P(GradientSyncTest, GivesTheMeanStepForStep) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    for (const bool overlap : {true, true, false, true}) {
      synced.sync->SetOverlap(overlap);
      synced.Backward(ReduceValue(group));
      synced.sync->Finish();
      for (std::size_t i = 0; i < 4; ++i) {
        synced.ExpectGradient(i, kMeanOfRanks);
      }
      ResetGradients(*synced.optimizer);
    }
  });
}

TEST_P(GradientSyncTest, SendsAgainAfterASecondBackward) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    synced.sync->SetOverlap(true);
    synced.Backward(ReduceValue(group));
    synced.Backward(10 * ReduceValue(group), 0, 2);
    synced.sync->Finish();
    synced.ExpectGradient(0, 11 * kMeanOfRanks);
    synced.ExpectGradient(1, 11 * kMeanOfRanks);
    synced.ExpectGradient(2, kMeanOfRanks);
    synced.ExpectGradient(3, kMeanOfRanks);
  });
}

TEST_P(GradientSyncTest, WaitsForAccumulation) {
  InRanks(kRanks, [](RankGroup& group) {
    Synced synced(group, GetParam());
    synced.Backward(ReduceValue(group));
    synced.sync->SetOverlap(true);
    synced.Backward(ReduceValue(group));
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
    synced.Backward(ReduceValue(group), 0, group.rank() == 1 ? 3 : 2);
    synced.sync->Finish();
    synced.ExpectGradient(0, kMeanOfRanks);
    synced.ExpectGradient(2, 2.0F / 3);
    EXPECT_FALSE(synced.parameters[3].grad().defined());
  });
}

INSTANTIATE_TEST_SUITE_P(Buckets, GradientSyncTest,
                         testing::Values(4, 1000, 1 << 20));

// A channels-last weight and a backend that records what is sent.
struct SyncedConv {
  SyncedConv() {
    optimizer = std::make_unique<torch::optim::SGD>(
        std::vector<torch::Tensor>{weight}, 0.1);
    sync = std::make_unique<GradientSync>(*optimizer, *backend);
  }

  std::vector<std::string> calls;
  c10::intrusive_ptr<RecordedBackend> backend =
      c10::make_intrusive<RecordedBackend>(calls, /*rank=*/0, /*ranks=*/2);
  torch::Tensor weight = torch::zeros({4, 3, 2, 2})
                             .contiguous(torch::MemoryFormat::ChannelsLast)
                             .requires_grad_();
  torch::Tensor gradient = torch::arange(48, torch::kFloat)
                               .view({4, 3, 2, 2})
                               .contiguous(torch::MemoryFormat::ChannelsLast);
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::unique_ptr<GradientSync> sync;
};

TEST(GradientSyncLayoutTest, SendsChannelsLastGradientsInTheirMemoryOrder) {
  SyncedConv conv;
  (conv.weight * conv.gradient).sum().backward();
  conv.sync->Finish();
  const torch::Tensor& sent = conv.backend->sent().at(0);
  EXPECT_TRUE(torch::equal(sent.narrow(0, 0, 48),
                           conv.gradient.permute({0, 2, 3, 1}).flatten()));
  EXPECT_TRUE(torch::equal(conv.weight.grad(), conv.gradient));
  EXPECT_EQ(conv.weight.grad().strides(), conv.weight.strides());
}

TEST(GradientSyncLayoutTest, NcclAverages) {
  SyncedConv conv;
  (conv.weight * conv.gradient).sum().backward();
  conv.sync->Finish();
  EXPECT_EQ(conv.calls, std::vector<std::string>{"allreduce average"});
  // What the backend returned is the mean already.
  EXPECT_TRUE(torch::equal(conv.weight.grad(), conv.gradient));
}

TEST(GradientSyncLayoutTest, AveragesChannelsLastGradientsOfCpuRanks) {
  InRanks(2, [](RankGroup& group) {
    SyncedConv conv;
    conv.sync.reset();  // a parameter has one hook
    GradientSync sync(*conv.optimizer, group.Tensors(torch::kCPU));
    (conv.weight * conv.gradient * (2 * group.rank() + 1)).sum().backward();
    sync.Finish();
    EXPECT_TRUE(torch::equal(conv.weight.grad(), 2 * conv.gradient));
  });
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(
    std::vector<torch::Tensor>)>;

torch::nn::Sequential Net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(),
                               torch::nn::Linear(8, 8), torch::nn::ReLU(),
                               torch::nn::Linear(8, 1));
}

torch::Tensor Loss(torch::nn::Sequential& net, int step) {
  const torch::Tensor x =
      torch::sin(torch::arange(12, torch::kFloat) + step).view({3, 4});
  return net->forward(x).square().mean();
}

// The weights after five steps, of a step behind each backward pass.
std::vector<torch::Tensor> TrainPlain(const MakeOptimizer& make) {
  auto net = Net();
  const auto optimizer = make(net->parameters());
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    Loss(net, step).backward();
    optimizer->step();
  }
  return net->parameters();
}

void ExpectSame(const MakeOptimizer& make) {
  const auto plain = TrainPlain(make);
  auto net = Net();
  const auto optimizer = make(net->parameters());
  const BackwardUpdate update(*optimizer);
  for (int step = 0; step < 5; ++step) {
    Loss(net, step).backward();
    for (const torch::Tensor& parameter : net->parameters()) {
      EXPECT_FALSE(parameter.grad().defined());
    }
  }
  const auto weights = net->parameters();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(torch::equal(weights[i], plain[i])) << "parameter " << i;
  }
}

TEST(BackwardUpdateTest, MatchesSgd) {
  ExpectSame([](auto parameters) {
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
  });
}

TEST(BackwardUpdateTest, MatchesAdam) {
  ExpectSame([](auto parameters) {
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(0.01));
  });
}

TEST(BackwardUpdateTest, MatchesFusedOptimizers) {
  ExpectSame([](auto parameters) {
    return std::make_unique<FusedSgd>(
        parameters,
        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
  });
  ExpectSame([](auto parameters) {
    return std::make_unique<FusedAdamW>(parameters,
                                        torch::optim::AdamWOptions(0.01));
  });
}

TEST(BackwardUpdateTest, HoldsOneGradientAtATime) {
  auto net = Net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const BackwardUpdate update(optimizer);
  Loss(net, 0).backward();
  // The largest of them is 8×8 floats.
  EXPECT_EQ(update.peak_bytes(), 8 * 8 * sizeof(float));
}

TEST(BackwardUpdateTest, EndsWithItsHooks) {
  auto net = Net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  { const BackwardUpdate update(optimizer); }
  Loss(net, 0).backward();
  EXPECT_TRUE(net->parameters()[0].grad().defined());
}

TEST(BackwardUpdateTest, LeavesFrozenParametersAlone) {
  auto net = Net();
  net->parameters()[0].set_requires_grad(false);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const torch::Tensor before = net->parameters()[0].clone();
  const BackwardUpdate update(optimizer);
  Loss(net, 0).backward();
  EXPECT_TRUE(torch::equal(net->parameters()[0], before));
}

}  // namespace

}  // namespace dtrain
