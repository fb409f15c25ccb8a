#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/train/batch_length.h"
#include "engine/train/log_line.h"
#include "engine/train/torch_error.h"

namespace dtrain {

namespace {

// Reports as such are signs of life: short units need no progress in between.
constexpr Duration kShortestProgress = std::chrono::milliseconds(50);

// How many batches are trained in one go.
std::int64_t SinkBatches(const TrainerSettings& settings,
                         std::int64_t batches_per_pass) {
  if (settings.sink_size == 0) return 1;
  return settings.sink_size < 0 ? batches_per_pass : settings.sink_size;
}

std::unique_ptr<DataSource> TrainingDataOf(Trial& trial) {
  if (auto data = trial.TrainingData()) return data;
  throw Error(ErrorKind::kFailed,
              "TrainingData() returned null; return the data to train on");
}

// Says what a batch has where the ranks do not divide it.
void WarnOfBatchSize(const TrialSpec& spec) {
  const auto size = spec.hparams.find("global_batch_size");
  if (spec.rank != 0 || spec.run != 0 || size == spec.hparams.end()) return;
  if (!size->is_number_integer()) return;
  const auto samples = size->get<std::int64_t>();
  const std::int64_t each = samples / spec.world_size;
  if (each < 1 || samples == each * spec.world_size) return;
  LogLine(LogLevel::kWarning,
          "global_batch_size " + std::to_string(samples) +
              " is not a multiple of " + std::to_string(spec.world_size) +
              " ranks: each takes " + std::to_string(each) +
              ", so a batch has " + std::to_string(each * spec.world_size) +
              " samples");
}

}  // namespace

Trainer::Trainer(TrainerContext& context, Trial& trial, const TrialLink& link,
                 Clock clock, std::unique_ptr<StepGraph> graph)
    : context_(context),
      ranks_(context.ranks()),
      trial_(trial),
      link_(link),
      clock_(std::move(clock)),
      training_(TrainingDataOf(trial)),
      validation_(trial.ValidationData()),
      sink_(SinkBatches(settings(), training_->BatchesPerEpoch())),
      batches_per_epoch_(
          settings().sink_size == 0 ? training_->BatchesPerEpoch() : sink_),
      to_device_(context.device()),
      graph_(std::move(graph)),
      sums_(!settings().average_training_metrics) {
  if (settings().profile) StartProfile();
  if (settings().early_stopping)
    early_stop_.emplace(*settings().early_stopping);
  WarnOfBatchSize(context_.spec());
  const std::int64_t records = settings().records_per_epoch;
  if (records != 0 && records != training_->SamplesPerEpoch()) {
    LogLine(LogLevel::kWarning,
            "records_per_epoch is " + std::to_string(records) +
                ", but an epoch of the training data has " +
                std::to_string(training_->SamplesPerEpoch()) +
                " samples; the data decides");
  }
}

void Trainer::Restore() {
  const TrialSpec& spec = context_.spec();
  if (!spec.restore.empty()) {
    state_ =
        LoadCheckpoint(spec.CheckpointPath(spec.restore), context_, trial_);
    sums_.Load(state_.sums);
    if (early_stop_ && !state_.early_stop.is_null()) {
      early_stop_->Load(state_.early_stop);
    }
    last_checkpoint_ = state_.batches;
    LogLine(LogLevel::kInfo, "resumed from step " +
                                 std::to_string(state_.batches) +
                                 ", checkpoint " + spec.restore);
    for (TrialMessage& message : std::exchange(state_.unacknowledged, {})) {
      link_.send(std::move(message));
    }
  } else if (!spec.warm_start.empty()) {
    WarmStart(spec.warm_start, context_, trial_);
    LogLine(LogLevel::kInfo, "began from checkpoint " + spec.warm_start);
  }
  ranks_.ShareModels(context_.objects());
  training_->Seek(state_.batches);
}

Finished Trainer::Run() {
  context_.SetTraining(true);
  StartSteps();
  if (settings().perform_initial_validation && validation_ &&
      state_.batches == 0 && !state_.last_validation && !Validate()) {
    return Stop();
  }
  if (!Repeat()) return Stop();
  const auto& until = context_.spec().until;
  RunnerMessage order = until ? RunOperation{*until} : NextOrder();
  while (const auto* operation = std::get_if<RunOperation>(&order)) {
    if (!Operate(operation->until)) return Stop();
    order = NextOrder();
  }
  if (std::holds_alternative<StopTrial>(order)) return Stop();
  return {.reason = EndReason::kCompleted, .message = state_.ended};
}

bool Trainer::Operate(Length until) {
  if (!TrainUntil(until)) return false;
  Complete(until);
  return true;
}

bool Trainer::Repeat() {
  for (const Length& length : context_.spec().completed) {
    const bool is_past = Batches(length) <= state_.batches;
    if (!is_past && !TrainUntil(length)) return false;
  }
  return true;
}

bool Trainer::TrainUntil(Length until) {
  target_ = Batches(until);
  TellProgress();
  while (true) {
    AgreeOnEnd();
    const bool done = state_.batches >= target_ || !state_.ended.empty();
    if (!AtBoundary(done)) return false;
    // The validation may have ended the training: then it is looked at again.
    if (done) break;
    if (!state_.ended.empty()) continue;
    if (link_.stop_requested()) return false;
    do {
      TrainBatch();
    } while (!IsBoundary() && state_.batches < target_);
  }
  return true;
}

void Trainer::AgreeOnEnd() {
  if (!ranks_.Any(!state_.ended.empty())) return;
  for (std::string& reason : ranks_.Gather(state_.ended)) {
    if (reason.empty()) continue;
    state_.ended = std::move(reason);
    return;
  }
}

bool Trainer::AtBoundary(bool done) {
  const std::int64_t batches = state_.batches;
  const std::int64_t unit =
      settings().sink_size == 0 ? settings().scheduling_unit : sink_;
  const bool reports = done || batches % unit == 0;
  if (reports) {
    ReportTraining();
  } else if (batches > 0 && batches % batches_per_epoch_ == 0) {
    ReportEpoch();
  }
  const bool is_validated =
      state_.last_validation && state_.last_validation->batches == batches;
  if (validation_ && !is_validated &&
      (done || IsDue(settings().min_validation_period)) && !Validate()) {
    return false;
  }
  if (NeedsCheckpoint(done)) {
    Checkpoint(done ? Need::kRequired : Need::kPeriodic);
  }
  keeps_validation_ = false;
  if (reports) ReportProfile();
  return true;
}

// The beginning needs none: it can be made again. But an initial validation may
// be the best there will be.
bool Trainer::NeedsCheckpoint(bool done) const {
  if (last_checkpoint_ == state_.batches) return false;
  if (keeps_validation_) return true;
  return state_.batches > 0 &&
         (done || IsDue(settings().min_checkpoint_period));
}

Batch Trainer::ReadBatch() {
  const StepProfile::Scope scope(context_.profile(), Phase::kData);
  return to_device_(training_->Read());
}

// Why steps cannot be captured, or empty. What of them is left to find out is
// up to the trial.
std::string Trainer::GraphObstacle() const {
  if (!ranks_.is_alone()) return "this trial has several ranks";
  if (settings().aggregation_frequency > 1) {
    return "optimizations.aggregation_frequency is above 1";
  }
  return "";
}

void Trainer::StartSteps() {
  std::string obstacle = GraphObstacle();
  if (graph_ != nullptr || context_.device().is_cuda()) {
    const std::string why = context_.StepOnDevice();
    if (obstacle.empty()) obstacle = why;
  }
  if (graph_ != nullptr && !obstacle.empty()) {
    LogLine(LogLevel::kInfo,
            "steps are not captured as a CUDA graph: " + obstacle);
    graph_.reset();
  }
  step_.emplace(std::move(graph_), context_, trial_, sums_);
}

void Trainer::TrainOn(const Batch& batch, BatchIndex index) {
  const StepProfile::Scope scope(context_.profile(), Phase::kForward);
  step_->Train(batch, index);
  if (profile_) profile_->AddBatch(batch.size() * ranks_.size());
}

RunnerMessage Trainer::NextOrder() {
  const StepProfile::Scope scope(context_.profile(), Phase::kIdle);
  return link_.next();
}

void Trainer::TrainBatch() try {
  const std::int64_t number = state_.batches;
  const Batch batch = ReadBatch();
  rates_.clear();
  context_.AppendLearningRates(rates_);
  TrainOn(batch, {.epoch = number / batches_per_epoch_, .batch = number});
  context_.EndBatch(batches_per_epoch_);
  ++state_.batches;
  if (state_.ended.empty()) state_.ended = context_.stop_reason();
  const Duration since = clock_.monotonic() - told_;
  if (since >= kProgressInterval ||
      (since >= kShortestProgress &&
       state_.batches % settings().scheduling_unit == 0)) {
    TellProgress();
  }
} catch (const c10::Error& error) {
  throw Error(ErrorKind::kFailed, "training batch " +
                                      std::to_string(state_.batches) + ": " +
                                      TorchMessage(error));
}

bool Trainer::IsDue(Length period) const {
  const std::int64_t batches = Batches(period);
  // With sinking, also where it would have been due since the last boundary.
  return batches > 0 && state_.batches > 0 && state_.batches % batches < sink_;
}

std::int64_t Trainer::Batches(Length length) const {
  return LengthInBatches(length, batches_per_epoch_, context_.spec().hparams);
}

}  // namespace dtrain
