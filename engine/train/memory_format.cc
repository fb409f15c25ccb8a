#include "engine/train/memory_format.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "engine/base/error.h"
#include "engine/train/device.h"
#include "engine/train/log_line.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/trainer_context.h"
#include "engine/train/trial.h"

// Whether channels-last is faster depends on the GPU, the precision and the
// sizes of the convolutions (tensor cores compute in it, and need no conversion
// of their inputs), so it is measured with the trial's own steps. A trial can
// only be asked for whole steps. These run before training begins, with
// optimizers that do not step (TrainerContext::SetRehearsal), and whatever they
// change is restored: parameters and buffers, gradients, the trial's own state,
// and the random generators.

namespace dtrain {

namespace {

constexpr std::int64_t kFewChannels = 16;
// Steps in each format. The first one is not counted: it allocates memory and
// lets cuDNN choose its algorithms.
constexpr int kRounds = 4;

bool IsOfImages(const torch::Tensor& weight) { return weight.dim() == 4; }

bool HasConvolutions(const std::vector<NamedModel>& models) {
  return std::ranges::any_of(models, [](const NamedModel& one) {
    return std::ranges::any_of(one.model->parameters(), IsOfImages);
  });
}

// Restores at its end what steps change.
class Unchanged {
 public:
  Unchanged(TrainerContext& context, Trial& trial)
      : context_(context),
        trial_(trial),
        random_(SaveRandomState(context.device())) {
    const torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : CollectState(context.objects().models)) {
      tensors_.emplace_back(tensor, tensor.detach().clone());
    }
    for (const auto& [name, tensor] : trial.Save()) {
      state_[name] = tensor.detach().clone();
    }
    context_.SetRehearsal(true);
  }
  ~Unchanged() { context_.SetRehearsal(false); }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

  void Restore() {
    const torch::NoGradGuard no_grad;
    for (auto& [tensor, value] : tensors_) {
      tensor.copy_(value);
      tensor.mutable_grad() = torch::Tensor();
    }
    if (!state_.empty()) trial_.Load(state_);
    LoadRandomState(random_, context_.device());
  }

 private:
  TrainerContext& context_;
  Trial& trial_;
  const nlohmann::json random_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> tensors_;
  std::map<std::string, torch::Tensor> state_;
};

void StoreAllWeights(const TrainedObjects& objects, bool channels_last) {
  for (const NamedModel& one : objects.models) {
    StoreWeights(*one.model, channels_last);
  }
}

void AwaitDevice(torch::Device device) {
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

// Duration of one step, on the device too.
Duration StepTime(TrainerContext& context, Trial& trial, const Batch& batch,
                  const Clock& clock) {
  AwaitDevice(context.device());
  const Duration start = clock.monotonic();
  {
    const Autocast autocast(context.device(), context.precision());
    (void)trial.TrainBatch(batch, {.batch = context.batches()});
  }
  AwaitDevice(context.device());
  return clock.monotonic() - start;
}

struct FormatTimes {
  Duration standard = Duration::max();
  Duration channels_last = Duration::max();
};

// Shortest times of a step. A format that does not fit into memory stays at the
// maximum; if neither fits, training will say so.
FormatTimes Measure(TrainerContext& context, Trial& trial, const Batch& batch,
                    const Clock& clock) {
  FormatTimes times;
  for (int round = 0; round < kRounds; ++round) {
    for (const bool channels_last : {false, true}) {
      StoreAllWeights(context.objects(), channels_last);
      Duration& shortest = channels_last ? times.channels_last : times.standard;
      try {
        const Duration time = StepTime(context, trial, batch, clock);
        if (round > 0) shortest = std::min(shortest, time);
      } catch (const c10::OutOfMemoryError&) {
      }
    }
  }
  return times;
}

std::string Describe(Duration time) {
  if (time == Duration::max()) return "too much memory";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms",
                std::chrono::duration<double, std::milli>(time).count());
  return text;
}

}  // namespace

bool IsChannelsLast(const std::string& setting,
                    const torch::nn::Module& model) {
  if (setting != "auto") return setting == "on";
  bool wide = false;
  bool first = true;
  for (const torch::Tensor& weight : model.parameters()) {
    if (!IsOfImages(weight)) continue;
    const bool has_many = weight.size(0) >= kFewChannels &&
                          (first || weight.size(1) >= kFewChannels ||
                           weight.size(1) == 1);  // depthwise
    if (!has_many) return false;
    wide = true;
    first = false;
  }
  return wide;
}

void StoreWeights(torch::nn::Module& model, bool channels_last) {
  const torch::NoGradGuard no_grad;
  const auto format = channels_last ? torch::MemoryFormat::ChannelsLast
                                    : torch::MemoryFormat::Contiguous;
  for (torch::Tensor& weight : model.parameters()) {
    if (!IsOfImages(weight)) continue;
    weight.set_data(weight.contiguous(format));
  }
}

bool MeasuresMemoryFormat(const TrainerSettings& settings,
                          torch::DeviceType device,
                          const std::vector<NamedModel>& models) {
  return settings.channels_last == "auto" && device == torch::kCUDA &&
         !settings.deterministic && !settings.update_in_backward &&
         HasConvolutions(models);
}

void ChooseMemoryFormat(TrainerContext& context, Trial& trial,
                        const Batch& batch, const Clock& clock) try {
  context.SetTraining(true);
  Unchanged all(context, trial);
  const FormatTimes times = Measure(context, trial, batch, clock);
  const bool is_faster = times.channels_last < times.standard;
  const bool chosen = context.ranks().FromFirst(is_faster ? "1" : "0") == "1";
  StoreAllWeights(context.objects(), chosen);
  all.Restore();
  context.RenewGradientSyncs();
  if (!context.ranks().is_first()) return;
  LogLine(LogLevel::kInfo,
          std::string("convolutions use the ") +
              (chosen ? "channels-last" : "standard") +
              " memory format; measured: a step needs " +
              Describe(times.channels_last) + " in channels-last, " +
              Describe(times.standard) + " in the standard format");
} catch (const c10::Error& error) {
  throw Error(ErrorKind::kFailed,
              "the first training batch: " + TorchMessage(error));
}

}  // namespace dtrain
