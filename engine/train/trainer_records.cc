#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/base/uuid.h"
#include "engine/train/autocast.h"
#include "engine/train/checkpoint.h"
#include "engine/train/log_line.h"
#include "engine/train/random_state.h"
#include "engine/train/read_gpu.h"
#include "engine/train/torch_error.h"
#include "engine/train/trainer.h"
#include "engine/train/validation.h"

// What the trainer measures, tells and keeps at the boundaries of its loop.

namespace dtrain {

namespace {

const double* FindMetric(const MetricValues& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Names(const MetricValues& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.first);
  return names.empty() ? "none" : Join(names, ", ");
}

}  // namespace

void Trainer::ReportTraining() {
  if (sums_.empty() && rates_.empty()) return;
  const StepProfile::Scope scope(context_.profile(), Phase::kReport);
  sums_.Merge(ranks_);
  context_.TellOverflows();
  MetricValues metrics = sums_.Values();
  sums_.Clear();
  if (rates_.empty()) context_.AppendLearningRates(rates_);
  for (const auto& rate : rates_) {
    // A trial that reports a rate itself knows better.
    if (FindMetric(metrics, rate.first) == nullptr) metrics.push_back(rate);
  }
  rates_.clear();
  RememberTraining(metrics);
  if (!validation_) {
    context_.ObserveTraining(metrics, KnownTrainingMetrics());
    ObserveForStopping(metrics, /*required=*/true);
  }
  if (ranks_.is_first()) trial_.OnTrainingReport(Point());
  link_.send(TrainingReport{.batches = state_.batches,
                            .epoch = Epoch(),
                            .metrics = std::move(metrics),
                            .time = clock_.now(),
                            .unread = UnreadOnce(unread_in_training_)});
}

std::optional<std::vector<std::string>> Trainer::UnreadOnce(
    bool& reported) const {
  // Before the first batch it is too early to say.
  if (state_.batches == 0 || std::exchange(reported, true)) return std::nullopt;
  return context_.UnreadHparams();
}

// What only the last batch of an epoch has, such as the mean loss of it: where
// no other report is due, one of its own.
void Trainer::ReportEpoch() {
  MetricSums last = sums_.TakeOccasional();
  if (!ranks_.Any(!last.empty())) return;
  const StepProfile::Scope scope(context_.profile(), Phase::kReport);
  last.Merge(ranks_);
  MetricValues metrics = last.Values();
  RememberTraining(metrics);
  if (!validation_) {
    context_.ObserveTraining(metrics, KnownTrainingMetrics());
    ObserveForStopping(metrics, /*required=*/false);
  }
  link_.send(TrainingReport{.batches = state_.batches,
                            .epoch = Epoch(),
                            .metrics = std::move(metrics),
                            .time = clock_.now(),
                            .unread = UnreadOnce(unread_in_training_)});
}

// A report need not have all metrics: what the search asks for may have come
// with the last epoch.
void Trainer::RememberTraining(const MetricValues& metrics) {
  MetricPoint point{state_.batches, metrics};
  if (state_.last_training) {
    for (const auto& old : state_.last_training->metrics) {
      if (FindMetric(metrics, old.first) != nullptr) continue;
      const bool is_now = state_.last_training->batches == state_.batches;
      if (is_now || sums_.occasional().contains(old.first)) {
        point.metrics.push_back(old);
      }
    }
  }
  state_.last_training = std::move(point);
}

std::set<std::string> Trainer::KnownTrainingMetrics() const {
  std::set<std::string> names = sums_.Names();
  for (const auto& metric : state_.last_training->metrics) {
    names.insert(metric.first);
  }
  return names;
}

void Trainer::StartProfile() {
  context_.SetProfile(&profile_.emplace(clock_));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (context_.device().is_cuda() && ranks_.is_first() && visible != nullptr) {
    gpu_.emplace(visible);
  }
}

// After the validation and the checkpoint of the same batch: they are in it.
void Trainer::ReportProfile() {
  if (!profile_ || profile_->trained() == 0) return;
  ProfileReport report = profile_->Take(state_.batches);
  if (gpu_) {
    report.gpu_percent = gpu_->Percent(clock_.monotonic());
    if (const auto memory = ReadGpu()) report.gpu_bytes = memory->peak;
  }
  link_.send(report);
}

bool Trainer::Validate() try {
  const StepProfile::Scope scope(context_.profile(), Phase::kValidation);
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
  // All ranks save together, and rank 0's metrics are the ones on record.
  const bool keeps = KeepsValidation(*metrics);
  keeps_validation_ = ranks_.Any(ranks_.is_first() && keeps);
  // Where the metric is missing, the runner ends the trial.
  ObserveForStopping(*metrics, /*required=*/false);
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
      (!best ||
       (settings().smaller_is_better ? *value < *best : *value > *best));
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
                    "' was not reported; reported: " + Names(metrics) +
                    "; set early_stopping.metric to one of these");
  }
  if (!early_stop_->Observe(*value)) return;
  state_.ended = early_stop_->Reason();
  LogLine(LogLevel::kInfo, "ended early: " + state_.ended);
}

// One that fails leaves the last one standing, and training goes on: no more
// than two periods are lost to a full disk, since the second failure in a row
// waits for space with the trial's state in memory.
void Trainer::Checkpoint(Need need) {
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
    if (!ranks_.Any(written != Written::kYes)) {
      last_checkpoint_ = state_.batches;
      failed_checkpoints_ = 0;
      return;
    }
    if (!ranks_.Any(written == Written::kWaits)) return;
    // Asked to stop, it tries once more.
    if (!AwaitSpace(wait)) need = Need::kLast;
  }
}

Trainer::Written Trainer::WriteCheckpoint(TrainingState state,
                                          const std::vector<RankShare>& shares,
                                          Need need) {
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
                (waits ? "; waiting for space with the training in memory"
                       : "; training goes on without it"));
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

// Waits until another try at a checkpoint makes sense: there is more space, or
// a minute has passed. False if the trial was asked to stop. All ranks look
// together.
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
  const auto& point =
      validation_ ? state_.last_validation : state_.last_training;
  const MetricValues metrics = point ? point->metrics : MetricValues{};
  const bool early = state_.batches < target_;
  link_.send(OperationCompleted{.length = until,
                                .batches = state_.batches,
                                .metrics = metrics,
                                .early = early,
                                .why_early = early ? state_.ended : "",
                                .unread = UnreadOnce(unread_in_completion_)});
}

Finished Trainer::Stop() {
  ReportProfile();
  if (state_.batches > 0 && last_checkpoint_ != state_.batches) {
    Checkpoint(Need::kLast);
  }
  return {.reason = EndReason::kStopped};
}

void Trainer::TellProgress() {
  told_ = clock_.monotonic();
  link_.send(Progress{.batches = state_.batches,
                      .total = target_,
                      .batches_per_epoch = batches_per_epoch_});
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
