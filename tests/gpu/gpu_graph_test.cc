// Whole steps as CUDA graphs, beside the same without.

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/optim.h>

#include "engine/data/cuda_half.h"
#include "engine/data/tensor_source.h"
#include "engine/train/device.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/trainer.h"
#include "models/nets/conv_nets.h"
#include "models/nets/image_classifier.h"
#include "models/ops/linear_relu.h"
#include "models/table.h"
#include "tests/engine/train/small_trial.h"
#include "tests/gpu/gpu.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

struct NetOptions {
  std::string net = "lenet";
  std::string optimizer = "sgd";
  bool reads_loss = false;
  bool has_validation = false;
};

// A classifier with dropout in front of it, on noise that it learns by heart.
class NetTrial final : public Trial {
 public:
  NetTrial(TrialContext& context, const NetOptions& options)
      : context_(context), options_(options) {
    torch::manual_seed(11);
    if (options.net == "lenet") {
      Use(std::make_shared<LeNet>(10), {1, 28, 28});
    } else if (options.net == "cifar") {
      Use(std::make_shared<CifarCnn>(10), {3, 32, 32});
    } else {
      Use(MakeImageClassifier("resnet18", 10), {3, 64, 64});
    }
    if (options.optimizer == "adam") {
      optimizer_ = std::make_shared<FusedAdam>(parameters_);
    } else {
      optimizer_ = std::make_shared<FusedSgd>(
          parameters_, torch::optim::SGDOptions(0.01).momentum(0.9));
    }
    context.Add(optimizer_);
  }

  std::unique_ptr<DataSource> TrainingData() override {
    torch::manual_seed(12);
    std::vector<std::int64_t> shape = {208};  // 6 batches of 32, one of 16
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    return std::make_unique<TensorSource>(
        Batch{.data = torch::randn(shape),
              .target = torch::randint(0, 10, {208}, torch::kInt64)},
        SamplerOptions{.batch_size = 32, .shuffle = true, .seed = 1}, kGpu);
  }
  std::unique_ptr<DataSource> ValidationData() override {
    return options_.has_validation ? TrainingData() : nullptr;
  }
  Metrics TrainBatch(const Batch& batch, BatchIndex) override {
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        forward_(torch::dropout(batch.data, dropout_, /*train=*/true)),
        batch.target);
    if (options_.reads_loss) loss.item<float>();
    context_.Backward(loss);
    context_.Step(*optimizer_);
    return {{"loss", loss.detach()}};
  }
  Metrics EvaluateBatch(const Batch& batch) override {
    return {{"val_loss", batch.data.mean()}};
  }
  bool Capturable(BatchIndex) const override { return true; }

 private:
  template <typename Net>
  void Use(std::shared_ptr<Net> net, std::vector<std::int64_t> shape) {
    context_.Add(net);
    parameters_ = net->parameters();
    forward_ = [net](const torch::Tensor& data) { return net->forward(data); };
    shape_ = std::move(shape);
  }

  static constexpr double dropout_ = 0.1;
  TrialContext& context_;
  NetOptions options_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::int64_t> shape_;
  std::function<torch::Tensor(const torch::Tensor&)> forward_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

struct Trained {
  std::vector<double> losses;
  nlohmann::json random;
  std::string log;
};

// Captures the log lines of its lifetime.
class CapturedLog {
 public:
  CapturedLog() { testing::internal::CaptureStderr(); }
  ~CapturedLog() { Drain(); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  std::string Drain() {
    return std::exchange(is_open_, false)
               ? testing::internal::GetCapturedStderr()
               : "";
  }

 private:
  bool is_open_ = true;
};

class GpuGraphTest : public SmallTrialTest {
 protected:
  GpuGraphTest() {
    spec_.until = Length{100};
    spec_.settings.scheduling_unit = 1;
    // Runs are compared with each other, so none may measure the faster format.
    spec_.settings.channels_last = "off";
    // Or sums come out otherwise each time, and Adam makes much of it.
    at::globalContext().setDeterministicCuDNN(true);
  }

