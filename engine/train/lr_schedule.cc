// Learning rates as functions of a step count, with the definitions of
// torch.optim.lr_scheduler.
//
// A schedule has no rate of its own: Rate computes it from the initial rate,
// the kind's closed form, the warm-up (the kind's steps begin after it) and,
// for ReduceOnPlateau, the scale that observed metrics have led to. Its state
// is therefore a few numbers, which checkpoints have. Checkpoints of earlier
// versions, without `version`, keep the meaning that their schedules had.
//
// ScheduleSteps says how many steps a batch is worth, with the rules of
// Determined: schedules step with the optimizer, so only at the last batch of
// an aggregation.

#include "engine/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "engine/base/json.h"
#include "engine/base/metric_order.h"

namespace dtrain {

namespace {

// Since version 2, `exponential` decays by epochs, and `plateau` follows the
// searcher's metric.
constexpr int kStateVersion = 2;

void Require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Half a cosine from `start` to `end` for `fraction` from 0 to 1.
double Anneal(double start, double end, double fraction) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * fraction));
}

void Check(const StepLr& step) {
  Require(step.step_size >= 1, "step schedule: step_size must be at least 1");
}

void Check(const MultiStepLr& multi) {
  Require(std::is_sorted(multi.milestones.begin(), multi.milestones.end()),
          "multi-step schedule: milestones must ascend");
}

void Check(const ExponentialLr&) {}

void Check(const CosineLr& cosine) {
  Require(cosine.steps >= 1, "cosine schedule: steps must be at least 1");
}

void Check(const CosineRestartsLr& cosine) {
  Require(cosine.steps >= 1 && cosine.factor >= 1,
          "cosine schedule with restarts: steps and factor must be at least 1");
}

void Check(const PolynomialLr& polynomial) {
  Require(polynomial.steps >= 1 && polynomial.power > 0,
          "polynomial schedule: steps must be at least 1, power above 0");
}

void Check(const CyclicLr& cycle) {
  Require(cycle.up >= 1 && cycle.down >= 1,
          "cyclic schedule: up and down must be at least 1");
}

void Check(const OneCycleLr& cycle) {
  Require(cycle.steps >= 1, "one-cycle schedule: steps must be at least 1");
  Require(cycle.warmup >= 0 && cycle.warmup <= 1,
          "one-cycle schedule: warmup must be from 0 to 1");
  Require(cycle.div > 0 && cycle.final_div > 0,
          "one-cycle schedule: div and final_div must be above 0");
}

void Check(const ReduceOnPlateau& plateau) {
  Require(plateau.factor > 0 && plateau.factor < 1,
          "plateau schedule: factor must be between 0 and 1");
  Require(plateau.patience >= 0,
          "plateau schedule: patience must not be negative");
}

double RateAt(const StepLr& schedule, double initial, std::int64_t step) {
  return initial * std::pow(schedule.gamma, step / schedule.step_size);
}

double RateAt(const MultiStepLr& schedule, double initial, std::int64_t step) {
  const auto passed = std::upper_bound(schedule.milestones.begin(),
                                       schedule.milestones.end(), step) -
                      schedule.milestones.begin();
  return initial * std::pow(schedule.gamma, passed);
}

double RateAt(const ExponentialLr& schedule, double initial,
              std::int64_t step) {
  return initial * std::pow(schedule.gamma, step);
}

double RateAt(const CosineLr& schedule, double initial, std::int64_t step) {
  const double done = std::min(step, schedule.steps);
  return Anneal(initial, schedule.minimum, done / schedule.steps);
}

// SGDR (Loshchilov and Hutter, 2017): half a cosine in each period, and each
// period `factor` times as long as the last. Equal periods are reduced by a
// remainder, since their number may be large.
double RateAt(const CosineRestartsLr& schedule, double initial,
              std::int64_t step) {
  double at = static_cast<double>(step);
  double steps = static_cast<double>(schedule.steps);
  if (schedule.factor == 1) at = std::fmod(at, steps);
  for (; at >= steps; steps *= schedule.factor) at -= steps;
  return Anneal(initial, schedule.minimum, at / steps);
}

double RateAt(const PolynomialLr& schedule, double initial, std::int64_t step) {
  const double done = std::min(step, schedule.steps);
  return initial * std::pow(1 - done / schedule.steps, schedule.power);
}

double RateAt(const CyclicLr& schedule, double initial, std::int64_t step) {
  const std::int64_t at = step % (schedule.up + schedule.down);
  const double height =
      at < schedule.up
          ? static_cast<double>(at) / schedule.up
          : 1 - static_cast<double>(at - schedule.up) / schedule.down;
  return initial * (schedule.minimum + (1 - schedule.minimum) * height);
}

