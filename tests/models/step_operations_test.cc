// Counts the operations of a training step: each is a kernel or more on a GPU,
// which small networks wait for, and an added one should be noticed here.
// On a GPU, dtrain's kernels replace some: loss, accuracy and their gradient
// (eight operations, from _log_softmax to nll_loss_backward) are two kernels,
// and a dense layer includes its ReLU.

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>

#include "engine/train/device.h"
#include "engine/train/trainer.h"
#include "models/table.h"
#include "tests/support/recorded_graph.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::Pair;

class StepOperationsTest : public testing::Test {
 protected:
  StepOperationsTest() {
    torch::set_num_threads(1);
    std::filesystem::create_directory(directory_.path() / "checkpoints");
  }

  // Operations of a captured step, with LibTorch's operators as on a GPU.
  std::map<std::string, int> Operations(const char* entrypoint) const {
    TrialSpec spec;
    spec.id = {1, 1};
    spec.directory = directory_.path();
    spec.hparams = {{"global_batch_size", 32},
                    {"dataset", "strokes"},
                    {"training_samples", 640},
                    {"own_kernels", false}};
    spec.until = Length{.count = 6, .unit = Unit::kBatches};
    SeedRandom(spec.seed, torch::kCPU);
    TrainerContext context(spec, torch::kCPU);
    const auto trial = FindModel(entrypoint)->make(context);
    const TrialLink link = {
        .send = [](const TrialMessage&) {},
        .next = [] { return CloseTrial(); },
        .stop_requested = [] { return false; },
        .unacknowledged = [] { return std::vector<TrialMessage>(); }};
    auto graph = std::make_unique<RecordedGraph>();
    const RecordedGraph* held = graph.get();
    Trainer trainer(context, *trial, link, Clock::System(), std::move(graph));
    trainer.Restore();
    EXPECT_EQ(trainer.Run().reason, EndReason::kCompleted);
    std::map<std::string, int> counts;
    for (const std::string& name : held->launches()) ++counts[name];
    return counts;
  }

  const TemporaryDirectory directory_;
};

TEST_F(StepOperationsTest, LeNetHasTheseAndNoOthers) {
  auto operations = Operations("digits:LeNetTrial");
  // LibTorch copies new gradients only because the recorder refers to them,
  // too: one copy for each parameter.
  operations.erase("aten::copy_");
  EXPECT_THAT(
      operations,
      testing::ElementsAre(
          Pair("aten::_fused_sgd_", 1), Pair("aten::_log_softmax", 1),
          Pair("aten::_log_softmax_backward_data", 1),
          Pair("aten::_to_copy", 1), Pair("aten::add_", 2),
          Pair("aten::addmm", 3), Pair("aten::argmax", 1),
          Pair("aten::convolution", 2), Pair("aten::convolution_backward", 2),
          Pair("aten::eq", 1), Pair("aten::max_pool2d_with_indices", 2),
          Pair("aten::max_pool2d_with_indices_backward", 2),
          Pair("aten::mean", 1), Pair("aten::mm", 6),
          Pair("aten::nll_loss_backward", 1), Pair("aten::nll_loss_forward", 1),
          Pair("aten::ones_like", 1), Pair("aten::relu", 4),
          Pair("aten::sum", 3), Pair("aten::threshold_backward", 4)));
}

}  // namespace
}  // namespace dtrain
