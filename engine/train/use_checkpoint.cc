#include "engine/train/use_checkpoint.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/train/checkpoint.h"
#include "engine/checkpoint/prediction_files.h"
#include "engine/train/random_state.h"
#include "engine/train/tensor_file.h"
#include "engine/train/trainer_context.h"
#include "engine/train/validation.h"

namespace dtrain {
namespace {

constexpr Duration kProgressInterval = std::chrono::milliseconds(200);

std::unique_ptr<DataSource> SourceOf(Trial& trial, const std::string& split) {
  auto source = split == "training" ? trial.TrainingData()
                : split == "test"   ? trial.TestData()
                                    : trial.ValidationData();
  if (source == nullptr) {
    throw Error(ErrorKind::kFailed, "there is no " + split +
                                        " set in this trial's data; name "
                                        "another with --split or --data");
  }
  return source;
}

// A model as it was, and a set to apply it to.
class Use {
 public:
  Use(const TrialSpec& spec, const MakeTrial& make, const TrialLink& link,
      torch::Device device, const Clock& clock)
      : spec_(spec),
        link_(link),
        device_(device),
        clock_(clock),
        context_((SeedRandom(spec.seed, device), spec), device),
        trial_(make(context_)) {
    link.send(Ready{});
    WarmStart(spec.warm_start, context_, *trial_);
    source_ = SourceOf(*trial_, spec.split);
    context_.SetTraining(false);
    progress_.total = progress_.batches_per_epoch = source_->BatchesPerEpoch();
    link.send(progress_);
  }

  Finished Evaluate() {
    auto metrics =
        RunValidation(*trial_, *source_, device_, [this] { return GoOn(); });
    if (!metrics) return {.reason = EndReason::kStopped};
    link_.send(
        ValidationReport{.metrics = *std::move(metrics), .time = clock_.now()});
    return {.reason = EndReason::kCompleted};
  }

  Finished Predict() {
    std::vector<torch::Tensor> outputs;
    std::vector<torch::Tensor> targets;
    std::int64_t samples = 0;
    source_->Seek(0);
    while (progress_.batches < progress_.total && !Enough(samples)) {
      if (!GoOn()) return {.reason = EndReason::kStopped};
      const Batch batch = source_->Read().To(device_);
      outputs.push_back(OutputOf(batch));
      if (batch.target.defined() && batch.target.dim() == 1) {
        targets.push_back(batch.target.to(torch::kCPU));
      }
      samples += batch.size();
    }
    NamedTensors tensors = {{"output", FirstOf(outputs)}};
    if (!targets.empty()) tensors.emplace_back("target", FirstOf(targets));
    CheckpointWriter writer(spec_.directory + "/" + kPredictionDirectory);
    WriteTensors(writer, kPredictionFile, tensors);
    (void)writer.Commit();
    return {.reason = EndReason::kCompleted};
  }

 private:
  bool GoOn() {
    ++progress_.batches;
    if (clock_.monotonic() - told_ >= kProgressInterval) {
      told_ = clock_.monotonic();
      link_.send(progress_);
    }
    return !link_.stop_requested();
  }

  bool Enough(std::int64_t samples) const {
    return spec_.limit > 0 && samples >= spec_.limit;
  }

  torch::Tensor OutputOf(const Batch& batch) {
    const c10::InferenceMode inference;
    const bool features = spec_.task == Task::kFeatures;
    const torch::Tensor output =
        features ? trial_->Features(batch) : trial_->Predict(batch);
    if (output.defined()) return output.to(torch::kCPU, torch::kFloat);
    throw Error(ErrorKind::kFailed,
                std::string("this trial has no ") +
                    (features ? "Features" : "Predict") +
                    "; give it one to use its checkpoints so");
  }

  // All rows of `parts`, or as many as were asked for.
  torch::Tensor FirstOf(const std::vector<torch::Tensor>& parts) const {
    const c10::InferenceMode inference;
    const torch::Tensor all = torch::cat(parts);
    const std::int64_t rows =
        spec_.limit > 0 ? std::min(spec_.limit, all.size(0)) : all.size(0);
    return all.narrow(0, 0, rows).contiguous();
  }

  const TrialSpec& spec_;
  const TrialLink& link_;
  const torch::Device device_;
  const Clock& clock_;
  TrainerContext context_;
  const std::unique_ptr<Trial> trial_;
  std::unique_ptr<DataSource> source_;
  Progress progress_;
  Duration told_{0};  // when progress was told last
};

}  // namespace

Finished UseCheckpoint(const TrialSpec& spec, const MakeTrial& make,
                       const TrialLink& link, torch::Device device,
                       const Clock& clock) {
  return FinishedWithin(spec, [&] {
    Use use(spec, make, link, device, clock);
    return spec.task == Task::kEvaluate ? use.Evaluate() : use.Predict();
  });
}

}  // namespace dtrain
