#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/uuid.h"
#include "engine/train/autocast.h"
#include "engine/train/batch_length.h"
#include "engine/train/checkpoint.h"
#include "engine/train/log_line.h"
#include "engine/train/random_state.h"
#include "engine/train/torch_error.h"
#include "engine/train/validation.h"

namespace dtrain {

namespace {

constexpr Duration kProgressInterval = std::chrono::milliseconds(200);
// Reports as such are signs of life: short units need no progress in between.
constexpr Duration kShortestProgress = std::chrono::milliseconds(50);

const double* FindMetric(const MetricValues& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return &value;
  }
  return nullptr;
}

// How many batches are trained in one go.
std::int64_t SinkBatches(const TrainerSettings& settings,
                         std::int64_t batches_per_pass) {
  if (settings.sink_size == 0) return 1;
  return settings.sink_size < 0 ? batches_per_pass : settings.sink_size;
}

std::string Names(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.first);
  return names.empty() ? "none" : Join(names, ", ");
}

}  // namespace

Trainer::Trainer(TrainerContext& context, Trial& trial, const TrialLink& link,
                 Clock clock)
    : context_(context),
      ranks_(context.ranks()),
      trial_(trial),
      link_(link),
      clock_(std::move(clock)),
      training_(trial.TrainingData()),
      validation_(trial.ValidationData()),
      sink_(SinkBatches(settings(), training_->BatchesPerEpoch())),
      batches_per_epoch_(
          settings().sink_size == 0 ? training_->BatchesPerEpoch() : sink_),
      sums_(!settings().average_training_metrics) {
  if (settings().early_stopping)
    early_stop_.emplace(*settings().early_stopping);
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
    const std::string path = spec.directory + "/checkpoints/" + spec.restore;
    state_ = LoadCheckpoint(path, context_, trial_);
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
  if (settings().perform_initial_validation && validation_ &&
      state_.batches == 0 && !Validate()) {
    return Stop();
  }
  if (!Repeat()) return Stop();
  const auto& until = context_.spec().until;
  RunnerMessage order = until ? RunOperation{*until} : link_.next();
  while (const auto* operation = std::get_if<RunOperation>(&order)) {
    if (!Operate(operation->until)) return Stop();
    order = link_.next();
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
  if (done || batches % unit == 0) ReportTraining();
  const bool is_validated =
      state_.last_validation && state_.last_validation->batches == batches;
  if (validation_ && !is_validated &&
      (done || IsDue(settings().min_validation_period)) && !Validate()) {
    return false;
  }
  if (last_checkpoint_ != batches &&
      (done || IsDue(settings().min_checkpoint_period))) {
    Checkpoint(/*needed=*/done);
  }
  return true;
}

void Trainer::TrainBatch() try {
  const std::int64_t number = state_.batches;
  const Batch batch = training_->Read().To(context_.device());
  rates_.clear();
  context_.AppendLearningRates(rates_);
  const Autocast autocast(context_.device(), context_.precision());
  const Metrics metrics = trial_.TrainBatch(
      batch, {.epoch = number / batches_per_epoch_, .batch = number});
  sums_.Add(metrics, /*weight=*/1);
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

void Trainer::ReportTraining() {
  if (sums_.empty() && rates_.empty()) return;
  sums_.Merge(ranks_);
  MetricValues metrics = sums_.Values();
  sums_.Clear();
  if (rates_.empty()) context_.AppendLearningRates(rates_);
  for (const auto& rate : rates_) {
    // A trial that reports a rate itself knows better.
    if (FindMetric(metrics, rate.first) == nullptr) metrics.push_back(rate);
  }
  rates_.clear();
  state_.last_training = {state_.batches, metrics};
  if (!validation_) ObserveForStopping(metrics);
  if (ranks_.is_first()) trial_.OnTrainingReport(Point());
  link_.send(TrainingReport{.batches = state_.batches,
                            .epoch = Epoch(),
                            .metrics = std::move(metrics),
                            .time = clock_.now()});
}

bool Trainer::Validate() try {
  ranks_.ShareBuffers(context_.objects());
  // A validation that is broken off leaves no trace.
  const nlohmann::json random = SaveRandomState(context_.device());
  context_.SetTraining(false);
  const Autocast autocast(context_.device(), context_.precision());
  auto metrics = RunValidation(
      trial_, *validation_, context_.device(), settings().validation_batches,
      [this] {
        if (clock_.monotonic() - told_ >= kProgressInterval) TellProgress();
        return !link_.stop_requested();
      },
      ranks_);
  context_.SetTraining(true);
  if (!metrics) {
    LoadRandomState(random, context_.device());
    return false;
  }
  state_.last_validation = {state_.batches, *metrics};
  if (ranks_.is_first()) {
    trial_.OnValidationReport(
        Point(),
        state_.last_training ? state_.last_training->metrics : MetricValues{},
        *metrics);
  }
  context_.ObserveValidation(*metrics);
  ObserveForStopping(*metrics);
  link_.send(ValidationReport{.batches = state_.batches,
                              .epoch = Epoch(),
                              .metrics = std::move(*metrics),
                              .time = clock_.now()});
  return true;
} catch (const c10::Error& error) {
  throw Error(ErrorKind::kFailed, "validation after batch " +
                                      std::to_string(state_.batches) + ": " +
                                      TorchMessage(error));
}

void Trainer::ObserveForStopping(const MetricValues& metrics) {
  if (!early_stop_ || !state_.ended.empty()) return;
  const EarlyStopping& rule = early_stop_->settings();
  const double* value = FindMetric(metrics, rule.metric);
  if (value == nullptr) {
    throw Error(ErrorKind::kFailed,
                "early_stopping.metric '" + rule.metric +
                    "' was not reported; it must be one of: " + Names(metrics));
  }
  if (!early_stop_->Observe(*value)) return;
  state_.ended = "early stopping: '" + rule.metric + "' did not get better " +
                 std::to_string(rule.patience) + " times";
  LogLine(LogLevel::kInfo, state_.ended);
}

void Trainer::Checkpoint(bool needed) {
  ranks_.ShareBuffers(context_.objects());
  TrainingState state = state_;
  state.sums = sums_.Save();
  if (early_stop_) state.early_stop = early_stop_->Save();
  const auto shares = GatherShares(context_, trial_, state.sums, ranks_);
  const bool written =
      !ranks_.is_first() || WriteCheckpoint(std::move(state), shares, needed);
  if (!ranks_.Any(!written)) last_checkpoint_ = state_.batches;
}

bool Trainer::WriteCheckpoint(TrainingState state,
                              const std::vector<RankShare>& shares,
                              bool needed) {
  state.unacknowledged = link_.unacknowledged();
  const std::string uuid = RandomUuid();
  const std::string path = context_.spec().directory + "/checkpoints/" + uuid;
  WrittenCheckpoint written;
  try {
    written = SaveCheckpoint(path, context_, trial_, state, Epoch(), shares);
  } catch (const Error& error) {
    // The next one may work, and the last one still stands.
    if (needed) throw;
    LogLine(LogLevel::kWarning,
            std::string(error.what()) + "; training goes on without it");
    return false;
  }
  link_.send(CheckpointSaved{.uuid = uuid,
                             .batches = state_.batches,
                             .epoch = Epoch(),
                             .bytes = written.bytes,
                             .files = std::move(written.files),
                             .time = clock_.now()});
  return true;
}

void Trainer::Complete(Length until) {
  const auto& point =
      validation_ ? state_.last_validation : state_.last_training;
  const MetricValues metrics = point ? point->metrics : MetricValues{};
  link_.send(OperationCompleted{.length = until,
                                .batches = state_.batches,
                                .metrics = metrics,
                                .early = state_.batches < target_});
}

Finished Trainer::Stop() {
  if (last_checkpoint_ != state_.batches) Checkpoint(/*needed=*/true);
  return {.reason = EndReason::kStopped};
}

void Trainer::TellProgress() {
  told_ = clock_.monotonic();
  link_.send(Progress{.batches = state_.batches,
                      .total = target_,
                      .batches_per_epoch = batches_per_epoch_});
}

bool Trainer::IsDue(Length period) const {
  const std::int64_t batches = Batches(period);
  // With sinking, also where it would have been due since the last boundary.
  return batches > 0 && state_.batches > 0 && state_.batches % batches < sink_;
}

std::int64_t Trainer::Batches(Length length) const {
  return LengthInBatches(length, batches_per_epoch_, context_.spec().hparams);
}

ReportPoint Trainer::Point() const {
  // The last batch that was trained; none before the first.
  const std::int64_t last = std::max<std::int64_t>(state_.batches - 1, 0);
  return {
      .epoch = last / batches_per_epoch_ + 1,
      .epochs = std::max<std::int64_t>(target_ - 1, 0) / batches_per_epoch_ + 1,
      .step = last % batches_per_epoch_ + 1};
}

double Trainer::Epoch() const {
  return static_cast<double>(state_.batches) / batches_per_epoch_;
}

}  // namespace dtrain
