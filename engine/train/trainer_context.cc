// The state of training behind TrialContext: models, optimizers with their
// schedules, gradients and loss scale.
//
// A step is: Backward scales the loss (fp16) and lets gradients be exchanged
// between ranks as they become complete; Step finishes the exchange, unscales,
// averages accumulated gradients, clips, steps the optimizer and frees the
// gradients. With gradient accumulation only the last batch of a group does
// that; with update_in_backward hooks step each parameter during Backward, and
// Step only counts. During a rehearsal (memory_format.cc) nothing is stepped.
//
// Learning rates are never changed in place: Apply computes them from the
// initial rates and the state of all schedules, so several schedules of an
// optimizer multiply, and a restored state gives the same rates. EndBatch
// advances schedules by batches and epochs, CountStep those by optimizer steps.
//
// StepOnDevice moves everything that a step reads to the GPU, for CUDA graphs
// (graphed_step.cc). A captured step runs no code here: Step records which
// optimizers it stepped, and CountReplay does their host's part after each
// replay.

#include "engine/train/trainer_context.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/gradients.h"
#include "engine/train/log_line.h"
#include "engine/train/memory_format.h"
#include "engine/train/mixed_precision.h"
#include "engine/train/optimizer_state.h"
#include "engine/train/step_profile.h"
#include "engine/train/trained_objects.h"

namespace dtrain {

namespace {

[[noreturn]] void Fail(const std::string& what) {
  throw Error(ErrorKind::kFailed, what);
}

// Names become parts of tensor names.
void CheckName(const std::string& name, const char* kind, bool taken) {
  if (name.empty() || name.find('/') != std::string::npos) {
    Fail(std::string(kind) + " name '" + name +
         "': expected a name without '/'");
  }
  if (taken) {
    Fail("two " + std::string(kind) + "s are called '" + name +
         "'; give each a name of its own when adding it");
  }
}

void Apply(NamedOptimizer& entry) {
  if (entry.schedules.empty()) return;
  auto& groups = entry.optimizer->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    double rate = entry.initial_rates.at(i);
    // Each schedule takes the rate of the one before it.
    for (const auto& paced : entry.schedules) rate = paced.schedule.Rate(rate);
    groups[i].options().set_lr(rate);
  }
}

// Throws unless `metric`, which a plateau schedule follows, is empty or known.
void RequireMetric(const std::string& metric,
                   const std::set<std::string>& metric_names,
                   const TrialSpec& spec) {
  if (metric.empty() || metric_names.contains(metric)) return;
  const std::vector<std::string> names(metric_names.begin(),
                                       metric_names.end());
  const std::string key =
      spec.hparams.contains("plateau_metric")   ? "plateau_metric"
      : metric == spec.settings.searcher_metric ? "searcher.metric"
                                                : "its metric";
  // A restart would fail in the same way.
  throw Error(ErrorKind::kUsage,
              "the plateau schedule follows the metric '" + metric +
                  "', which was not reported; set " + key + " to one of: " +
                  (names.empty() ? "none" : Join(names, ", ")));
}

}  // namespace

TrainerContext::TrainerContext(const TrialSpec& spec, torch::Device device,
                               RankGroup* ranks)
    : spec_(spec),
      device_(device),
      precision_(ParsePrecision(spec.settings.mixed_precision)),
      ranks_(ranks == nullptr ? alone_ : *ranks) {
  if (precision_ == torch::kHalf) {
    scaler_.emplace(device, spec.settings.loss_scale);
  }
  if (spec.settings.update_in_backward && !ranks_.is_alone()) {
    Fail(
        "'optimizations.update_in_backward' frees gradients that the ranks "
        "have to exchange; turn it off, or set slots_per_trial: 1");
  }
}

TrainerContext::~TrainerContext() = default;

void TrainerContext::Add(const std::shared_ptr<torch::nn::Module>& model,
                         const std::string& name) {
  if (model == nullptr) Fail("Add: the model '" + name + "' is null");
  bool taken = false;
  for (const NamedModel& other : objects_.models) taken |= other.name == name;
  CheckName(name, "model", taken);
  model->to(device_);
  if (IsChannelsLast(spec_.settings.channels_last, *model)) {
    StoreWeights(*model, /*channels_last=*/true);
  }
  model->train();
  objects_.models.push_back({name, model});
}