  Trained Train(bool graphed) {
    SeedRandom(spec_.seed, kGpu);
    TrainerContext context(spec_, kGpu);
    NetTrial trial(context, options_);
    FakeRunner runner;
    const TrialLink link = runner.Link();
    CapturedLog log;
    std::unique_ptr<StepGraph> graph(
        graphed ? FromCudaHalf<MakeStepGraph>(kMakeStepGraph)() : nullptr);
    Trainer trainer(context, trial, link, Clock::System(), std::move(graph));
    trainer.Restore();
    EXPECT_EQ(trainer.Run().reason, EndReason::kCompleted);
    Trained trained{.random = SaveRandomState(kGpu), .log = log.Drain()};
    for (const auto& report : runner.All<TrainingReport>()) {
      trained.losses.push_back(Value(report.metrics, "loss"));
    }
    return trained;
  }

  // Loss curves agree, and so does what comes next of random numbers.
  Trained ExpectTheSame(double tolerance) {
    const Trained plain = Train(/*graphed=*/false);
    Trained graphed = Train(/*graphed=*/true);
    EXPECT_EQ(plain.losses.size(), 100u);
    EXPECT_EQ(plain.random, graphed.random);
    for (std::size_t i = 0; i < plain.losses.size(); ++i) {
      EXPECT_NEAR(graphed.losses.at(i), plain.losses[i], tolerance) << i;
    }
    return graphed;
  }

  NetOptions options_;
};

// A trial that measures the faster format first trains as one without it.
TEST_F(GpuGraphTest, MeasuringTheMemoryFormatChangesNoResult) {
  options_.net = "resnet18";
  spec_.until = Length{20};
  const Trained plain = Train(/*graphed=*/false);
  spec_.settings.channels_last = "auto";
  const Trained measured = Train(/*graphed=*/false);
  EXPECT_THAT(measured.log, HasSubstr("memory format; measured: a step needs"));
  EXPECT_EQ(measured.random, plain.random);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(measured.losses.at(i), plain.losses.at(i), 0.05) << i;
  }
}

TEST_F(GpuGraphTest, LeNetTrainsIdentically) {
  EXPECT_THAT(ExpectTheSame(1e-4).log, HasSubstr("are replayed"));
}

TEST_F(GpuGraphTest, LeNetTrainsIdenticallyWithAdam) {
  options_.optimizer = "adam";
  EXPECT_THAT(ExpectTheSame(1e-4).log, HasSubstr("are replayed"));
}

// A pass has six full batches and a short one: one graph of four steps, and two
// graphs of one.
TEST_F(GpuGraphTest, SeveralStepsTrainIdentically) {
  spec_.settings.scheduling_unit = 100;
  const Trained single = Train(/*graphed=*/true);
  ::setenv(kGraphStepsVariable, "4", /*replace=*/1);
  const Trained several = Train(/*graphed=*/true);
  ::unsetenv(kGraphStepsVariable);
  EXPECT_THAT(several.log, HasSubstr("4 steps are replayed as one CUDA graph"));
  EXPECT_EQ(several.random, single.random);
  ASSERT_EQ(several.losses.size(), 1u);
  EXPECT_NEAR(several.losses[0], single.losses.at(0), 1e-4);
}

TEST_F(GpuGraphTest, CifarNetworkTrainsIdentically) {
  options_.net = "cifar";
  EXPECT_THAT(ExpectTheSame(1e-4).log, HasSubstr("are replayed"));
}

// In float16 sums are not what they are in float32; they are still sums of the
// same numbers.
TEST_F(GpuGraphTest, ResNetTrainsIdenticallyInEveryPrecision) {
  options_.net = "resnet18";
  spec_.until = Length{30};
  for (const char* precision : {"bf16", "fp16"}) {
    spec_.settings.mixed_precision = precision;
    const Trained plain = Train(/*graphed=*/false);
    const Trained graphed = Train(/*graphed=*/true);
    EXPECT_THAT(graphed.log, HasSubstr("are replayed"));
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(graphed.losses.at(i), plain.losses.at(i), 0.05)
          << precision << i;
    }
    const auto mean = [&](std::size_t first) {
      return std::accumulate(graphed.losses.begin() + first,
                             graphed.losses.begin() + first + 5, 0.0) /
             5;
    };
    EXPECT_LT(mean(graphed.losses.size() - 5), mean(0)) << precision;
  }
}

