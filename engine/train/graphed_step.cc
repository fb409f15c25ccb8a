#include "engine/train/graphed_step.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/mixed_precision.h"

namespace dtrain {

namespace {

// What of a tensor a captured step is bound to.
bool IsAlike(const torch::Tensor& one, const torch::Tensor& other) {
  if (!one.defined() || !other.defined()) {
    return one.defined() == other.defined();
  }
  return one.sizes() == other.sizes() &&
         one.scalar_type() == other.scalar_type() &&
         one.device() == other.device();
}

bool IsAlike(const Batch& one, const Batch& other) {
  const auto same_name = [](const auto& left, const auto& right) {
    return left.first == right.first;
  };
  return std::ranges::equal(one.extra, other.extra, same_name) &&
         std::ranges::equal(
             one.tensors(), other.tensors(),
             [](const torch::Tensor& left, const torch::Tensor& right) {
               return IsAlike(left, right);
             });
}

std::string ShapeOf(const Batch& batch) {
  std::ostringstream text;
  if (batch.data.defined()) text << batch.data.sizes();
  return std::move(text).str();
}

}  // namespace

GraphedStep::GraphedStep(std::unique_ptr<StepGraph> graph,
                         TrainerContext& context, Trial& trial,
                         MetricSums& sums)
    : graph_(std::move(graph)), context_(context), trial_(trial), sums_(sums) {
  if (graph_ != nullptr) sums_.KeepOn(context_.device());
}

Metrics GraphedStep::Step(const Batch& batch, BatchIndex index) const {
  const Autocast autocast(context_.device(), context_.precision());
  return trial_.TrainBatch(batch, index);
}

void GraphedStep::TrainEagerly(const Batch& batch, BatchIndex index) {
  sums_.Add(Step(batch, index), /*weight=*/1);
}

void GraphedStep::Train(const Batch& batch, BatchIndex index) {
  if (!CanReplay(batch, index)) return TrainEagerly(batch, index);
  if (!is_captured_ && !IsWarm(batch)) return TrainEagerly(batch, index);
  context_.UploadLearningRates();
  if (!is_captured_ && !Capture(index)) {
    return TrainEagerly(batch, index);
  }
  CopyIn(batch);
  graph_->Replay();
  context_.CountReplay();
  sums_.CountReplay(names_);
}

// Whether enough batches like this one were trained. The larger shape is the
// one that is captured: the other is that of a pass's last batch.
bool GraphedStep::IsWarm(const Batch& batch) {
  if (!IsAlike(input_, batch)) {
    if (batch.size() < input_.size()) return false;
    input_ = batch.Copy();
    warm_ups_ = 0;
  }
  return warm_ups_++ >= kWarmUpBatches;
}

bool GraphedStep::CanReplay(const Batch& batch, BatchIndex index) {
  if (graph_ == nullptr) return false;
  if (!trial_.Capturable(index)) {
    SayOnce(
        "trained without the CUDA graph, since the trial says so "
        "(Trial::Capturable)");
    return false;
  }
  if (is_captured_ && !IsAlike(input_, batch)) {
    SayOnce("trained without the CUDA graph, which is of " + ShapeOf(input_) +
            ": a batch of " + ShapeOf(batch));
    return false;
  }
  return true;
}

bool GraphedStep::Capture(BatchIndex index) {
  const std::string why = TryCapture(index);
  is_captured_ = why.empty();
  context_.EndCapture(is_captured_);
  if (!is_captured_) {
    graph_.reset();
    input_ = Batch();
    LogLine(LogLevel::kWarning,
            "the step cannot be captured as a CUDA graph, and training goes on "
            "without: " +
                why);
    return false;
  }
  for (const torch::Tensor& tensor : input_.tensors()) {
    if (tensor.defined()) inputs_.push_back({.at = tensor});
  }
  LogLine(LogLevel::kInfo, "from batch " + std::to_string(index.batch + 1) +
                               " on, steps are replayed as a CUDA graph");
  return true;
}

// Why it could not, or empty.
std::string GraphedStep::TryCapture(BatchIndex index) try {
  context_.BeginCapture();
  graph_->Capture(
      [&] { names_ = sums_.Capture(Step(input_, index), context_.device()); });
  return "";
} catch (const c10::Error& error) {
  return TorchMessage(error);
} catch (const Error& error) {
  return error.what();
}

// What lies there still is not copied again.
void GraphedStep::CopyIn(const Batch& batch) {
  const torch::NoGradGuard no_grad;
  auto input = inputs_.begin();
  for (const torch::Tensor& tensor : batch.tensors()) {
    if (!tensor.defined()) continue;
    Input& to = *input++;
    if (to.from.is_same(tensor) && to.version == tensor._version()) continue;
    to.at.copy_(tensor, /*non_blocking=*/true);
    to.from = tensor;
    to.version = tensor._version();
  }
}

void GraphedStep::SayOnce(const std::string& what) {
  if (std::ranges::find(said_, what) != said_.end()) return;
  said_.push_back(what);
  LogLine(LogLevel::kInfo, what + "; this is said once");
}

}  // namespace dtrain
