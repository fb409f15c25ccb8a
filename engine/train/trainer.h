#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/checkpoint/disk_wait.h"
#include "engine/train/checkpoint.h"
#include "engine/train/device.h"
#include "engine/train/gpu.h"
#include "engine/train/graphed_step.h"
#include "engine/train/metric_sums.h"
#include "engine/train/step_profile.h"
#include "engine/train/trainer_context.h"
#include "engine/train/training_state.h"
#include "engine/train/trial.h"
#include "engine/train/trial_channel.h"

namespace dtrain {

/// Trains one trial: executes the runner's operations batch by batch, and
/// validates, checkpoints and reports when due. A training report is sent every
/// scheduling unit and at the end of an operation, before the validation and
/// the checkpoint of the same batch. Metrics that only the last batch of an
/// epoch has are reported there. Metrics on a GPU that nothing here depends on
/// are read from it several reports at a time, before the next message of any
/// other kind. Not thread-safe.
class Trainer {
 public:
  /// Requests the trial's data. `link` is shared by all ranks (RankedLink).
  /// `graph` captures steps; null: none are captured. REQUIRES: all references
  /// outlive this object.
  Trainer(TrainerContext& context, Trial& trial, const TrialLink& link,
          Clock clock, std::unique_ptr<StepGraph> graph = nullptr);

  /// Restores the checkpoint in the specification, or loads the weights of its
  /// warm start; does nothing if it names neither.
  void Restore();

  /// Trains until the runner closes or stops the trial. Throws Error, and
  /// whatever the trial throws.
  [[nodiscard]] Finished Run();

 private:
  static constexpr Duration kProgressInterval = std::chrono::milliseconds(200);
  static constexpr std::size_t kMaxPendingReports = 64;

  // A training report whose metrics are still on the device.
  struct PendingReport {
    MetricSums sums;
    MetricValues rates;
    TrainingReport report;
  };

  Finished RunToTheEnd();
  // Return false if the trial was asked to stop and must exit at this batch.
  bool Operate(Length until);
  bool RepeatCompleted();
  bool TrainUntil(Length until);
  bool AtBoundary(bool done);
  bool Validate();

  void StartSteps();
  std::string GraphObstacle() const;
  Batch ReadBatch();
  void TrainOn(const Batch& batch, BatchIndex index);
  std::int64_t BatchesToEvent() const;
  void TrainBatches();
  RunnerMessage NextInstruction();
  void ReportTraining();
  bool MayReportLater() const;
  TrainingReport NewReport();
  void SendPendingReports();
  // Unread hyperparameters, for the first message of each kind; empty if
  // already reported, or too early.
  std::optional<std::vector<std::string>> UnreadOnce(bool& reported) const;
  void ReportEpoch();
  void StartProfile();
  void ReportProfile();
  // Records a validation; returns true if checkpoint_policy requires a
  // checkpoint of it.
  bool KeepsValidation(const MetricValues& metrics);
  bool NeedsCheckpoint(bool done) const;
  // Necessity of a checkpoint.
  enum class Need {
    kPeriodic,  // a later one will do
    kRequired,  // the runner waits for it
    kLast,      // the process exits: no waiting for disk space
  };
  void Checkpoint(Need need);
  enum class Written { kYes, kNo, kWaits };
  Written WriteCheckpoint(TrainingState state,
                          const std::vector<RankShare>& shares, Need need);
  bool AwaitSpace(DiskWait& wait);
  // `required`: the metric must be present.
  void ObserveForStopping(const MetricValues& metrics, bool required);
  void Complete(Length until);
  void SendProgress();
  // Stops this rank if another rank's trial asked to stop.
  void AgreeOnEnd();
  Finished Stop();

  bool IsDue(Length period) const;
  bool IsBoundary() const { return state_.batches % sink_ == 0; }
  std::int64_t Batches(Length length) const;
  double Epoch() const;
  ReportPoint Point() const;
  const TrainerSettings& settings() const { return context_.spec().settings; }

  TrainerContext& context_;
  RankGroup& ranks_;
  Trial& trial_;
  const TrialLink& link_;
  const Clock clock_;
  std::unique_ptr<DataSource> training_;
  std::unique_ptr<DataSource> validation_;  // may be null
  const std::int64_t sink_;  // batches per data sink; 1: no sinking
  const std::int64_t batches_per_epoch_;

  DeviceCopy to_device_;
  std::unique_ptr<StepGraph> graph_;  // until StartSteps
  std::optional<GraphedStep> step_;   // from StartSteps on
  TrainingState state_;
  std::optional<StepProfile> profile_;
  std::optional<GpuMeter> gpu_;
  MetricSums sums_;
  MetricValues rates_;  // of the last batch
  std::vector<PendingReport> pending_;
  std::optional<EarlyStop> early_stop_;
  std::optional<std::int64_t> last_checkpoint_;  // batches
  // Batches of the last validation report of this process.
  std::optional<std::int64_t> validation_reported_at_;
  int failed_checkpoints_ = 0;     // since the last one that was written
  bool keeps_validation_ = false;  // checkpoint this batch's validation
  std::int64_t target_ = 0;        // batches of this operation
  Duration last_progress_{0};      // time of the last progress message
  // Unread hyperparameters are sent with the first message of each kind.
  bool unread_in_training_ = false;
  bool unread_in_validation_ = false;
  bool unread_in_completion_ = false;
};

}  // namespace dtrain