void TrainerContext::Add(
    const std::shared_ptr<torch::optim::Optimizer>& optimizer,
    const std::string& name) {
  if (optimizer == nullptr) Fail("Add: the optimizer '" + name + "' is null");
  bool taken = false;
  for (const NamedOptimizer& other : objects_.optimizers) {
    taken |= other.name == name;
  }
  CheckName(name, "optimizer", taken);
  OptimizerType(*optimizer);  // throws for unsupported types
  const ParameterNames names = NameParameters(objects_.models);
  NamedOptimizer entry{.name = name, .optimizer = optimizer};
  for (auto& group : optimizer->param_groups()) {
    entry.initial_rates.push_back(group.options().get_lr());
    for (const torch::Tensor& parameter : group.params()) {
      if (names.contains(parameter.unsafeGetTensorImpl())) continue;
      Fail("optimizer '" + name +
           "' has parameters of no added model; call Add(model) before the "
           "optimizer is built");
    }
  }
  objects_.optimizers.push_back(std::move(entry));
  if (!ranks_.is_alone()) {
    syncs_.push_back(
        std::make_unique<GradientSync>(*optimizer, ranks_.Tensors(device_)));
  }
  if (spec_.settings.update_in_backward) {
    updates_.push_back(std::make_unique<BackwardUpdate>(*optimizer));
  }
}

void TrainerContext::Add(LrSchedule schedule,
                         torch::optim::Optimizer& optimizer, StepMode mode,
                         std::int64_t frequency) {
  if (frequency < 1) Fail("schedule: frequency must be at least 1");
  NamedOptimizer& entry = Find(optimizer);
  schedule.FollowByDefault(spec_.settings.searcher_metric,
                           spec_.settings.smaller_is_better);
  entry.schedules.push_back({std::move(schedule), {mode, frequency}});
  Apply(entry);
}

NamedOptimizer& TrainerContext::Find(const torch::optim::Optimizer& optimizer) {
  for (NamedOptimizer& entry : objects_.optimizers) {
    if (entry.optimizer.get() == &optimizer) return entry;
  }
  Fail("this optimizer was not added; call Add(optimizer) first");
}

void TrainerContext::Backward(const torch::Tensor& loss,
                              const torch::Tensor& gradient) {
  const StepProfile::Scope scope(profile_, Phase::kBackward);
  // Accumulating gradients are exchanged once they are complete.
  for (const auto& sync : syncs_) {
    sync->SetOverlap(!is_rehearsal_ && IsLastOfAggregation());
  }
  // Backward operations use the type of their forward operation.
  const Autocast off(device_, std::nullopt);
  const torch::Tensor first =
      gradient.defined() ? gradient : torch::ones_like(loss);
  loss.backward(scaler_ ? scaler_->Scale(first) : first);
}

bool TrainerContext::IsLastOfAggregation() const {
  return (batches_ + 1) % spec_.settings.aggregation_frequency == 0;
}

void TrainerContext::FinishGradients(const torch::optim::Optimizer& optimizer) {
  if (syncs_.empty()) return;
  const StepProfile::Scope scope(profile_, Phase::kExchange);
  for (std::size_t i = 0; i < syncs_.size(); ++i) {
    if (objects_.optimizers[i].optimizer.get() == &optimizer) {
      syncs_[i]->Finish();
    }
  }
}

void TrainerContext::RenewGradientSyncs() {
  for (std::size_t i = 0; i < syncs_.size(); ++i) {
    syncs_[i].reset();  // removes its hooks before the new ones are set
    syncs_[i] = std::make_unique<GradientSync>(
        *objects_.optimizers[i].optimizer, ranks_.Tensors(device_));
  }
}

void TrainerContext::Step(torch::optim::Optimizer& optimizer, Clip clip) {
  if (is_rehearsal_) return ResetGradients(optimizer);
  if (!IsLastOfAggregation()) return;
  NamedOptimizer& entry = Find(optimizer);
  FinishGradients(optimizer);
  const StepProfile::Scope scope(profile_, Phase::kOptimizer);
  if (!StepOptimizer(optimizer, clip)) return;
  if (is_capturing_) {
    captured_.push_back(&entry);
  } else {
    CountStep(entry);
  }
}

