// The loop of a trial's training, in the trial's process.
//
// The runner orders lengths (operations). TrainUntil trains to one in batches
// and, at boundaries (the end of a scheduling unit or of an epoch, a period
// that is due, the length itself), reports training metrics, validates, and
// saves a checkpoint, in this order: a checkpoint contains the validation of
// its batch, and the profile, which comes last, the time of both. Lengths that
// earlier processes completed are trained again first if the checkpoint is
// behind them, with the same boundaries, so that a resumed trial ends in the
// same state.
//
// With several ranks every rank runs this loop, and all decisions are
// collective: whoever calls Any, Gather or ShareBuffers does so on all ranks
// and in the same order, or the others wait for ever. Rank 0 alone writes
// checkpoints, and a RankedLink sends only its messages.
//
// Reading a metric waits for the GPU. So reports of a trial that validates are
// collected on the device and sent together, at the latest before anything that
// must come behind them: progress, a validation, a checkpoint, a completed
// operation, the end. They keep the batch and time at which they were made.
//
// A checkpoint that cannot be written does not end the trial at once; see
// Checkpoint.

#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/length.h"
#include "engine/base/metric_order.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/train/checkpoint.h"
#include "engine/train/device.h"
#include "engine/train/gpu.h"
#include "engine/train/log_line.h"
#include "engine/train/memory_format.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/training_data.h"
#include "engine/train/validation.h"

namespace dtrain {

namespace {

// Reports are signs of life themselves: short units need no progress messages
// in between.
constexpr Duration kMinProgressInterval = std::chrono::milliseconds(50);

// Number of batches trained without looking at messages.
std::int64_t SinkBatches(const TrainerSettings& settings,
                         std::int64_t batches_per_pass) {
  if (settings.sink_size == 0) return 1;
  return settings.sink_size < 0 ? batches_per_pass : settings.sink_size;
}

}  // namespace

Trainer::Trainer(TrainerContext& context, Trial& trial, const TrialLink& link,
                 Clock clock, std::unique_ptr<StepGraph> graph)
    : context_(context),
      ranks_(context.ranks()),
      trial_(trial),
      link_(link),
      clock_(std::move(clock)),
      training_(OpenTrainingData(trial, context.device())),
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
                " samples; using the number in the data");
  }
}

void Trainer::Restore() {
  const TrialSpec& spec = context_.spec();
  if (MeasuresMemoryFormat(settings(), context_.device().type(),
                           context_.objects().models)) {
    ChooseMemoryFormat(context_, trial_, ReadBatch(), clock_);
  }
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
    LogLine(LogLevel::kInfo, "started from checkpoint " + spec.warm_start);
  }
  ranks_.ShareModels(context_.objects());
  // After everything that may read from the data: a measured memory format has
  // read a batch.
  training_->Seek(state_.batches);
}

// Reports of the batches before a failure are sent, too, if the device allows.
Finished Trainer::Run() try { return RunToTheEnd(); } catch (...) {
  try {
    SendPendingReports();
  } catch (const std::exception&) {
  }
  throw;
}

Finished Trainer::RunToTheEnd() {
  context_.SetTraining(true);
  StartSteps();
  if (settings().perform_initial_validation && validation_ &&
      state_.batches == 0 && !state_.last_validation && !Validate()) {
    return Stop();
  }
  // Before the runner is asked for more: it takes these lengths for done.
  if (!RepeatCompleted()) return Stop();
  const auto& until = context_.spec().until;
  RunnerMessage order = until ? RunOperation{*until} : NextInstruction();
  while (const auto* operation = std::get_if<RunOperation>(&order)) {
    if (!Operate(operation->until)) return Stop();
    order = NextInstruction();
  }
  if (std::holds_alternative<StopTrial>(order)) return Stop();
  return {.reason = EndReason::kCompleted, .message = state_.ended};
}

bool Trainer::Operate(Length until) {
  if (!TrainUntil(until)) return false;
  Complete(until);
  return true;
}

bool Trainer::RepeatCompleted() {
  for (const Length& length : context_.spec().completed) {
    const bool is_past = Batches(length) <= state_.batches;
    if (!is_past && !TrainUntil(length)) return false;
  }
  return true;
}

bool Trainer::TrainUntil(Length until) {
  target_ = Batches(until);
  SendProgress();
  while (true) {
    // Ranks must agree before AtBoundary, whose validation and checkpoint are
    // collective.
    AgreeOnEnd();
    const bool done = state_.batches >= target_ || !state_.ended.empty();
    if (!AtBoundary(done)) return false;
    // The validation may have ended training; the next iteration handles that.
    if (done) break;
    if (!state_.ended.empty()) continue;
    if (link_.stop_requested()) return false;
    do {
      TrainBatches();
    } while (!IsBoundary() && state_.batches < target_);
  }
  return true;
}

