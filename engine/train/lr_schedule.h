#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/api.h"

namespace dtrain {

/// When a schedule takes a step: after every batch, every epoch (of data, as
/// the loader yields it), every optimizer step, or when the trial says so.
enum class StepMode { kEveryBatch, kEveryEpoch, kEveryOptimizerStep, kManual };

/// lr = initial · gamma^(step // step_size). torch.optim.lr_scheduler.StepLR.
struct StepLr {
  std::int64_t step_size = 1;
  double gamma = 0.1;
};

/// lr = initial · gamma^(milestones ≤ step). MultiStepLR.
struct MultiStepLr {
  std::vector<std::int64_t> milestones;  // ascending
  double gamma = 0.1;
};

/// lr = initial · gamma^step. ExponentialLR.
struct ExponentialLr {
  double gamma = 0.95;
};

/// From the initial rate to `minimum` along half a cosine over `steps`, then
/// constant. CosineAnnealingLR (Loshchilov and Hutter, arXiv:1608.03983).
struct CosineLr {
  std::int64_t steps = 1;
  double minimum = 0;
};

/// One cycle: up from max/div to max over `warmup` of `steps`, then down to
/// max/div/final_div, cosine both ways. OneCycleLR (Smith and Topin,
/// arXiv:1708.07120), learning rate only.
struct OneCycleLr {
  double maximum = 0.1;
  std::int64_t steps = 1;
  double warmup = 0.3;
  double div = 25;
  double final_div = 1e4;
};

/// Lowers the rate by `factor`, but not below `minimum`, once `metric` of the
/// validations has not improved for more than `patience` of them. Stepped by
/// validations, whatever the mode. ReduceLROnPlateau with a relative threshold.
struct ReduceOnPlateau {
  std::string metric;
  bool smaller_is_better = true;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  double minimum = 0;
};

/// Linear from `start` · rate to the rate over `steps` steps, in front of any
/// schedule, which begins after it (Goyal et al., arXiv:1706.02677).
struct LinearWarmup {
  std::int64_t steps = 0;
  double start = 0.1;
};

/// A learning-rate schedule: a value, the state of which is the number of
/// steps (and, for plateaus, what was seen).
class DTRAIN_API LrSchedule {
 public:
  using Kind = std::variant<StepLr, MultiStepLr, ExponentialLr, CosineLr,
                            OneCycleLr, ReduceOnPlateau>;

  /// Throws std::invalid_argument for parameters that make no sense.
  explicit LrSchedule(Kind kind, LinearWarmup warmup = {});

  /// Keeps checkpoints of an older version exact: a state that Save wrote
  /// before it had a `version` continues as `kind`.
  void SetOlderKind(Kind kind) { older_kind_ = std::move(kind); }
  /// Whether it continues such a state.
  bool is_older() const { return is_older_; }

  void Step();
  /// One validation was done; only ReduceOnPlateau takes notice.
  void Observe(const std::string& metric, double value);
  /// The metric that Observe waits for; empty but for ReduceOnPlateau.
  std::string metric() const;
  /// Lets a ReduceOnPlateau that names no metric follow this one.
  void FollowByDefault(const std::string& metric, bool smaller_is_better);
  /// The rate for a parameter group whose initial rate was `initial`.
  double Rate(double initial) const;

  std::int64_t steps() const { return steps_; }
  nlohmann::json Save() const;
  void Load(const nlohmann::json& state);

 private:
  Kind kind_;
  std::optional<Kind> older_kind_;
  bool is_older_ = false;
  LinearWarmup warmup_;
  std::int64_t steps_ = 0;
  std::optional<double> best_;  // these three are of ReduceOnPlateau
  std::int64_t bad_ = 0;
  double scale_ = 1;
};

/// The pace of a schedule: `mode`, and how many of its units make one step.
struct SchedulePace {
  StepMode mode = StepMode::kEveryBatch;
  std::int64_t frequency = 1;
};

/// How many steps a schedule takes after batch `batch` (from 0). A rate only
/// changes where the optimizer steps, every `aggregation` batches; there it
/// takes the steps of all batches since, and an epoch counts as over once the
/// next optimizer step lands in a later one. As Determined counts (its
/// recorded steps are a test). None for kManual and for kEveryOptimizerStep,
/// which TrialContext::Step counts itself.
std::int64_t ScheduleSteps(SchedulePace pace, std::int64_t aggregation,
                           std::int64_t batches_per_epoch, std::int64_t batch);

}  // namespace dtrain