TEST(GpuLinearReluTest, FusedLayerEqualsLibTorchs) {
  torch::manual_seed(3);
  torch::nn::Linear linear(400, 120);
  linear->to(kGpu);
  const auto x = torch::randn({64, 400}, kGpu).requires_grad_();
  const auto run = [&](const torch::Tensor& output) {
    auto results = torch::autograd::grad({output.pow(2).sum()},
                                         {x, linear->weight, linear->bias});
    results.push_back(output.detach());
    return results;
  };
  const auto fused = run(LinearRelu(linear, x));
  const auto plain = run(torch::relu(linear(x)));
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_TRUE(torch::allclose(fused[i], plain[i], 1e-4, 1e-3)) << i;
  }
}

// Prints how far the host is ahead of the GPU: several steps in one graph would
// save only what issuing takes longer than executing.
void PrintTimes(StepGraph& graph) {
  constexpr int kReplays = 200;
  const Clock clock = Clock::System();
  const auto microseconds = [](Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count() /
           kReplays;
  };
  torch::cuda::synchronize();
  const Duration start = clock.monotonic();
  for (int i = 0; i < kReplays; ++i) graph.Replay();
  const Duration issued = clock.monotonic();
  torch::cuda::synchronize();
  std::cout << "a replay takes " << microseconds(issued - start)
            << " us to issue, " << microseconds(clock.monotonic() - start)
            << " us to execute\n";
}

// docs/gpus.md has the estimate, tests/models/step_operations_test.cc the
// operations.
TEST_F(GpuGraphTest, LeNetStepHasFewKernels) {
  GraphNodes nodes;
  spec_.hparams = {{"global_batch_size", 64},
                   {"dataset", "strokes"},
                   {"training_samples", 640}};
  spec_.until = Length{10};
  SeedRandom(spec_.seed, kGpu);
  TrainerContext context(spec_, kGpu);
  const auto trial = FindModel("digits:LeNetTrial")->make(context);
  FakeRunner runner;
  const TrialLink link = runner.Link();
  std::unique_ptr<StepGraph> graph(
      FromCudaHalf<MakeCountedStepGraph>(kMakeCountedStepGraph)(&nodes));
  StepGraph& held = *graph;
  Trainer trainer(context, *trial, link, Clock::System(), std::move(graph));
  trainer.Restore();
  EXPECT_EQ(trainer.Run().reason, EndReason::kCompleted);
  std::cout << "a step of LeNet: " << nodes.kernels << " kernels, "
            << nodes.copies << " copies, " << nodes.fills << " fills, "
            << nodes.others << " others\n";
  PrintTimes(held);
  EXPECT_GT(nodes.kernels, 20);
  EXPECT_LE(nodes.kernels + nodes.copies + nodes.fills, 55);
}

// Reports of single batches, whose metrics are read from the GPU together.
TEST_F(GpuGraphTest, ReportsOfSingleBatchesAreThoseOfEachBatch) {
  options_.has_validation = true;
  const Trained graphed = Train(/*graphed=*/true);
  EXPECT_THAT(graphed.log, HasSubstr("are replayed"));
  options_.has_validation = false;  // reports are then sent at once
  EXPECT_THAT(Train(/*graphed=*/true).losses,
              testing::Pointwise(testing::DoubleNear(1e-4), graphed.losses));
  EXPECT_EQ(graphed.losses.size(), 100u);
}

TEST_F(GpuGraphTest, ShortBatchesAreTrainedWithoutCapture) {
  EXPECT_THAT(ExpectTheSame(1e-4).log, HasSubstr("a batch of [16, 1, 28, 28]"));
}

TEST_F(GpuGraphTest, DeviceWorksAfterAFailedCapture) {
  options_.reads_loss = true;
  EXPECT_THAT(ExpectTheSame(1e-4).log,
              HasSubstr("cannot be captured as a CUDA graph"));
  options_.reads_loss = false;
  EXPECT_THAT(ExpectTheSame(1e-4).log, HasSubstr("are replayed"));
}

}  // namespace
}  // namespace dtrain