void Trainer::AgreeOnEnd() {
  // A trial may ask to end on one rank only, but ranks must leave the loop at
  // the same batch.
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

// No checkpoint at batch 0: that state can be recreated. An initial validation,
// however, may turn out to be the best one.
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

// Returns why steps cannot be captured, or empty. Only settings are considered
// here; GraphedStep finds out the rest.
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
  step_.emplace(std::move(graph_), context_, trial_, sums_, StepsPerGraph());
}

void Trainer::TrainOn(const Batch& batch, BatchIndex index) {
  const StepProfile::Scope scope(context_.profile(), Phase::kForward);
  step_->Train(batch, index);
  if (profile_) profile_->AddBatch(batch.size() * ranks_.size());
}

RunnerMessage Trainer::NextInstruction() {
  const StepProfile::Scope scope(context_.profile(), Phase::kIdle);
  return link_.next();
}

// Batches to the next report, validation or checkpoint, or to the end of the
// epoch or of the operation.
std::int64_t Trainer::BatchesToEvent() const {
  std::int64_t left = target_ - state_.batches;
  const auto meet = [&](std::int64_t period) {
    if (period > 0) left = std::min(left, period - state_.batches % period);
  };
  meet(batches_per_epoch_);
  meet(settings().sink_size == 0 ? settings().scheduling_unit : sink_);
  meet(Batches(settings().min_validation_period));
  meet(Batches(settings().min_checkpoint_period));
  return left;
}

// Trains one batch, or several by one graph.
void Trainer::TrainBatches() try {
  const BatchIndex index{.epoch = state_.batches / batches_per_epoch_,
                         .batch = state_.batches};
  rates_.clear();
  context_.AppendLearningRates(rates_);
  std::int64_t trained = 0;
  if (step_->steps() > 1) {
    trained = step_->TrainSeveral(*training_, index, BatchesToEvent(),
                                  batches_per_epoch_);
  }
  if (trained == 0) {
    TrainOn(ReadBatch(), index);
    trained = 1;
  }
  for (std::int64_t i = 0; i < trained; ++i) {
    context_.EndBatch(batches_per_epoch_);
  }
  state_.batches += trained;
  if (state_.ended.empty()) state_.ended = context_.stop_reason();
  const Duration since = clock_.monotonic() - last_progress_;
  if (since >= kProgressInterval ||
      (since >= kMinProgressInterval &&
       state_.batches % settings().scheduling_unit == 0)) {
    SendProgress();
  }
} catch (const c10::Error& error) {
  throw Error(ErrorKind::kFailed, "training batch " +
                                      std::to_string(state_.batches) + ": " +
                                      TorchMessage(error));
}

bool Trainer::IsDue(Length period) const {
  const std::int64_t batches = Batches(period);
  // With data sinking, also true if it was due since the last boundary.
  return batches > 0 && state_.batches > 0 && state_.batches % batches < sink_;
}

std::int64_t Trainer::Batches(Length length) const {
  return LengthInBatches(length, batches_per_epoch_, context_.spec().hparams);
}

void Trainer::ReportTraining() {
  if (sums_.empty() && rates_.empty()) return;
  const StepProfile::Scope scope(context_.profile(), Phase::kReport);
  if (MayReportLater()) {
    if (rates_.empty()) context_.AppendLearningRates(rates_);
    trial_.OnTrainingReport(Point());
    pending_.push_back({.sums = sums_.Drain(),
                        .rates = std::exchange(rates_, {}),
                        .report = NewReport()});
    if (pending_.size() >= kMaxPendingReports) SendPendingReports();
    return;
  }
  SendPendingReports();
  sums_.Merge(ranks_);
  context_.LogOverflows();
  MetricValues metrics = sums_.Values();
  sums_.Clear();
  if (rates_.empty()) context_.AppendLearningRates(rates_);
  AppendMissing(metrics, std::exchange(rates_, {}));
  state_.RememberTraining(state_.batches, metrics, sums_.occasional());
  if (!validation_) {
    context_.ObserveTraining(metrics, state_.KnownMetrics(sums_.Names()));
    ObserveForStopping(metrics, /*required=*/true);
  }
  if (ranks_.is_first()) trial_.OnTrainingReport(Point());
  TrainingReport report = NewReport();
  report.metrics = std::move(metrics);
  link_.send(std::move(report));
}

// True if reading the metrics would wait for the device, and nothing but the
// report needs them now.
bool Trainer::MayReportLater() const {
  return validation_ != nullptr && !profile_ && ranks_.is_alone() &&
         sums_.is_on_device();
}

// Returns a report of this batch, without metrics.
TrainingReport Trainer::NewReport() {
  return {.batches = state_.batches,
          .epoch = Epoch(),
          .time = clock_.now(),
          .unread = UnreadOnce(unread_in_training_)};
}

void Trainer::SendPendingReports() {
  if (pending_.empty()) return;
  std::vector<PendingReport> pending = std::exchange(pending_, {});
  std::vector<MetricSums*> sums;
  for (PendingReport& one : pending) sums.push_back(&one.sums);
  MetricSums::Fetch(sums);
  context_.LogOverflows();
  for (PendingReport& one : pending) {
    MetricValues metrics = one.sums.Values();
    AppendMissing(metrics, one.rates);
    state_.RememberTraining(one.report.batches, metrics, sums_.occasional());
    one.report.metrics = std::move(metrics);
    link_.send(std::move(one.report));
  }
}

std::optional<std::vector<std::string>> Trainer::UnreadOnce(
    bool& reported) const {
  // Too early before the first batch.
  if (state_.batches == 0 || std::exchange(reported, true)) return std::nullopt;
  return context_.UnreadHparams();
}

// Reports metrics that only the last batch of an epoch has, such as the epoch's
// mean loss, if no other report is due.
void Trainer::ReportEpoch() {
  MetricSums last = sums_.DrainOccasional();
  if (!ranks_.Any(!last.empty())) return;
  const StepProfile::Scope scope(context_.profile(), Phase::kReport);
  SendPendingReports();
  last.Merge(ranks_);
  MetricValues metrics = last.Values();
  state_.RememberTraining(state_.batches, metrics, sums_.occasional());
  if (!validation_) {
    context_.ObserveTraining(metrics, state_.KnownMetrics(sums_.Names()));
    ObserveForStopping(metrics, /*required=*/false);
  }
  TrainingReport report = NewReport();
  report.metrics = std::move(metrics);
  link_.send(std::move(report));
}

void Trainer::StartProfile() {
  context_.SetProfile(&profile_.emplace(clock_));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (context_.device().is_cuda() && ranks_.is_first() && visible != nullptr) {
    gpu_.emplace(visible);
  }
}

// Comes after the validation and the checkpoint of the same batch, to include
// them.
void Trainer::ReportProfile() {
  if (!profile_ || profile_->trained() == 0) return;
  ProfileReport report = profile_->Drain(state_.batches);
  if (gpu_) {
    report.gpu_percent = gpu_->Percent(clock_.monotonic());
    if (const auto memory = ReadGpu()) report.gpu_bytes = memory->peak;
  }
  link_.send(report);
}

