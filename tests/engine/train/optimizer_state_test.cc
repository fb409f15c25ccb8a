#include "engine/train/optimizer_state.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "engine/train/torch_modules.h"

namespace dtrain {
namespace {

// An optimizer of each kind, and how to make another one like it.
struct OptimizerCase {
  const char* name;
  std::shared_ptr<torch::optim::Optimizer> (*make)(
      std::vector<torch::Tensor> parameters);
};

template <typename Optimizer, typename Options>
std::shared_ptr<torch::optim::Optimizer> Make(
    std::vector<torch::Tensor> parameters, Options options) {
  return std::make_shared<Optimizer>(std::move(parameters), options);
}

namespace optim = torch::optim;
using Parameters = std::vector<torch::Tensor>;
const OptimizerCase kOptimizers[] = {
    {"SGD",
     [](Parameters p) {
       return Make<optim::SGD>(p, optim::SGDOptions(0.1).momentum(0.9));
     }},
    {"Adam",
     [](Parameters p) {
       return Make<optim::Adam>(p, optim::AdamOptions(0.1).amsgrad(true));
     }},
    {"AdamW",
     [](Parameters p) {
       return Make<optim::AdamW>(p, optim::AdamWOptions(0.1));
     }},
    {"RMSprop",
     [](Parameters p) {
       return Make<optim::RMSprop>(
           p, optim::RMSpropOptions(0.1).centered(true).momentum(0.5));
     }},
    {"Adagrad", [](Parameters p) {
       return Make<optim::Adagrad>(p, optim::AdagradOptions(0.1));
     }}};

class OptimizerStateTest : public testing::TestWithParam<OptimizerCase> {
 protected:
  // A step whose gradients are fixed by the parameters.
  static void Step(torch::nn::Module& net, torch::optim::Optimizer& optimizer) {
    for (auto& parameter : net.parameters()) {
      parameter.mutable_grad() = torch::sin(parameter.detach() * 3);
    }
    optimizer.step();
  }
};

TEST_P(OptimizerStateTest, ResumesBitIdentically) {
  const auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
  NamedOptimizer entry{.name = "o",
                       .optimizer = GetParam().make(net->parameters())};
  Step(*net, *entry.optimizer);
  const OptimizerState saved =
      SaveOptimizer(entry, NameParameters({{"model", net}}));
  EXPECT_EQ(saved.facts.at("type"), GetParam().name);
  const auto twin = std::make_shared<torch::nn::LinearImpl>(3, 2);
  const torch::NoGradGuard no_grad;
  twin->weight.copy_(net->weight);
  twin->bias.copy_(net->bias);
  NamedOptimizer copy{.name = "o",
                      .optimizer = GetParam().make(twin->parameters())};
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : saved.tensors) {
    tensors[name] = tensor.clone();
  }
  LoadOptimizer(copy, NameParameters({{"model", twin}}), tensors, saved.facts,
                /*resumes=*/true);
  Step(*net, *entry.optimizer);
  Step(*twin, *copy.optimizer);
  EXPECT_TRUE(torch::equal(net->weight, twin->weight));
  EXPECT_TRUE(torch::equal(net->bias, twin->bias));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, OptimizerStateTest,
                         testing::ValuesIn(kOptimizers),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain
