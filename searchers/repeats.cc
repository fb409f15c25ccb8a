// A search with repeats consists of two: `points_` decides which points are
// tried, by any method without rungs, and RepeatedSearcher trains each as a
// number of trials. Trials are created in the order of points and repeats, so a
// trial's number alone tells its point.
//
// The search for points may have more points open than trials run: trials are
// created as others end, at most max_concurrent_trials at once. A model should
// decide late, so its search has only as many points open as that many trials
// in succession can belong to.
//
// All that `points_` receives is a function of the results of the repeats, in
// the order of the repeats. So the order in which these end changes nothing.

#include "searchers/repeats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/base/rng.h"
#include "searchers/hparam_space.h"
#include "searchers/search_plan.h"

namespace dtrain {
namespace {

using nlohmann::json;

constexpr auto kUnbounded = std::numeric_limits<std::int64_t>::max();

// Returns the stream of a repeat. Neighbouring seeds give unrelated streams.
Rng RepeatStream(std::uint32_t first, std::int64_t repeat) {
  const std::uint64_t mixed =
      SplitMix64(first + (static_cast<std::uint64_t>(repeat) << 32));
  return Rng(static_cast<std::uint32_t>(mixed));
}

std::int64_t DivideUp(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

// Returns how many trials run at the same time.
std::int64_t FindLimit(const SearcherConfig& config) {
  if (config.max_concurrent_trials > 0) return config.max_concurrent_trials;
  return IsModelBased(config) ? CountPlaces(config) : kUnbounded;
}

class RepeatedSearcher final : public Searcher {
 public:
  RepeatedSearcher(std::unique_ptr<Searcher> points,
                   const SearcherConfig& config, std::int64_t planned)
      : points_(std::move(points)),
        repeats_(config.repeats),
        repeat_metric_(config.repeat_metric),
        at_once_(FindLimit(config)),
        ahead_(config.creates_ahead),
        planned_(planned) {}

  std::vector<Operation> Handle(const Event& event) override;
  std::int64_t CreatesAhead() const override {
    return created_ < Count(all_.size())
               ? std::min(ahead_, points_->CreatesAhead())
               : points_->CreatesAhead();
  }
  double Progress() const override { return progress_; }
  json Save() const override;
  void Load(const json& state) override;

 private:
  enum class End { kNone, kClosed, kErrored, kInvalidHp, kUserStop };

  // A trial.
  struct Repeat {
    bool has_value = false;  // was validated
    double value = 0;        // at the last validation
    double seconds = 0;      // not passed on
    End end = End::kNone;
  };

  struct Point {
    json hparams;  // until all repeats are created
    std::string request_id;
    std::uint32_t seed = 0;
    std::vector<std::int64_t> lengths;  // that each repeat trains to
    std::vector<Repeat> repeats;
    bool is_known = false;  // its result was passed on
  };

  std::int64_t Count(std::size_t points) const {
    return static_cast<std::int64_t>(points) * repeats_;
  }
  Point& PointAt(TrialIndex trial) {
    return all_.at(static_cast<std::size_t>(trial / repeats_));
  }
  Repeat& At(TrialIndex trial) {
    return PointAt(trial).repeats.at(
        static_cast<std::size_t>(trial % repeats_));
  }
  static bool Counts(const Repeat& repeat) {
    return repeat.has_value &&
           (repeat.end == End::kClosed || repeat.end == End::kUserStop);
  }
  static std::optional<ExitReason> FindExit(const Point& point);

  void Send(const Event& event, std::vector<Operation>& operations);
  void EndRepeat(TrialIndex trial, End end, std::vector<Operation>& operations);
  void PassOn(TrialIndex index, std::vector<Operation>& operations);
  void Retry(const Retried& event, std::vector<Operation>& operations);
  void CreateDue(std::vector<Operation>& operations);
  void CreateNext(std::vector<Operation>& operations);
  void UpdateProgress(bool over);

  std::unique_ptr<Searcher> points_;
  std::int64_t repeats_;
  std::string repeat_metric_;
  std::int64_t at_once_;
  std::int64_t ahead_;
  std::int64_t planned_;  // points
  std::vector<Point> all_;
  std::int64_t created_ = 0;  // trials
  std::int64_t open_ = 0;     // of these
  // Ended trials of points whose result was not passed on.
  std::int64_t partial_ = 0;
  double progress_ = 0;  // reset by Extended and Retried
};

std::vector<Operation> RepeatedSearcher::Handle(const Event& event) {
  std::vector<Operation> operations;
  if (const auto* validated = std::get_if<ValidationCompleted>(&event)) {
    Repeat& repeat = At(validated->trial);
    repeat.has_value = true;
    repeat.value = validated->metric;
    repeat.seconds += validated->seconds;
  } else if (const auto* closed = std::get_if<Closed>(&event)) {
    EndRepeat(closed->trial, End::kClosed, operations);
  } else if (const auto* early = std::get_if<ExitedEarly>(&event)) {
    const End end = early->reason == ExitReason::kErrored     ? End::kErrored
                    : early->reason == ExitReason::kInvalidHp ? End::kInvalidHp
                                                              : End::kUserStop;
    EndRepeat(early->trial, end, operations);
  } else if (const auto* extended = std::get_if<Extended>(&event)) {
    planned_ = extended->max_trials;
    progress_ = 0;
    Send(Extended{extended->max_trials,
                  DivideUp(extended->budget, repeats_),
                  extended->budget_seconds,
                  {}},
         operations);
  } else if (const auto* retried = std::get_if<Retried>(&event)) {
    Retry(*retried, operations);
  } else if (const auto* added = std::get_if<PlacesAdded>(&event)) {
    ahead_ = std::max(ahead_, added->ahead);
    Send(event, operations);
  } else if (std::get_if<Started>(&event) != nullptr) {
    Send(event, operations);
  }
  CreateDue(operations);
  const bool over = !operations.empty() &&
                    std::get_if<Shutdown>(&operations.back()) != nullptr;
  UpdateProgress(over);
  return operations;
}

// Passes an event to the search for points. Of its operations only new points
// and the end concern trials: each trial gets all lengths at once.
void RepeatedSearcher::Send(const Event& event,
                            std::vector<Operation>& operations) {
  for (Operation& operation : points_->Handle(event)) {
    if (auto* create = std::get_if<Create>(&operation)) {
      all_.push_back({.hparams = std::move(create->hparams),
                      .request_id = std::move(create->request_id),
                      .seed = create->seed});
      all_.back().repeats.resize(static_cast<std::size_t>(repeats_));
    } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
      auto& lengths = all_.at(static_cast<std::size_t>(more->trial)).lengths;
      // A point that is retried has its lengths.
      if (lengths.empty() || more->length > lengths.back()) {
        lengths.push_back(more->length);
      }
    } else if (std::get_if<Shutdown>(&operation) != nullptr) {
      operations.push_back(operation);
    }
  }
}

// Returns how a point without a value ended: by failures only if all repeats
// failed. Nothing for a point with a value.
std::optional<ExitReason> RepeatedSearcher::FindExit(const Point& point) {
  const auto has = [&](End end) {
    return std::ranges::any_of(
        point.repeats, [&](const Repeat& repeat) { return repeat.end == end; });
  };
  if (std::ranges::any_of(point.repeats, Counts)) return std::nullopt;
  if (has(End::kUserStop) || has(End::kClosed)) return ExitReason::kUserStop;
  return has(End::kErrored) ? ExitReason::kErrored : ExitReason::kInvalidHp;
}

void RepeatedSearcher::EndRepeat(TrialIndex trial, End end,
                                 std::vector<Operation>& operations) {
  At(trial).end = end;
  --open_;
  ++partial_;
  const Point& point = PointAt(trial);
  const bool is_over = std::ranges::none_of(
      point.repeats,
      [](const Repeat& repeat) { return repeat.end == End::kNone; });
  if (is_over) PassOn(trial / repeats_, operations);
}

// Passes the result of a point on.
void RepeatedSearcher::PassOn(TrialIndex index,
                              std::vector<Operation>& operations) {
  Point& point = all_.at(static_cast<std::size_t>(index));
  point.is_known = true;
  partial_ -= repeats_;
  if (const auto exit = FindExit(point)) {
    return Send(ExitedEarly{index, *exit}, operations);
  }
  std::vector<double> values;
  double seconds = 0;
  for (Repeat& repeat : point.repeats) {
    seconds += std::exchange(repeat.seconds, 0);
    if (Counts(repeat) && std::isfinite(repeat.value)) {
      values.push_back(repeat.value);
    }
  }
  const double value = CombineRepeats(repeat_metric_, std::move(values))
                           .value_or(std::numeric_limits<double>::quiet_NaN());
  Send(ValidationCompleted{index, point.lengths.back(), value, seconds},
       operations);
  Send(Closed{index}, operations);
}

// Trains failed repeats again. Points whose result was passed on are taken
// back, and passed on again when the last of these repeats has ended.
void RepeatedSearcher::Retry(const Retried& event,
                             std::vector<Operation>& operations) {
  progress_ = 0;
  Retried known;
  for (const auto& [trial, length, exit] : event.trials) {
    Point& point = PointAt(trial);
    if (!std::exchange(point.is_known, false)) continue;
    known.trials.push_back({trial / repeats_, 0, FindExit(point)});
    partial_ += repeats_;
  }
  for (const auto& [trial, length, exit] : event.trials) {
    Repeat& repeat = At(trial);
    repeat.end = End::kNone;
    if (length == 0) repeat.has_value = false;
    ++open_;
    --partial_;
    operations.push_back(Reopen{trial});
    for (const std::int64_t more : PointAt(trial).lengths) {
      if (length == 0 || more > length) {
        operations.push_back(ValidateAfter{trial, more});
      }
    }
    operations.push_back(Close{trial});
  }
  // Also without any: that may end the search again.
  Send(known, operations);
}

void RepeatedSearcher::CreateDue(std::vector<Operation>& operations) {
  while (open_ < std::min(at_once_, ahead_) && created_ < Count(all_.size())) {
    CreateNext(operations);
  }
}

void RepeatedSearcher::CreateNext(std::vector<Operation>& operations) {
  const TrialIndex trial = created_++;
  ++open_;
  Point& point = PointAt(trial);
  const std::int64_t repeat = trial % repeats_ + 1;
  Create create{trial, point.request_id, point.hparams, point.seed};
  if (repeat > 1) {
    Rng rng = RepeatStream(point.seed, repeat);
    Sample sample = Identify(point.hparams, rng);
    create.request_id = std::move(sample.request_id);
    create.seed = sample.seed;
  }
  operations.emplace_back(std::move(create));
  for (const std::int64_t length : point.lengths) {
    operations.push_back(ValidateAfter{trial, length});
  }
  operations.push_back(Close{trial});
  if (repeat < repeats_) return;
  point.hparams = nullptr;
  point.request_id.clear();
}

// The search for points does not see what the trials of open points have done.
void RepeatedSearcher::UpdateProgress(bool over) {
  const double partial = static_cast<double>(partial_) /
                         static_cast<double>(repeats_) /
                         static_cast<double>(planned_);
  progress_ =
      over ? 1
           : std::max(progress_, std::min(points_->Progress() + partial, 1.0));
}

json RepeatedSearcher::Save() const {
  json points = json::array();
  for (const Point& point : all_) {
    json repeats = json::array();
    for (const Repeat& repeat : point.repeats) {
      const bool is_number = repeat.has_value && std::isfinite(repeat.value);
      repeats.push_back({repeat.has_value,
                         is_number ? json(repeat.value) : json(nullptr),
                         repeat.seconds, static_cast<int>(repeat.end)});
    }
    points.push_back({point.hparams, point.request_id, point.seed,
                      point.lengths, std::move(repeats), point.is_known});
  }
  return {{"search", points_->Save()}, {"points", std::move(points)},
          {"created", created_},       {"open", open_},
          {"partial", partial_},       {"ahead", ahead_},
          {"planned", planned_},       {"progress", progress_}};
}

void RepeatedSearcher::Load(const json& state) {
  try {
    points_->Load(state.at("search"));
    all_.clear();
    for (const json& row : state.at("points")) {
      Point point{.hparams = row.at(0),
                  .request_id = row.at(1),
                  .seed = row.at(2),
                  .lengths = row.at(3),
                  .is_known = row.at(5)};
      for (const json& of : row.at(4)) {
        point.repeats.push_back(
            {.has_value = of.at(0),
             .value = of.at(1).is_null()
                          ? std::numeric_limits<double>::quiet_NaN()
                          : of.at(1).get<double>(),
             .seconds = of.at(2),
             .end = static_cast<End>(of.at(3).get<int>())});
      }
      all_.push_back(std::move(point));
    }
    created_ = state.at("created");
    open_ = state.at("open");
    partial_ = state.at("partial");
    ahead_ = state.at("ahead");
    planned_ = state.at("planned");
    progress_ = state.at("progress");
  } catch (const json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

std::uint32_t RepeatSeed(std::uint32_t first, std::int64_t repeat) {
  if (repeat == 1) return first;
  Rng rng = RepeatStream(first, repeat);
  return Identify(nullptr, rng).seed;
}

std::optional<double> CombineRepeats(const std::string& repeat_metric,
                                     std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  // Sorted, since the sum of numbers depends on their order.
  std::ranges::sort(values);
  if (repeat_metric == "min") return values.front();
  if (repeat_metric == "max") return values.back();
  const std::size_t half = values.size() / 2;
  if (repeat_metric == "median") {
    if (values.size() % 2 == 1) return values[half];
    return values[half - 1] / 2 + values[half] / 2;
  }
  double mean = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    mean += (values[i] - mean) / static_cast<double>(i + 1);
  }
  return mean;
}

SearcherConfig PointSearch(const SearcherConfig& config) {
  SearcherConfig points = config;
  points.repeats = 1;
  points.budget = DivideUp(config.budget, config.repeats);
  if (IsModelBased(config)) {
    points.max_concurrent_trials =
        DivideUp(FindLimit(config) - 1, config.repeats) + 1;
  }
  return points;
}

std::unique_ptr<Searcher> MakeRepeatedSearcher(std::unique_ptr<Searcher> points,
                                               const SearcherConfig& config,
                                               const json& hyperparameters) {
  const SearchPlan plan = PlanSearch(PointSearch(config), hyperparameters);
  return std::make_unique<RepeatedSearcher>(
      std::move(points), config, std::max<std::int64_t>(plan.max_trials, 1));
}

}  // namespace dtrain
