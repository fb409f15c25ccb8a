// Optimizers and schedules of the built-in models, from hyperparameters.
//
// Names and defaults are PyTorch's unless a model gives its own
// (OptimizerDefaults). Values that LibTorch rejects become
// InvalidHyperparameters, which ends the trial without a restart and lets a
// search go on. Lengths of schedules are given in epochs and converted to
// batches here, since schedules count batches. Schedules whose meaning has
// changed keep the old one for checkpoints of older versions (Kinds::older).

#include "models/optimizers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include <torch/optim/adagrad.h>
#include <torch/optim/rmsprop.h>

#include "engine/base/text.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/log_line.h"

namespace dtrain {
namespace {

InvalidHyperparameters Unknown(const std::string& name,
                               const std::string& value,
                               const std::string& known) {
  return InvalidHyperparameters("hyperparameter '" + name + "': '" +
                                EscapeForTerminal(value) +
                                "' is unknown; expected " + known);
}

// Usual direction of a metric, by its name; empty if unknown.
std::optional<bool> IsSmallerUsuallyBetter(const std::string& metric) {
  const auto has = [&](const char* word) {
    return metric.find(word) != metric.npos;
  };
  if (has("loss") || has("error") || has("perplexity")) return true;
  if (has("accuracy") || has("auc") || has("f1")) return false;
  return std::nullopt;
}

// Metric and direction of `schedule: plateau`.
ReduceOnPlateau MakePlateau(const TrialContext& context, double gamma) {
  const std::string metric =
      context.Get<std::string>("plateau_metric", context.searcher_metric());
  const bool is_searchers = metric == context.searcher_metric();
  const std::optional<bool> usual = is_searchers
                                        ? context.smaller_is_better()
                                        : IsSmallerUsuallyBetter(metric);
  const auto given =
      context.Get<nlohmann::json>("plateau_smaller_is_better", {});
  if (given.is_null() && !usual) {
    throw InvalidHyperparameters(
        "hyperparameter 'plateau_smaller_is_better' is missing: whether "
        "smaller values of plateau_metric '" +
        EscapeForTerminal(metric) + "' are better");
  }
  const bool smaller =
      context.Get<bool>("plateau_smaller_is_better", usual.value_or(true));
  LogLine(LogLevel::kInfo, "schedule: plateau follows '" + metric + "', " +
                               (smaller ? "smaller" : "larger") + " is better");
  return {.metric = metric,
          .smaller_is_better = smaller,
          .factor = gamma,
          .patience = context.Get<std::int64_t>("plateau_patience", 2)};
}

// Returns the batches of `epochs`, the hyperparameter `name`, rounded.
std::int64_t RoundToBatches(const char* name, double epochs,
                            double epoch_batches) {
  constexpr double kMaxBatches = 1e15;
  const double batches = epochs * epoch_batches;
  if (std::abs(batches) <= kMaxBatches) return std::llround(batches);
  throw InvalidHyperparameters(std::string("hyperparameter '") + name +
                               "' is " + nlohmann::json(epochs).dump() +
                               ", more than 1e15 batches; use a smaller one");
}

struct Kinds {
  LrSchedule::Kind kind;
  // Kind of schedules saved by older versions, if different.
  std::optional<LrSchedule::Kind> older;
};

Kinds MakeKinds(const TrialContext& context, const std::string& schedule,
                double epoch_batches, double default_lr) {
  const auto batches = [&](const char* name, double fallback) {
    const double epochs = context.Get<double>(name, fallback);
    return std::max<std::int64_t>(1,
                                  RoundToBatches(name, epochs, epoch_batches));
  };
  const double gamma = context.Get<double>("gamma", 0.1);
  if (!(gamma > 0)) {
    throw InvalidHyperparameters(
        "hyperparameter 'gamma' is not above 0; the learning rate is "
        "multiplied by it");
  }
  if (schedule == "step") {
    return {StepLr{.step_size = batches("step_epochs", 1), .gamma = gamma}};
  }
  if (schedule == "exponential") {
    // PyTorch's ExponentialLR, stepped every epoch. Older versions decayed by
    // the same factor in steps of one batch.
    return {StepLr{.step_size = std::llround(epoch_batches), .gamma = gamma},
            ExponentialLr{.gamma = std::pow(gamma, 1 / epoch_batches)}};
  }
  if (schedule == "cosine") {
    return {CosineLr{.steps = batches("schedule_epochs", 10)}};
  }
  if (schedule == "cosine_restarts") {
    return {CosineRestartsLr{
        .steps = batches("schedule_epochs", 10),
        .factor = context.Get<std::int64_t>("restart_factor", 1)}};
  }
  if (schedule == "polynomial") {
    return {PolynomialLr{.steps = batches("schedule_epochs", 10),
                         .power = context.Get<double>("power", 1)}};
  }
  if (schedule == "cyclic") {
    const std::int64_t steps = batches("schedule_epochs", 10);
    const std::int64_t up = std::max<std::int64_t>(1, steps / 2);
    return {CyclicLr{.up = up,
                     .down = std::max<std::int64_t>(1, steps - up),
                     .minimum = gamma}};
  }
  if (schedule == "one_cycle") {
    return {OneCycleLr{.maximum = context.Get<double>("lr", default_lr),
                       .steps = batches("schedule_epochs", 10)}};
  }
  if (schedule == "plateau") {
    const ReduceOnPlateau plateau = MakePlateau(context, gamma);
    ReduceOnPlateau older = plateau;
    older.metric = "val_loss";
    older.smaller_is_better = true;
    return {plateau, older};
  }
  throw Unknown("schedule", schedule,
                "none, step, exponential, cosine, cosine_restarts, polynomial, "
                "cyclic, one_cycle or plateau");
}

// Options of SGD. Throws for values that PyTorch rejects.
torch::optim::SGDOptions SgdOptions(const TrialContext& context, double lr,
                                    double decay, double default_momentum) {
  const double momentum = context.Get<double>("momentum", default_momentum);
  const double dampening = context.Get<double>("dampening", 0);
  const bool nesterov = context.Get<bool>("nesterov", false);
  if (nesterov && (momentum <= 0 || dampening != 0)) {
    throw InvalidHyperparameters(
        "hyperparameter 'nesterov' needs 'momentum' above 0 and 'dampening' 0");
  }
  return torch::optim::SGDOptions(lr)
      .momentum(momentum)
      .dampening(dampening)
      .nesterov(nesterov)
      .weight_decay(decay);
}

std::tuple<double, double> Betas(const TrialContext& context) {
  const auto betas =
      context.Get<nlohmann::json>("betas", nlohmann::json({0.9, 0.999}));
  if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() ||
      !betas[1].is_number()) {
    throw InvalidHyperparameters(
        "hyperparameter 'betas': expected two numbers such as [0.9, 0.999], "
        "got " +
        betas.dump());
  }
  return {betas[0].get<double>(), betas[1].get<double>()};
}

// Options of Adam or AdamW.
template <typename Options>
Options MakeAdamOptions(const TrialContext& context, double lr, double decay) {
  return Options(lr)
      .weight_decay(decay)
      .betas(Betas(context))
      .eps(context.Get<double>("eps", 1e-8))
      .amsgrad(context.Get<bool>("amsgrad", false));
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
      return std::make_shared<FusedSgd>(
          std::move(parameters),
          SgdOptions(context, lr, decay, defaults.momentum));
    }
    if (optimizer == "adam") {
      return std::make_shared<FusedAdam>(
          std::move(parameters),
          MakeAdamOptions<torch::optim::AdamOptions>(context, lr, decay));
    }
    if (optimizer == "adamw") {
      return std::make_shared<FusedAdamW>(
          std::move(parameters),
          MakeAdamOptions<torch::optim::AdamWOptions>(context, lr, decay));
    }
    if (optimizer == "rmsprop") {
      return std::make_shared<torch::optim::RMSprop>(
          std::move(parameters), torch::optim::RMSpropOptions(lr)
                                     .weight_decay(decay)
                                     .alpha(context.Get<double>("alpha", 0.99))
                                     .eps(context.Get<double>("eps", 1e-8)));
    }
    if (optimizer == "adagrad") {
      return std::make_shared<torch::optim::Adagrad>(
          std::move(parameters),
          torch::optim::AdagradOptions(lr).weight_decay(decay).eps(
              context.Get<double>("eps", 1e-8)));
    }
  } catch (const c10::Error& error) {
    // "Invalid learning rate: -1", "Invalid momentum value: …"
    throw InvalidHyperparameters(error.what_without_backtrace());
  }
  throw Unknown("optimizer", optimizer, "sgd, adam, adamw, rmsprop or adagrad");
}

std::optional<LrSchedule> MakeSchedule(const TrialContext& context,
                                       std::int64_t epoch_batches,
                                       const OptimizerDefaults& defaults) {
  const auto schedule = context.Get<std::string>("schedule", "none");
  const double per_epoch = static_cast<double>(epoch_batches);
  const auto warmup = context.Get<double>("warmup_epochs", 0);
  const LinearWarmup linear = {
      .steps = RoundToBatches("warmup_epochs", warmup, per_epoch)};
  // A warm-up without a schedule is one itself, constant afterwards.
  if (schedule == "none" && linear.steps == 0) return std::nullopt;
  try {
    if (schedule == "none") return LrSchedule(ExponentialLr{1}, linear);
    Kinds kinds = MakeKinds(context, schedule, per_epoch, defaults.lr);
    LrSchedule made(std::move(kinds.kind), linear);
    if (kinds.older) made.SetOlderKind(*std::move(kinds.older));
    return made;
  } catch (const std::invalid_argument& error) {
    throw InvalidHyperparameters(error.what());
  }
}

}  // namespace dtrain