bool Trainer::Validate() try {
  SendPendingReports();
  const StepProfile::Scope scope(context_.profile(), Phase::kValidation);
  ranks_.ShareBuffers(context_.objects());
  // An aborted validation must not affect training.
  const nlohmann::json random = SaveRandomState(context_.device());
  context_.SetTraining(false);
  const Autocast autocast(context_.device(), context_.precision());
  auto metrics = RunValidation(
      trial_, *validation_, context_.device(), settings().validation_batches,
      [this] {
        if (clock_.monotonic() - last_progress_ >= kProgressInterval)
          SendProgress();
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
  // All ranks save together. Only the metrics of rank 0 are recorded.
  const bool keeps = KeepsValidation(*metrics);
  keeps_validation_ = ranks_.Any(ranks_.is_first() && keeps);
  // If the metric is missing, the runner ends the trial.
  ObserveForStopping(*metrics, /*required=*/false);
  validation_reported_at_ = state_.batches;
  link_.send(ValidationReport{.batches = state_.batches,
                              .epoch = Epoch(),
                              .metrics = std::move(*metrics),
                              .time = clock_.now(),
                              .unread = UnreadOnce(unread_in_validation_)});
  return true;
} catch (const c10::Error& error) {
  throw Error(ErrorKind::kFailed, "validation after batch " +
                                      std::to_string(state_.batches) + ": " +
                                      TorchMessage(error));
}

bool Trainer::KeepsValidation(const MetricValues& metrics) {
  const double* value = FindMetric(metrics, settings().searcher_metric);
  std::optional<double>& best = state_.best_validation;
  const bool is_best =
      value != nullptr && std::isfinite(*value) &&
      (!best || IsBetter(*value, *best, settings().smaller_is_better));
  if (is_best) best = *value;
  const std::string& policy = settings().checkpoint_policy;
  return policy == "all" || (policy == "best" && is_best);
}

void Trainer::ObserveForStopping(const MetricValues& metrics, bool required) {
  if (!early_stop_ || !state_.ended.empty()) return;
  const EarlyStopping& rule = early_stop_->settings();
  const double* value = FindMetric(metrics, rule.metric);
  if (value == nullptr) {
    if (!required || sums_.occasional().contains(rule.metric)) return;
    throw Error(ErrorKind::kUsage,
                "early_stopping.metric '" + rule.metric +
                    "' was not reported; reported: " + MetricNames(metrics) +
                    "; set early_stopping.metric to one of these");
  }
  if (!early_stop_->Observe(*value)) return;
  state_.ended = early_stop_->Reason();
  LogLine(LogLevel::kInfo, "ended early: " + state_.ended);
}

// After a failure the previous checkpoint stays valid and training continues.
// The second failure in a row waits for disk space with the state in memory, so
// that a full disk costs at most two periods.
void Trainer::Checkpoint(Need need) {
  SendPendingReports();
  while (true) {
    DiskWait wait(context_.spec().CheckpointPath(""), clock_);
    Written written = Written::kYes;
    {
      const StepProfile::Scope scope(context_.profile(), Phase::kCheckpoint);
      ranks_.ShareBuffers(context_.objects());
      TrainingState state = state_;
      state.sums = sums_.Save();
      if (early_stop_) state.early_stop = early_stop_->Save();
      const auto shares = GatherShares(context_, trial_, state.sums, ranks_);
      if (ranks_.is_first()) {
        written = WriteCheckpoint(std::move(state), shares, need);
      }
    }
    // Rank 0 alone knows whether it has written; the others learn it here.
    if (!ranks_.Any(written != Written::kYes)) {
      last_checkpoint_ = state_.batches;
      failed_checkpoints_ = 0;
      return;
    }
    if (!ranks_.Any(written == Written::kWaits)) return;
    // One more attempt after a stop request.
    if (!AwaitSpace(wait)) need = Need::kLast;
  }
}

Trainer::Written Trainer::WriteCheckpoint(TrainingState state,
                                          const std::vector<RankShare>& shares,
                                          Need need) {
  // Read last: what is sent from here on belongs to the next checkpoint.
  state.unacknowledged = link_.unacknowledged();
  const std::string uuid = RandomUuid();
  WrittenCheckpoint written;
  try {
    written = SaveCheckpoint(context_.spec().CheckpointPath(uuid), context_,
                             trial_, state, Epoch(), shares);
  } catch (const Error& error) {
    const bool first = failed_checkpoints_++ == 0;
    const bool is_full = error.kind() == ErrorKind::kDiskFull;
    const bool waits =
        is_full && need != Need::kLast && (need == Need::kRequired || !first);
    if (!waits && (need != Need::kPeriodic || !first)) throw;
    LogLine(LogLevel::kWarning,
            std::string(error.what()) +
                (waits ? "; waiting for disk space with the state in memory"
                       : "; training continues without it"));
    link_.send(CheckpointFailed{
        .batches = state_.batches, .message = error.what(), .waits = waits});
    return waits ? Written::kWaits : Written::kNo;
  }
  link_.send(CheckpointSaved{.uuid = uuid,
                             .batches = state_.batches,
                             .epoch = Epoch(),
                             .bytes = written.bytes,
                             .files = std::move(written.files),
                             .time = clock_.now()});
  return Written::kYes;
}

// Waits until a retry makes sense: more space is free, or a minute has passed.
// Returns false if the trial was asked to stop. Collective.
bool Trainer::AwaitSpace(DiskWait& wait) {
  const StepProfile::Scope scope(context_.profile(), Phase::kIdle);
  wait.Begin();
  while (!ranks_.Any(ranks_.is_first() && wait.IsOver())) {
    if (link_.stop_requested()) return false;
    wait.Sleep();
  }
  return true;
}

void Trainer::Complete(Length until) {
  SendPendingReports();
  const auto& point =
      validation_ ? state_.last_validation : state_.last_training;
  // The runner has the result if it has the validation report.
  const bool is_reported = validation_reported_at_ == state_.batches;
  const MetricValues metrics =
      point && !is_reported ? point->metrics : MetricValues{};
  const bool early = state_.batches < target_;
  link_.send(OperationCompleted{.length = until,
                                .batches = state_.batches,
                                .metrics = metrics,
                                .early = early,
                                .why_early = early ? state_.ended : "",
                                .unread = UnreadOnce(unread_in_completion_)});
}

Finished Trainer::Stop() {
  SendPendingReports();
  ReportProfile();
  if (state_.batches > 0 && last_checkpoint_ != state_.batches) {
    Checkpoint(Need::kLast);
  }
  return {.reason = EndReason::kStopped};
}

void Trainer::SendProgress() {
  SendPendingReports();
  last_progress_ = clock_.monotonic();
  link_.send(Progress{.batches = state_.batches,
                      .total = target_,
                      .batches_per_epoch = batches_per_epoch_});
}

ReportPoint Trainer::Point() const {
  // Last trained batch; 0 before the first.
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
