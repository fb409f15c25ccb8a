#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/types.h>

#include "engine/base/length.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/rank_group.h"
#include "engine/train/trained_objects.h"
#include "engine/train/trial.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {

class BackwardUpdate;
class FusedOptimizer;
class GradientSync;
class StepProfile;

/// The TrialContext of a trial in training. The trainer also uses it to reach
/// the objects that the trial added.
class TrainerContext final : public TrialContext {
 public:
  /// `ranks` null: the only rank. REQUIRES: `spec` and `ranks` outlive this
  /// object.
  TrainerContext(const TrialSpec& spec, torch::Device device,
                 RankGroup* ranks = nullptr);
  ~TrainerContext() override;

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
  void RequestStop(const std::string& why) override;

  // ---- For the trainer.

  /// Switches all models between training and evaluation mode.
  void SetTraining(bool on);
  /// Sets the number of trained batches after a restore.
  void SetBatches(std::int64_t batches) { batches_ = batches; }
  /// Counts one trained batch and steps the schedules.
  void EndBatch(std::int64_t batches_per_epoch);
  /// Passes the metrics of a validation to the schedules that follow one. For a
  /// trial without validation data: the metrics of a training report, some of
  /// which appear only at the end of an epoch; `metric_names` lists all names.
  /// Throws Error(kUsage) that lists the metrics if the one followed is
  /// missing.
  void ObserveValidation(const MetricValues& metrics);
  void ObserveTraining(const MetricValues& metrics,
                       const std::set<std::string>& metric_names);
  /// Appends the learning rate of every parameter group: `lr`, `lr_1`, … of the
  /// first optimizer, `NAME.lr`, `NAME.lr_1`, … of the others.
  void AppendLearningRates(MetricValues& metrics) const;
  /// Applies the current rates of the schedules.
  void ApplySchedules();
  /// Returns the reason of the trial to stop, or empty.
  const std::string& stop_reason() const { return stop_reason_; }

  /// While on, the trial's steps are only tried: Step clears the gradients and
  /// changes nothing else, StepSchedules and RequestStop do nothing, and ranks
  /// exchange no gradients.
  void SetRehearsal(bool on) { is_rehearsal_ = on; }
  /// Adapts the exchange of gradients to a new memory format of the parameters.
  /// REQUIRES: no gradient is being exchanged.
  void RenewGradientSyncs();

  /// Moves per-step state (see CapturableState) to the device, so that steps
  /// neither wait for it nor depend on the host, and can be captured. Call it
  /// after a restore. Returns why that is impossible, or an empty string.
  std::string StepOnDevice();
  /// True if no schedule changes a learning rate between the next `batches`
  /// batches.
  bool KeepsRates(std::int64_t batches, std::int64_t batches_per_epoch) const;
  /// Copies the current learning rates to the device. Does not wait.
  void UploadLearningRates();
  /// Until EndCapture, Step only issues device work for the graph and records
  /// what will be replayed. Throws Error(kFailed) if a step has needed the
  /// host.
  void BeginCapture();
  /// Begins the next step of a capture of several equal ones. CountReplay does
  /// the host's part of one.
  void BeginNextStep() { captured_.clear(); }
  /// `succeeded`: whether there is a graph to replay. If not, an earlier one
  /// can still be replayed.
  void EndCapture(bool succeeded);
  /// Does the host's part of a captured batch after a replay.
  void CountReplay();

  /// Logs the steps that fp16 has skipped on the device.
  void LogOverflows();

  /// Loss scaler; null without fp16.
  LossScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const LossScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  /// Compute type of forward passes; empty: the type of the weights.
  std::optional<torch::ScalarType> precision() const { return precision_; }

  /// Profile of the step's phases; null if not profiled.
  StepProfile* profile() { return profile_; }
  /// REQUIRES: `profile` outlives this object.
  void SetProfile(StepProfile* profile) { profile_ = profile; }

  RankGroup& ranks() { return ranks_; }
  TrainedObjects& objects() { return objects_; }
  const TrainedObjects& objects() const { return objects_; }
  const TrialSpec& spec() const { return spec_; }

 private:
  const nlohmann::json& AllHparams() const override { return spec_.hparams; }

  bool IsLastOfAggregation() const;
  NamedOptimizer& Find(const torch::optim::Optimizer& optimizer);
  void Observe(const MetricValues& metrics,
               const std::set<std::string>& metric_names, bool is_validation);
  // Averages the gradients over all ranks.
  void FinishGradients(const torch::optim::Optimizer& optimizer);
  // Returns false if the step was skipped.
  bool StepOptimizer(torch::optim::Optimizer& optimizer, Clip clip);
  bool Unscale(torch::optim::Optimizer& optimizer);
  // Counts a step and steps the schedules that count optimizer steps.
  void CountStep(NamedOptimizer& entry);
  std::vector<FusedOptimizer*> FusedOptimizers() const;

  const TrialSpec& spec_;
  const torch::Device device_;
  const std::optional<torch::ScalarType> precision_;
  std::optional<LossScaler> scaler_;  // fp16 only
  RankGroup alone_;
  RankGroup& ranks_;
  TrainedObjects objects_;
  // One for each optimizer, with several ranks.
  std::vector<std::unique_ptr<GradientSync>> syncs_;
  // One for each optimizer, with update_in_backward.
  std::vector<std::unique_ptr<BackwardUpdate>> updates_;
  bool steps_on_device_ = false;
  bool is_capturing_ = false;
  bool is_rehearsal_ = false;
  // Optimizers whose steps were captured; those of an earlier capture.
  std::vector<NamedOptimizer*> captured_;
  std::vector<NamedOptimizer*> captured_before_;
  StepProfile* profile_ = nullptr;
  std::int64_t batches_ = 0;
  std::string stop_reason_;
};

/// Length in batches: an epoch is a pass of the data source, records are
/// divided by the hyperparameter global_batch_size (result at least 1). Zero
/// stays zero.
std::int64_t LengthInBatches(Length length, std::int64_t batches_per_epoch,
                             const nlohmann::json& hparams);

/// Warns if global_batch_size is not divisible by the number of ranks.
void WarnOfBatchSize(const TrialSpec& spec);

}  // namespace dtrain
