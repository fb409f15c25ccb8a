#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/train/gradients.h"
#include "engine/train/trainer_context.h"

// Steps that wait for no host, and their capture.

namespace dtrain {

// Whether the step is to be taken, as far as the host knows.
bool TrainerContext::Unscale(torch::optim::Optimizer& optimizer) {
  if (!steps_on_device_) return scaler_->Unscale(optimizer);
  dynamic_cast<FlatOptimizer&>(optimizer).device_steps().SetFoundInf(
      scaler_->UnscaleOnDevice(optimizer));
  return true;
}

std::vector<FlatOptimizer*> TrainerContext::FlatOptimizers() const {
  std::vector<FlatOptimizer*> flat;
  for (const NamedOptimizer& entry : objects_.optimizers) {
    auto* one = dynamic_cast<FlatOptimizer*>(entry.optimizer.get());
    if (one != nullptr) flat.push_back(one);
  }
  return flat;
}

std::string TrainerContext::StepOnDevice() {
  if (spec_.settings.update_in_backward) {
    return "optimizations.update_in_backward is on";
  }
  const auto flat = FlatOptimizers();
  if (flat.size() != objects_.optimizers.size()) {
    return "not every optimizer is a FlatSgd, FlatAdam or FlatAdamW";
  }
  for (const NamedOptimizer& entry : objects_.optimizers) {
    for (const auto& paced : entry.schedules) {
      if (scaler_ && paced.pace.mode == StepMode::kEveryOptimizerStep) {
        return "a schedule counts the steps that fp16 does not leave out";
      }
    }
  }
  for (FlatOptimizer* one : flat) one->device_steps().TurnOn(device_);
  steps_on_device_ = true;
  return "";
}

void TrainerContext::BringRates() {
  for (FlatOptimizer* one : FlatOptimizers()) one->BringRates();
}

void TrainerContext::BeginCapture() {
  for (FlatOptimizer* one : FlatOptimizers()) {
    if (one->device_steps().host_steps() == 0) continue;
    throw Error(ErrorKind::kFailed,
                "the optimizer cannot step these parameters in one operation");
  }
  is_capturing_ = true;
  captured_.clear();
}

void TrainerContext::EndCapture(bool succeeded) {
  is_capturing_ = false;
  if (succeeded) return;
  captured_.clear();
  for (const NamedOptimizer& entry : objects_.optimizers) {
    ResetGradients(*entry.optimizer);
  }
}

void TrainerContext::TellOverflows() {
  if (scaler_ && steps_on_device_) scaler_->TellOverflows();
}

void TrainerContext::CountReplay() {
  for (NamedOptimizer* entry : captured_) CountStep(*entry);
  if (scaler_ && !captured_.empty()) scaler_->NoteReplay();
}

}  // namespace dtrain
