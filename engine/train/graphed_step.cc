#include "engine/train/graphed_step.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/metric_sums.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/trainer_context.h"

// A step of a small network is dominated by the host, which issues hundreds of
// operations one by one. A CUDA graph issues all of them at once. A graph
// replays device work only, on fixed addresses, so that everything a step
// depends on must be on the device and stay where it is: the batch is copied
// into `input_`, learning rates and step counts are CapturableState, the loss
// scale and the sums of metrics are tensors that are updated in place, and the
// random generator registers its offset with the graph. The host's part of a
// step (schedules, counters) runs after each replay.
//
// The first kWarmUpBatches batches of a shape are trained without a graph.
// Capturing executes nothing; the captured batch itself is then trained by the
// first replay. If the capture fails, training continues without a graph.
//
// A graph of several steps has no input: it gathers its batches from the set on
// the device, beginning at position_, which it advances. Between its steps the
// host does nothing but count, so that learning rates, and the loss scale of
// fp16, have to stay as they are.

namespace dtrain {

namespace {

constexpr std::int64_t kMaxStepsPerGraph = 64;

// Properties of a tensor that a captured step depends on.
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

std::string FormatShape(const Batch& batch) {
  std::ostringstream text;
  if (batch.data.defined()) text << batch.data.sizes();
  return std::move(text).str();
}

}  // namespace

GraphedStep::GraphedStep(std::unique_ptr<StepGraph> graph,
                         TrainerContext& context, Trial& trial,
                         MetricSums& sums, std::int64_t steps)
    : graph_(std::move(graph)),
      context_(context),
      trial_(trial),
      sums_(sums),
      steps_(graph_ == nullptr ? 1 : steps) {
  if (graph_ != nullptr) sums_.KeepOn(context_.device());
  if (graph_ == nullptr && steps > 1) {
    LogLine(LogLevel::kWarning,
            std::string(kGraphStepsVariable) +
                " has no effect: steps are not captured as a CUDA graph");
  }
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
  // The order matters: the input and the rates must be on the device before the
  // replay, and the host counts a step only after it was issued.
  CopyIn(batch);
  graph_->Replay();
  context_.CountReplay();
  sums_.CountReplay(names_);
}

// True if enough batches of these shapes were trained. The larger shape is
// captured; the other one is that of the last batch of a pass.
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
    LogOnce(
        "some batches are trained without the CUDA graph, as the trial "
        "requests "
        "(Trial::Capturable)");
    return false;
  }
  if (is_captured_ && !IsAlike(input_, batch)) {
    LogOnce("batches of shape " + FormatShape(batch) +
            " are trained without the CUDA graph, whose shape is " +
            FormatShape(input_));
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
    steps_ = 1;
    input_ = Batch();
    LogLine(
        LogLevel::kWarning,
        "the step cannot be captured as a CUDA graph, and training continues "
        "without one: " +
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

// Returns why the capture failed, or an empty string.
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

const char* GraphedStep::SeveralObstacle(DataSource& data) const {
  if (data.on_device() == nullptr) {
    return "the training data is not gathered on the device";
  }
  if (context_.profile() != nullptr) return "the trial is profiled";
  if (context_.scaler() != nullptr) {
    return "fp16 adapts its loss scale after each step";
  }
  return nullptr;
}

std::int64_t GraphedStep::TrainSeveral(DataSource& data, BatchIndex first,
                                       std::int64_t limit,
                                       std::int64_t batches_per_epoch) {
  if (!is_captured_ || limit < steps_) return 0;
  if (const char* why = SeveralObstacle(data); why != nullptr) {
    LogOnce("steps are replayed one by one: " + std::string(why));
    steps_ = 1;
    return 0;
  }
  DeviceBatches& batches = *data.on_device();
  if (batches.FullBatchesLeft() < steps_ ||
      !context_.KeepsRates(steps_, batches_per_epoch)) {
    return 0;
  }
  for (std::int64_t i = 0; i < steps_; ++i) {
    const BatchIndex index{.epoch = first.epoch, .batch = first.batch + i};
    if (!trial_.Capturable(index)) return 0;
  }
  context_.UploadLearningRates();
  // The source is past these batches from here on; a failed capture seeks back.
  const std::int64_t position = batches.Skip(steps_);
  if (several_ == nullptr && !CaptureSeveral(batches, first)) {
    data.Seek(first.batch);
    return 0;
  }
  // The graph has advanced the position itself, so only a jump needs a write.
  if (position != position_on_device_) position_.fill_(position);
  several_->Replay();
  position_on_device_ = position + steps_ * input_.size();
  for (std::int64_t i = 0; i < steps_; ++i) {
    context_.CountReplay();
    sums_.CountReplay(names_);
  }
  return steps_;
}

bool GraphedStep::CaptureSeveral(DeviceBatches& batches, BatchIndex first) {
  position_ = torch::zeros(
      {1}, torch::TensorOptions(context_.device()).dtype(torch::kLong));
  several_ = graph_->Another();
  const std::string why = TryCaptureSeveral(batches, first);
  context_.EndCapture(why.empty());
  if (!why.empty()) {
    LogLine(LogLevel::kWarning,
            "several steps cannot be captured as one CUDA graph, and are "
            "replayed one by one: " +
                why);
    several_.reset();
    steps_ = 1;
    return false;
  }
  LogLine(LogLevel::kInfo, "from batch " + std::to_string(first.batch + 1) +
                               " on, " + std::to_string(steps_) +
                               " steps are replayed as one CUDA graph");
  return true;
}

// Returns why the capture failed, or an empty string.
std::string GraphedStep::TryCaptureSeveral(DeviceBatches& batches,
                                           BatchIndex first) try {
  context_.BeginCapture();
  several_->Capture([&] { IssueSeveral(batches, first); });
  return "";
} catch (const c10::Error& error) {
  return TorchMessage(error);
} catch (const Error& error) {
  return error.what();
}

void GraphedStep::IssueSeveral(DeviceBatches& batches, BatchIndex index) {
  for (std::int64_t i = 0; i < steps_; ++i, ++index.batch) {
    context_.BeginNextStep();
    const Batch batch = batches.Gather(position_);
    if (!IsAlike(input_, batch)) {
      throw Error(ErrorKind::kFailed, "gathered batches have shape " +
                                          FormatShape(batch) + ", others " +
                                          FormatShape(input_));
    }
    if (sums_.Capture(Step(batch, index), context_.device()) != names_) {
      throw Error(ErrorKind::kFailed, "steps have different metrics");
    }
    position_.add_(batch.size());
  }
}

// A tensor that is already in place is not copied again.
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

void GraphedStep::LogOnce(const std::string& what) {
  if (std::ranges::find(logged_, what) != logged_.end()) return;
  logged_.push_back(what);
  LogLine(LogLevel::kInfo, what + " (logged once)");
}

std::int64_t StepsPerGraph() {
  const char* text = std::getenv(kGraphStepsVariable);
  if (text == nullptr) return 1;
  const std::optional<double> steps = ParseFinite(text);
  if (!steps || *steps < 1 || *steps > kMaxStepsPerGraph ||
      *steps != std::floor(*steps)) {
    throw Error(ErrorKind::kUsage,
                std::string(kGraphStepsVariable) + " is '" + text +
                    "'; set it to a number from 1 to " +
                    std::to_string(kMaxStepsPerGraph) + ", or unset it");
  }
  return static_cast<std::int64_t>(*steps);
}

}  // namespace dtrain