// The peak and the end are one step early, as in PyTorch: the last step of the
// cycle is steps − 1.
double RateAt(const OneCycleLr& schedule, double, std::int64_t step) {
  const double first = schedule.maximum / schedule.div;
  const double last = first / schedule.final_div;
  const double peak = schedule.warmup * schedule.steps - 1;
  const double end = schedule.steps - 1;
  if (step >= end) return last;
  if (step < peak) return Anneal(first, schedule.maximum, step / peak);
  const double start = std::max(peak, 0.0);
  return Anneal(schedule.maximum, last, (step - start) / (end - start));
}

double RateAt(const ReduceOnPlateau&, double initial, std::int64_t) {
  return initial;
}

}  // namespace

LrSchedule::LrSchedule(Kind kind, LinearWarmup warmup)
    : kind_(std::move(kind)), warmup_(warmup) {
  Require(warmup.steps >= 0, "warm-up: steps must not be negative");
  std::visit([](const auto& schedule) { Check(schedule); }, kind_);
}

void LrSchedule::Step() { ++steps_; }

void LrSchedule::Observe(const std::string& metric, double value) {
  const auto* plateau = std::get_if<ReduceOnPlateau>(&kind_);
  if (plateau == nullptr || metric != plateau->metric) return;
  const double margin = plateau->threshold;
  // The margin lies below the best value whatever its sign; infinity has none.
  const double slack =
      best_ && std::isfinite(*best_) ? std::abs(*best_) * margin : 0;
  const auto key = [plateau](double number) {
    return RankKey(number, plateau->smaller_is_better);
  };
  const bool better =
      !std::isnan(value) && (!best_ || key(value) < key(*best_) - slack);
  if (better) {
    best_ = value;
    bad_ = 0;
  } else if (++bad_ > plateau->patience) {
    scale_ *= plateau->factor;
    bad_ = 0;
  }
}

double LrSchedule::Rate(double initial) const {
  const auto at = [&](std::int64_t step) {
    return std::visit(
        [&](const auto& schedule) { return RateAt(schedule, initial, step); },
        kind_);
  };
  double rate = at(std::max<std::int64_t>(steps_ - warmup_.steps, 0));
  if (steps_ < warmup_.steps) {
    const double done = static_cast<double>(steps_) / warmup_.steps;
    rate *= warmup_.start + (1 - warmup_.start) * done;
  }
  const auto* plateau = std::get_if<ReduceOnPlateau>(&kind_);
  if (plateau == nullptr || scale_ == 1) return rate;
  // A rate that is already below the minimum does not change.
  return std::min(rate, std::max(rate * scale_, plateau->minimum));
}

std::string LrSchedule::metric() const {
  const auto* plateau = std::get_if<ReduceOnPlateau>(&kind_);
  return plateau == nullptr ? "" : plateau->metric;
}

void LrSchedule::FollowByDefault(const std::string& metric,
                                 bool smaller_is_better) {
  auto* plateau = std::get_if<ReduceOnPlateau>(&kind_);
  if (plateau == nullptr || !plateau->metric.empty()) return;
  plateau->metric = metric;
  plateau->smaller_is_better = smaller_is_better;
}

nlohmann::json LrSchedule::Save() const {
  nlohmann::json state = {{"steps", steps_}, {"bad", bad_}, {"scale", scale_}};
  if (!is_older_) state["version"] = kStateVersion;
  if (best_) state["best"] = JsonNumber(*best_);
  return state;
}

void LrSchedule::Load(const nlohmann::json& state) {
  is_older_ = !state.contains("version");
  if (is_older_ && older_kind_) kind_ = *older_kind_;
  steps_ = state.at("steps").get<std::int64_t>();
  bad_ = state.at("bad").get<std::int64_t>();
  scale_ = state.at("scale").get<double>();
  best_.reset();
  if (state.contains("best")) best_ = NumberFromJson(state["best"]);
}

namespace {

// Number of multiples of `frequency` in (from, to].
std::int64_t Multiples(std::int64_t from, std::int64_t to,
                       std::int64_t frequency) {
  return to / frequency - from / frequency;
}

}  // namespace

std::int64_t ScheduleSteps(SchedulePace pace, std::int64_t aggregation,
                           std::int64_t batches_per_epoch, std::int64_t batch) {
  const std::int64_t done = batch + 1;
  if (done % aggregation != 0) return 0;
  switch (pace.mode) {
    case StepMode::kEveryBatch:
      return Multiples(done - aggregation, done, pace.frequency);
    case StepMode::kEveryEpoch:
      // An epoch counts at the last optimizer step before its end, not at the
      // first behind it.
      return Multiples(batch / batches_per_epoch,
                       (batch + aggregation) / batches_per_epoch,
                       pace.frequency);
    case StepMode::kEveryOptimizerStep:
    case StepMode::kManual:
      return 0;
  }
  return 0;
}

}  // namespace dtrain
