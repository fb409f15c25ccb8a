#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/api.h"

namespace dtrain {

/// Unit that a schedule counts: batches, epochs (as the data source defines
/// them), optimizer steps, or explicit calls of TrialContext::StepSchedules.
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

/// Half a cosine from the initial rate to `minimum` over `steps` steps, then
/// constant. CosineAnnealingLR (Loshchilov and Hutter, arXiv:1608.03983).
struct CosineLr {
  std::int64_t steps = 1;
  double minimum = 0;
};

/// Half a cosine from the initial rate to `minimum` over `steps` steps, again
/// and again, each `factor` times as long. CosineAnnealingWarmRestarts.
struct CosineRestartsLr {
  std::int64_t steps = 1;  // of the first
  std::int64_t factor = 1;
  double minimum = 0;
};

/// lr = initial · (1 − step / steps)^power, and then 0. PolynomialLR.
struct PolynomialLr {
  std::int64_t steps = 1;
  double power = 1;
};

/// Rises from `minimum` · rate to the initial rate in `up` steps, falls back in
/// `down`, and so on. CyclicLR with `triangular` (Smith, arXiv:1506.01186).
struct CyclicLr {
  std::int64_t up = 1;
  std::int64_t down = 1;
  double minimum = 0.1;
};

/// One cycle: from max/div up to max over the fraction `warmup` of `steps`,
/// then down to max/div/final_div, both along half a cosine. OneCycleLR (Smith
/// and Topin, arXiv:1708.07120), learning rate only.
struct OneCycleLr {
  double maximum = 0.1;
  std::int64_t steps = 1;
  double warmup = 0.3;
  double div = 25;
  double final_div = 1e4;
};

/// Multiplies the rate by `factor`, but not below `minimum`, once the
/// validation metric `metric` has not improved for more than `patience`
/// validations. Stepped by validations, whatever the mode. ReduceLROnPlateau
/// with a relative threshold.
struct ReduceOnPlateau {
  std::string metric;
  bool smaller_is_better = true;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  double minimum = 0;
};

/// Linear warmup from `start` · rate to the full rate over `steps` steps. The
/// main schedule starts after it (Goyal et al., arXiv:1706.02677).
struct LinearWarmup {
  std::int64_t steps = 0;
  double start = 0.1;
};

/// A learning-rate schedule. A value type; its state is the number of steps
/// taken and, for plateaus, the best value seen.
class DTRAIN_API LrSchedule {
 public:
  using Kind = std::variant<StepLr, MultiStepLr, ExponentialLr, CosineLr,
                            CosineRestartsLr, PolynomialLr, CyclicLr,
                            OneCycleLr, ReduceOnPlateau>;

  /// Throws std::invalid_argument for invalid parameters.
  explicit LrSchedule(Kind kind, LinearWarmup warmup = {});

  /// Continues states saved by older versions (those without a `version` field)
  /// as `kind`, so that old checkpoints resume exactly.
  void SetOlderKind(Kind kind) { older_kind_ = std::move(kind); }
  /// True if it continues such a state.
  bool is_older() const { return is_older_; }

  void Step();
  /// Reports the metric of a validation. Ignored by all kinds but
  /// ReduceOnPlateau.
  void Observe(const std::string& metric, double value);
  /// Name of the metric that Observe expects; empty unless ReduceOnPlateau.
  std::string metric() const;
  /// Sets the metric of a ReduceOnPlateau that does not name one.
  void FollowByDefault(const std::string& metric, bool smaller_is_better);
  /// Learning rate of a parameter group whose initial rate was `initial`.
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

/// Unit of a schedule's steps, and how many units make one step.
struct SchedulePace {
  StepMode mode = StepMode::kEveryBatch;
  std::int64_t frequency = 1;
};

/// Number of steps that a schedule takes after batch `batch` (from 0). The rate
/// can only change where the optimizer steps, every `aggregation` batches; the
/// steps of all batches since then are taken there. An epoch counts as finished
/// once the next optimizer step falls in a later one, as in Determined (its
/// recorded steps are a test). 0 for kManual and for kEveryOptimizerStep, which
/// TrialContext::Step counts itself.
std::int64_t ScheduleSteps(SchedulePace pace, std::int64_t aggregation,
                           std::int64_t batches_per_epoch, std::int64_t batch);

}  // namespace dtrain
