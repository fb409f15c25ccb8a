// Every workload by what makes it fast and without: it must learn the same.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/device.h"
#include "engine/train/trainer.h"
#include "models/table.h"
#include "tests/support/recorded_graph.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

struct Workload {
  const char* name;
  const char* entrypoint;
  nlohmann::json hparams;
  const char* loss;  // its metric
  int batches;
  double tolerance;  // of the loss
};

// Implementation that trains.
enum class Path {
  kPlain,  // LibTorch's operators in its default memory format
  kFast,   // what dtrain does on a CPU of its own accord
  kGraph,  // the plain step, captured and replayed
};

class LossCurvesTest : public testing::TestWithParam<Workload> {
 protected:
  LossCurvesTest() {
    torch::set_num_threads(1);
    // Other files of this machine must not matter.
    for (const char* name : {"HOME", "XDG_CACHE_HOME"}) {
      ::setenv(name, directory_.path().c_str(), 1);
    }
    ::unsetenv("DTRAIN_DATA");
    fs::create_directory(directory_.path() / "checkpoints");
    // CIFAR-10, so to speak.
    torch::manual_seed(4);
    for (int file = 1; file <= 5; ++file) {
      std::ofstream out(
          directory_.path() / ("data_batch_" + std::to_string(file) + ".bin"),
          std::ios::binary);
      for (int i = 0; i < 100; ++i) {
        const torch::Tensor pixels =
            torch::randint(0, 256, 3072, torch::kUInt8);
        out.put(static_cast<char>(i % 10));
        out.write(static_cast<const char*>(pixels.const_data_ptr()), 3072);
      }
    }
  }

  TrialSpec SpecFor(Path path, int batches) const {
    TrialSpec spec;
    spec.id = {1, 1};
    spec.seed = 7;
    spec.directory = directory_.path();
    spec.hparams = GetParam().hparams;
    if (spec.hparams.contains("own_kernels")) {
      spec.hparams["own_kernels"] = path == Path::kFast;
      spec.hparams["data"] = directory_.path().string();
    }
    spec.settings.scheduling_unit = 1;
    spec.settings.channels_last = path == Path::kFast ? "auto" : "off";
    spec.until = Length{.count = batches, .unit = Unit::kBatches};
    return spec;
  }

  std::vector<double> Losses(Path path, int batches) {
    const TrialSpec spec = SpecFor(path, batches);
    SeedRandom(spec.seed, torch::kCPU);
    TrainerContext context(spec, torch::kCPU);
    const auto trial = FindModel(GetParam().entrypoint)->make(context);
    std::vector<double> losses;
    const TrialLink link = {
        .send =
            [&](const TrialMessage& message) {
              const auto* report = std::get_if<TrainingReport>(&message);
              if (report == nullptr) return;
              for (const auto& [name, value] : report->metrics) {
                if (name == GetParam().loss) losses.push_back(value);
              }
            },
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    auto graph =
        path == Path::kGraph ? std::make_unique<RecordedGraph>() : nullptr;
    const RecordedGraph* held = graph.get();
    Trainer trainer(context, *trial, link, Clock::System(), std::move(graph));
    trainer.Restore();
    EXPECT_EQ(trainer.Run().reason, EndReason::kCompleted);
    if (held != nullptr) {
      EXPECT_GT(held->replays(), 0);
    }
    return losses;
  }

  const TemporaryDirectory directory_;
};

TEST_P(LossCurvesTest, AreIdenticalWithAndWithoutOptimizations) {
  const int batches = GetParam().batches;
  std::vector<double> plain = Losses(Path::kPlain, batches);
  ASSERT_EQ(plain.size(), static_cast<std::size_t>(batches));
  const auto near = testing::DoubleNear(GetParam().tolerance);
  EXPECT_THAT(Losses(Path::kFast, batches), testing::Pointwise(near, plain));
  // With replay they must be bit-identical, so a few steps suffice.
  const int replayed = std::min(batches, 12);
  plain.resize(static_cast<std::size_t>(replayed));
  EXPECT_EQ(Losses(Path::kGraph, replayed), plain);
}

// Noise has nothing to learn but each image by heart, and a unit that rounding
// opens or closes changes the way of the training: at higher rates a rounding
// is soon as large as the loss, on any path. A step of Xception takes a second.
INSTANTIATE_TEST_SUITE_P(Workloads, LossCurvesTest,
                         testing::Values(Workload{"Digits",
                                                  "digits:LeNetTrial",
                                                  {{"global_batch_size", 32},
                                                   {"dataset", "strokes"},
                                                   {"training_samples", 640},
                                                   {"lr", 0.001},
                                                   {"own_kernels", true}},
                                                  "loss",
                                                  100,
                                                  1e-4},
                                         Workload{"LeNet",
                                                  "lenet:MNISTTrial",
                                                  {{"global_batch_size", 32},
                                                   {"dataset", "strokes"},
                                                   {"own_kernels", true}},
                                                  "loss",
                                                  100,
                                                  1e-4},
                                         Workload{"Cifar10",
                                                  "cifar10:CNNTrial",
                                                  {{"global_batch_size", 64},
                                                   {"optimizer", "sgd"},
                                                   {"lr", 0.01},
                                                   {"own_kernels", true}},
                                                  "micro_train_loss",
                                                  100,
                                                  1e-4},
                                         Workload{"ImageNet",
                                                  "model_def:ImageNetTrial",
                                                  {{"global_batch_size", 16},
                                                   {"dataset", "fake"},
                                                   {"fake_samples", 64},
                                                   {"num_classes", 10},
                                                   {"crop_size", 64},
                                                   {"lr", 1e-5},
                                                   {"workers", 0}},
                                                  "loss",
                                                  15,
                                                  1e-4},
                                         Workload{"Xception",
                                                  "xception:XceptionTrial",
                                                  {{"global_batch_size", 2},
                                                   {"num_classes", 10},
                                                   {"lr", 1e-4}},
                                                  "loss",
                                                  6,
                                                  1e-4}),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace dtrain
