#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/train/fused_optimizers.h"
#include "engine/train/gradients.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/rank_group.h"
#include "engine/train/step_profile.h"
#include "engine/train/trained_objects.h"
#include "engine/train/trial.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

/// The TrialContext of a trial that is trained here, and the trainer's hold on
/// what the trial added to it.
class TrainerContext final : public TrialContext {
 public:
  /// REQUIRES: `spec` and `ranks` outlive it; null: the only rank.
  TrainerContext(const TrialSpec& spec, torch::Device device,
                 RankGroup* ranks = nullptr);

  const nlohmann::json& data() const override { return spec_.data; }
  torch::Device device() const override { return device_; }
  int rank() const override { return spec_.rank; }
  int world_size() const override { return spec_.world_size; }
  std::uint32_t seed() const override { return spec_.seed; }
  std::int64_t run() const override { return spec_.run; }
  bool continues() const override {
    return !spec_.restore.empty() || !spec_.warm_start.empty();
  }
  std::int64_t batches() const override { return batches_; }
  const std::string& searcher_metric() const override {
    return spec_.settings.searcher_metric;
  }
  bool smaller_is_better() const override {
    return spec_.settings.smaller_is_better;
  }

  void Add(const std::shared_ptr<torch::nn::Module>& model,
           const std::string& name) override;
  void Add(const std::shared_ptr<torch::optim::Optimizer>& optimizer,
           const std::string& name) override;
  void Add(LrSchedule schedule, torch::optim::Optimizer& optimizer,
           StepMode mode, std::int64_t frequency) override;
  void Backward(const torch::Tensor& loss,
                const torch::Tensor& gradient) override;
  void Step(torch::optim::Optimizer& optimizer, Clip clip) override;
  void StepSchedules() override;
  void RequestStop(const std::string& why) override { stop_reason_ = why; }

  // ---- For the trainer.

  /// Turns training mode of all models on or off.
  void SetTraining(bool on);
  /// Says how many batches were trained, after a restore.
  void SetBatches(std::int64_t batches) { batches_ = batches; }
  /// One batch was trained: counts it and steps the schedules.
  void EndBatch(std::int64_t batches_per_epoch);
  /// Shows the metrics of a validation to the schedules that follow one; of a
  /// trial without validation data, those of a training report, of which some
  /// come only with the end of an epoch: `known` are all names. Throws
  /// Error(kUsage) that lists the metrics if the one they follow is missing.
  void ObserveValidation(const MetricValues& metrics);
  void ObserveTraining(const MetricValues& metrics,
                       const std::set<std::string>& known);
  /// Every group's learning rate: `lr`, `lr_1`, … of the first optimizer,
  /// `NAME.lr`, `NAME.lr_1`, … of the others.
  void AppendLearningRates(MetricValues& metrics) const;
  /// Sets the rates that the schedules ask for.
  void ApplySchedules();
  /// Why the trial asked to end, or empty.
  const std::string& stop_reason() const { return stop_reason_; }

  /// Lets the device do what changes from step to step (see CapturableState),
  /// so that no step waits for it and one can be captured. Call it when all is
  /// restored. Why that cannot be, or empty.
  std::string StepOnDevice();
  /// Brings what the schedules ask for to the device, which steps there.
  void UploadLearningRates();
  /// From here to EndCapture, Step only asks the device for work that will be
  /// replayed, and is noted. Throws Error(kFailed) if it has needed the host.
  void BeginCapture();
  /// `succeeded`: whether there is something to replay.
  void EndCapture(bool succeeded);
  /// What was captured was replayed: does the host's part of its steps.
  void CountReplay();

  /// Says in the log which steps fp16 has left out, where the device alone
  /// knew.
  void LogOverflows();

  /// The scaler of losses; null without fp16.
  LossScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const LossScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  /// What forward passes compute in; none: the type of the weights.
  std::optional<torch::ScalarType> precision() const { return precision_; }

  /// Where the time of a step is noted; null if it is not.
  StepProfile* profile() { return profile_; }
  /// REQUIRES: `profile` outlives this.
  void SetProfile(StepProfile* profile) { profile_ = profile; }

  RankGroup& ranks() { return ranks_; }
  TrainedObjects& objects() { return objects_; }
  const TrainedObjects& objects() const { return objects_; }
  const TrialSpec& spec() const { return spec_; }

 private:
  const nlohmann::json& AllHparams() const override { return spec_.hparams; }

  bool IsLastOfAggregation() const;
  NamedOptimizer& Find(const torch::optim::Optimizer& optimizer);
  void Observe(const MetricValues& metrics, const std::set<std::string>& known,
               bool is_validation);
  // Makes them the means of all ranks.
  void FinishGradients(const torch::optim::Optimizer& optimizer);
  // False if the step was left out.
  bool StepOptimizer(torch::optim::Optimizer& optimizer, Clip clip);
  bool Unscale(torch::optim::Optimizer& optimizer);
  // One more step was taken: schedules may count it.
  void CountStep(NamedOptimizer& entry);
  std::vector<FusedOptimizer*> FusedOptimizers() const;

  const TrialSpec& spec_;
  const torch::Device device_;
  const std::optional<torch::ScalarType> precision_;
  std::optional<LossScaler> scaler_;  // with fp16
  RankGroup alone_;
  RankGroup& ranks_;
  TrainedObjects objects_;
  // With several ranks, of each optimizer.
  std::vector<std::unique_ptr<GradientSync>> syncs_;
  // With update_in_backward, of each optimizer.
  std::vector<std::unique_ptr<BackwardUpdate>> updates_;
  bool steps_on_device_ = false;
  bool is_capturing_ = false;
  std::vector<NamedOptimizer*> captured_;  // whose steps were captured
  StepProfile* profile_ = nullptr;
  std::int64_t batches_ = 0;
  std::string stop_reason_;
};

}  // namespace dtrain