void TrainerContext::CountStep(NamedOptimizer& entry) {
  ++entry.steps;
  bool stepped = false;
  for (auto& [schedule, pace] : entry.schedules) {
    if (pace.mode != StepMode::kEveryOptimizerStep) continue;
    if (entry.steps % pace.frequency != 0) continue;
    schedule.Step();
    stepped = true;
  }
  if (stepped) Apply(entry);
}

bool TrainerContext::StepOptimizer(torch::optim::Optimizer& optimizer,
                                   Clip clip) {
  const TrainerSettings& settings = spec_.settings;
  const bool clips = clip.norm || clip.value;
  if (settings.update_in_backward) {
    if (clips) {
      Fail(
          "this trial clips gradients, so 'optimizations.update_in_backward' "
          "cannot be had; turn it off");
    }
    return true;  // BackwardUpdate has stepped already
  }
  if (scaler_ && !Unscale(optimizer)) {
    ResetGradients(optimizer);
    return false;
  }
  if (settings.average_aggregated_gradients) {
    DivideGradients(optimizer, settings.aggregation_frequency);
  }
  if (!clips) {
    clip = {.norm = settings.clip_norm, .value = settings.clip_value};
  }
  ClipGradients(optimizer, clip);
  optimizer.step();
  ResetGradients(optimizer);
  return true;
}

void TrainerContext::RequestStop(const std::string& why) {
  if (!is_rehearsal_) stop_reason_ = why;
}

void TrainerContext::StepSchedules() {
  if (is_rehearsal_) return;
  if (is_capturing_) Fail("the trial steps its schedules in TrainBatch");
  for (NamedOptimizer& entry : objects_.optimizers) {
    for (auto& [schedule, pace] : entry.schedules) {
      if (pace.mode == StepMode::kManual) schedule.Step();
    }
    Apply(entry);
  }
}

void TrainerContext::SetTraining(bool on) {
  for (const NamedModel& entry : objects_.models) entry.model->train(on);
}

void TrainerContext::EndBatch(std::int64_t batches_per_epoch) {
  for (NamedOptimizer& entry : objects_.optimizers) {
    bool stepped = false;
    for (auto& [schedule, pace] : entry.schedules) {
      std::int64_t steps =
          ScheduleSteps(pace, spec_.settings.aggregation_frequency,
                        batches_per_epoch, batches_);
      for (; steps > 0; --steps) {
        schedule.Step();
        stepped = true;
      }
    }
    if (stepped) Apply(entry);
  }
  if (scaler_ && steps_on_device_) scaler_->UpdateOnDevice();
  if (scaler_ && !steps_on_device_) scaler_->Update();
  ++batches_;
}

void TrainerContext::ObserveValidation(const MetricValues& metrics) {
  std::set<std::string> names;
  for (const auto& metric : metrics) names.insert(metric.first);
  Observe(metrics, names, /*is_validation=*/true);
}

void TrainerContext::ObserveTraining(
    const MetricValues& metrics, const std::set<std::string>& metric_names) {
  Observe(metrics, metric_names, /*is_validation=*/false);
}

void TrainerContext::Observe(const MetricValues& metrics,
                             const std::set<std::string>& metric_names,
                             bool is_validation) {
  for (NamedOptimizer& entry : objects_.optimizers) {
    for (auto& paced : entry.schedules) {
      // Training started by an older version continues unchanged.
      if (!paced.schedule.is_older()) {
        RequireMetric(paced.schedule.metric(), metric_names, spec_);
      } else if (!is_validation) {
        continue;
      }
      for (const auto& [name, value] : metrics) {
        paced.schedule.Observe(name, value);
      }
    }
    Apply(entry);
  }
}

void TrainerContext::AppendLearningRates(MetricValues& metrics) const {
  bool first = true;
  for (const NamedOptimizer& entry : objects_.optimizers) {
    const std::string name = first ? "lr" : entry.name + ".lr";
    first = false;
    std::int64_t index = 0;
    for (const auto& group : entry.optimizer->param_groups()) {
      metrics.emplace_back(
          index == 0 ? name : name + "_" + std::to_string(index),
          group.options().get_lr());
      ++index;
    }
  }
}

