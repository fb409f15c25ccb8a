#include "models/optimizers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/base/text.h"
#include "engine/train/flat_optimizers.h"

namespace dtrain {
namespace {

InvalidHyperparameters Unknown(const std::string& name,
                               const std::string& value,
                               const std::string& known) {
  return InvalidHyperparameters("hyperparameter '" + name + "': '" +
                                EscapeForTerminal(value) +
                                "' is unknown; say " + known);
}

LrSchedule::Kind MakeKind(const TrialContext& context,
                          const std::string& schedule, double epoch_batches,
                          double default_lr) {
  const auto batches = [&](const char* name, double fallback) {
    const double epochs = context.Get<double>(name, fallback);
    return std::max<std::int64_t>(1, std::llround(epochs * epoch_batches));
  };
  const double gamma = context.Get<double>("gamma", 0.1);
  if (!(gamma > 0)) {
    throw InvalidHyperparameters(
        "hyperparameter 'gamma' is not above 0; the learning rate is "
        "multiplied by it");
  }
  if (schedule == "step") {
    return StepLr{.step_size = batches("step_epochs", 1), .gamma = gamma};
  }
  if (schedule == "exponential") {
    return ExponentialLr{.gamma = std::pow(gamma, 1 / epoch_batches)};
  }
  if (schedule == "cosine") {
    return CosineLr{.steps = batches("schedule_epochs", 10)};
  }
  if (schedule == "one_cycle") {
    return OneCycleLr{.maximum = context.Get<double>("lr", default_lr),
                      .steps = batches("schedule_epochs", 10)};
  }
  if (schedule == "plateau") {
    return ReduceOnPlateau{
        .metric = "val_loss",
        .factor = gamma,
        .patience = context.Get<std::int64_t>("plateau_patience", 2)};
  }
  throw Unknown("schedule", schedule,
                "none, step, exponential, cosine, one_cycle or plateau");
}

}  // namespace

std::shared_ptr<torch::optim::Optimizer> MakeOptimizer(
    const TrialContext& context, std::vector<torch::Tensor> parameters,
    const OptimizerDefaults& defaults) {
  const auto optimizer =
      context.Get<std::string>("optimizer", defaults.optimizer);
  const auto lr = context.Get<double>("lr", defaults.lr);
  const auto decay = context.Get<double>("weight_decay", defaults.weight_decay);
  try {
    if (optimizer == "sgd") {
      return std::make_shared<FlatSgd>(
          std::move(parameters),
          torch::optim::SGDOptions(lr)
              .momentum(context.Get<double>("momentum", defaults.momentum))
              .weight_decay(decay));
    }
    if (optimizer == "adam") {
      return std::make_shared<FlatAdam>(
          std::move(parameters),
          torch::optim::AdamOptions(lr).weight_decay(decay));
    }
    if (optimizer == "adamw") {
      return std::make_shared<FlatAdamW>(
          std::move(parameters),
          torch::optim::AdamWOptions(lr).weight_decay(decay));
    }
  } catch (const c10::Error& error) {
    // "Invalid learning rate: -1", "Invalid momentum value: …"
    throw InvalidHyperparameters(error.what_without_backtrace());
  }
  throw Unknown("optimizer", optimizer, "sgd, adam or adamw");
}

std::optional<LrSchedule> MakeSchedule(const TrialContext& context,
                                       std::int64_t epoch_batches,
                                       const OptimizerDefaults& defaults) {
  const auto schedule = context.Get<std::string>("schedule", "none");
  const double per_epoch = static_cast<double>(epoch_batches);
  const auto warmup = context.Get<double>("warmup_epochs", 0);
  const LinearWarmup linear = {.steps = std::llround(warmup * per_epoch)};
  // Without a schedule the warm-up still is one, and then the rate stays.
  if (schedule == "none" && linear.steps == 0) return std::nullopt;
  try {
    if (schedule == "none") return LrSchedule(ExponentialLr{1}, linear);
    return LrSchedule(MakeKind(context, schedule, per_epoch, defaults.lr),
                      linear);
  } catch (const std::invalid_argument& error) {
    throw InvalidHyperparameters(error.what());
  }
}

}  // namespace dtrain