void TrainerContext::ApplySchedules() {
  for (NamedOptimizer& entry : objects_.optimizers) Apply(entry);
}

// Returns true if the step is to be taken, as far as the host knows.
bool TrainerContext::Unscale(torch::optim::Optimizer& optimizer) {
  if (!steps_on_device_) return scaler_->Unscale(optimizer);
  dynamic_cast<FusedOptimizer&>(optimizer).capturable_state().SetFoundInf(
      scaler_->UnscaleOnDevice(optimizer));
  return true;
}

std::vector<FusedOptimizer*> TrainerContext::FusedOptimizers() const {
  std::vector<FusedOptimizer*> flat;
  for (const NamedOptimizer& entry : objects_.optimizers) {
    auto* one = dynamic_cast<FusedOptimizer*>(entry.optimizer.get());
    if (one != nullptr) flat.push_back(one);
  }
  return flat;
}

std::string TrainerContext::StepOnDevice() {
  if (spec_.settings.update_in_backward) {
    return "optimizations.update_in_backward is on";
  }
  const auto flat = FusedOptimizers();
  if (flat.size() != objects_.optimizers.size()) {
    return "not every optimizer is a FusedSgd, FusedAdam or FusedAdamW";
  }
  for (const NamedOptimizer& entry : objects_.optimizers) {
    for (const auto& paced : entry.schedules) {
      if (scaler_ && paced.pace.mode == StepMode::kEveryOptimizerStep) {
        return "a schedule counts the steps that fp16 does not leave out";
      }
    }
  }
  for (FusedOptimizer* one : flat) one->capturable_state().Enable(device_);
  steps_on_device_ = true;
  return "";
}

bool TrainerContext::KeepsRates(std::int64_t batches,
                                std::int64_t batches_per_epoch) const {
  for (const NamedOptimizer& entry : objects_.optimizers) {
    for (const auto& paced : entry.schedules) {
      if (paced.pace.mode == StepMode::kEveryOptimizerStep) return false;
      for (std::int64_t i = 0; i + 1 < batches; ++i) {
        if (ScheduleSteps(paced.pace, spec_.settings.aggregation_frequency,
                          batches_per_epoch, batches_ + i) > 0) {
          return false;
        }
      }
    }
  }
  return true;
}

void TrainerContext::UploadLearningRates() {
  for (FusedOptimizer* one : FusedOptimizers()) one->UploadLearningRates();
}

void TrainerContext::BeginCapture() {
  captured_before_ = std::exchange(captured_, {});
  for (FusedOptimizer* one : FusedOptimizers()) {
    if (one->capturable_state().host_steps() == 0) continue;
    throw Error(ErrorKind::kFailed,
                "the optimizer cannot step these parameters in one operation");
  }
  is_capturing_ = true;
}

void TrainerContext::EndCapture(bool succeeded) {
  is_capturing_ = false;
  if (succeeded) return;
  captured_ = captured_before_;
  for (const NamedOptimizer& entry : objects_.optimizers) {
    ResetGradients(*entry.optimizer);
  }
}

void TrainerContext::LogOverflows() {
  if (scaler_ && steps_on_device_) scaler_->LogOverflows();
}

void TrainerContext::CountReplay() {
  for (NamedOptimizer* entry : captured_) CountStep(*entry);
  if (scaler_ && !captured_.empty()) scaler_->RecordReplay();
}

std::int64_t LengthInBatches(Length length, std::int64_t batches_per_epoch,
                             const nlohmann::json& hparams) {
  if (length.count == 0) return 0;
  switch (length.unit) {
    case Unit::kBatches:
      return length.count;
    case Unit::kEpochs:
      return length.count * batches_per_epoch;
    case Unit::kRecords:
      return std::max<std::int64_t>(
          length.count / internal::GlobalBatchSize(
                             hparams, "a length in records is divided by it"),
          1);
  }
  return length.count;
}

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
              " ranks: each has " + std::to_string(each) + ", so a batch has " +
              std::to_string(each * spec.world_size) + " samples");
}

}  // namespace dtrain
