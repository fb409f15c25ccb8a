// Scores are logarithms: of the expected improvement at the top rung, less half
// of the logarithm of the cost per unit of length, less that of the share of
// the length that is still to be trained. That of a new point has the logarithm
// of the probability that it is valid, too.
//
// Whether a point is valid is estimated from the trials that ended as invalid
// and those that have a result, by regression on labels of -1 and 1: the trials
// vote by their distance, in lengths that are learned for each coordinate, so
// that a hyperparameter without influence does not count (least-squares
// classification: Rasmussen and Williams, Gaussian Processes for Machine
// Learning, 2006, 6.5). Between a valid and an invalid trial the label passes
// slowly through 0, but validity ends at one point, and that is where a search
// goes whose best points are beyond it. Hence a point is taken as valid with a
// label above kValidLabel, not 0, and the probability of that counts
// kValidityWeight times.
//
// A search can have thousands of waiting trials, and every decision scores all
// of them. The correlations of a trial with the observations are kept between
// decisions, since few observations change. The variance, which costs most, is
// first bounded from a few observations; only trials whose score can be the
// best then get the exact one.

#include "searchers/search_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "searchers/portable_math.h"

namespace dtrain {
namespace {

constexpr std::size_t kMostObservations = 120;
constexpr std::size_t kMostCosts = 120;
constexpr std::size_t kMostLabels = 120;
constexpr std::size_t kMostInvalid = 60;  // of them, the newest
constexpr double kValidLabel = 0.7;
constexpr double kValidityWeight = 2;
constexpr std::size_t kMostTraining = 60;  // trials, the newest
constexpr std::size_t kFirstSteps = 30;    // of the training
constexpr std::size_t kLaterSteps = 15;
constexpr std::size_t kCostSteps = 20;
constexpr double kTrainingGrowth = 1.25;  // results since the last training
constexpr double kMinImprovement = 1e-300;
constexpr double kDeviationMin = 1e-6;

constexpr std::size_t kUniform = 150;  // candidates
// Draws of such a candidate until it meets the constraints. If few points do,
// there are fewer candidates, so that a decision stays short.
constexpr std::int64_t kMaxUniformDraws = 20;
constexpr std::size_t kNear = 150;
constexpr std::size_t kNearTrials = 10;
constexpr std::size_t kCloser = 60;
constexpr std::size_t kCloserCandidates = 5;
constexpr std::array kNearDeviations = {0.2, 0.1, 0.03};
constexpr std::array kCloserDeviations = {0.05, 0.02};

constexpr std::size_t kBlock = GaussianProcess::kBlock;
constexpr std::size_t kSpareSlots = 16;

// Observations that bound the variance of a waiting trial.
constexpr std::size_t kBoundObservations = 16;

// Values are rounded to multiples of this, so that the scale and offset of a
// metric, whose arithmetic rounds differently, change no decision.
constexpr double kValueStep = 0x1p-30;

// Adding and subtracting 1.5 · 2^52 rounds to an integer in the current mode of
// rounding, to nearest, as PortableExp does.
double RoundValue(double value) {
  constexpr double kRound = 0x1.8p52;
  return ((value / kValueStep + kRound) - kRound) * kValueStep;
}

// Returns the indices of the `count` smallest values, in order.
std::vector<std::size_t> Smallest(std::span<const double> values,
                                  std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
      order.end(), [&](std::size_t a, std::size_t b) {
        return values[a] != values[b] ? values[a] < values[b] : a < b;
      });
  order.resize(count);
  return order;
}

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return *std::max_element(values.begin(), middle) / 2 + *middle / 2;
}

// Subtracts the mean and divides by the deviation plus `extra`, unless that is
// 0. Returns both.
std::pair<double, double> Standardize(std::vector<double>& values,
                                      double extra) {
  const auto count = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / count;
  double variance = 0;
  for (const double value : values) {
    variance += (value - mean) / count * (value - mean);
  }
  const double deviation = std::sqrt(variance) + extra;
  for (double& value : values) {
    value = deviation > 0 ? (value - mean) / deviation : 0;
  }
  return {mean, deviation};
}

}  // namespace

std::vector<double> StandardizeValues(std::span<const double> values,
                                      ValueScale* scale) {
  std::vector<double> finite;
  for (const double value : values) {
    if (std::isfinite(value)) finite.push_back(value);
  }
  std::vector<double> cut(values.begin(), values.end());
  if (scale) *scale = {0, 0};
  if (finite.empty()) return std::vector<double>(values.size(), 0.0);
  // A diverged loss may be many orders of magnitude above the others and would
  // leave them indistinguishable after scaling. Hence the cut.
  const double least = *std::ranges::min_element(finite);
  const double median = Median(finite);
  const double most = median + 2 * (median - least);
  const double range = most - least;
  if (!(range > 0) || !std::isfinite(range)) {
    return std::vector<double>(values.size(), 0.0);
  }
  for (double& value : cut) {
    const double share = (value - least) / range;
    value = std::isfinite(value) ? std::min(share, 1.0) : 1.0;
  }
  const auto [mean, deviation] = Standardize(cut, 0);
  if (scale) *scale = {least + mean * range, deviation * range};
  for (double& value : cut) value = RoundValue(value);
  return cut;
}

std::vector<std::size_t> KeptObservations(std::span<const double> values,
                                          std::size_t most) {
  const std::size_t n = values.size();
  std::vector<bool> kept(n, n <= most);
  if (n > most) {
    for (const std::size_t i : Smallest(values, most / 3)) kept[i] = true;
    for (std::size_t i = n - most / 3; i < n; ++i) kept[i] = true;
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < n; ++i) {
      if (!kept[i]) rest.push_back(i);
    }
    const std::size_t sampled = most - (n - rest.size());
    for (std::size_t i = 0; i < sampled; ++i) {
      kept[rest[(2 * i + 1) * rest.size() / (2 * sampled)]] = true;
    }
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (kept[i]) indices.push_back(i);
  }
  return indices;
}

double LogExpectedImprovement(const GaussianProcess::Prediction& prediction,
                              double least) {
  const double x = (least - prediction.mean) / prediction.deviation;
  const double improvement =
      prediction.deviation * (x * NormalProbability(x) + NormalDensity(x));
  return PortableLog(std::max(kMinImprovement, improvement));
}

SearchModel::SearchModel(const PointSpace& space,
                         std::vector<std::int64_t> lengths, bool counts_cost,
                         bool aims_at_predictions)
    : space_(space),
      lengths_(std::move(lengths)),
      counts_cost_(counts_cost),
      aims_at_predictions_(aims_at_predictions),
      process_(space.Categorical(), GaussianProcess::Kind::kRungs),
      cost_process_(space.Categorical(), GaussianProcess::Kind::kPlain),
      validity_process_(space.Categorical(), GaussianProcess::Kind::kPlain),
      columns_(space.dimensions()) {}

std::size_t SearchModel::PointHash::operator()(const Point& point) const {
  std::uint64_t hash = 0;
  for (const double coordinate : point) {
    hash = SplitMix64(hash ^ std::bit_cast<std::uint64_t>(coordinate));
  }
  return hash;
}

void SearchModel::AddTrial(Point point) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].push_back(point[i]);
  }
  known_.insert(point);
  points_.push_back(std::move(point));
  costs_.emplace_back();
  invalid_.push_back(false);
}

void SearchModel::Observe(const TrialAtRung& at, double value) {
  results_.push_back({at, value});
}

void SearchModel::AddCost(TrialIndex trial, double seconds,
                          std::int64_t length) {
  if (!std::isfinite(seconds) || seconds <= 0 || length <= 0) return;
  costs_[static_cast<std::size_t>(trial)].Add(seconds, length);
}

void SearchModel::Cost::Add(double more_seconds, std::int64_t more_length) {
  seconds += more_seconds;
  length += more_length;
  log = PortableLog(seconds / static_cast<double>(length));
}

void SearchModel::MarkInvalid(TrialIndex trial) {
  invalid_[static_cast<std::size_t>(trial)] = true;
}

void SearchModel::Remove(TrialIndex trial, int from_rung) {
  std::erase_if(results_, [&](const Result& result) {
    return result.at.trial == trial && result.at.rung >= from_rung;
  });
}

std::optional<SearchModel::Proposal> SearchModel::Propose(
    const std::vector<TrialAtRung>& training,
    const std::vector<TrialAtRung>& waiting, bool may_create, Rng& rng) {
  Fit(training);
  const Aim aim = FindAim();
  Candidates candidates;
  if (may_create && space_.dimensions() > 0) {
    candidates = FindCandidates(aim, rng);
  }
  const bool has_new = !candidates.points.empty();
  const std::size_t best = candidates.best();
  const double threshold = has_new ? candidates.scores[best]
                                   : -std::numeric_limits<double>::infinity();
  if (const auto trial = BestWaiting(waiting, aim, threshold)) {
    return Proposal{.waiting = trial, .point = {}};
  }
  if (!has_new) return std::nullopt;
  return Proposal{.waiting = {}, .point = candidates.points[best]};
}

std::vector<Searcher::Expectation> SearchModel::PredictTop() {
  Fit({});
  std::vector<double> values;
  std::set<TrialIndex> trials;
  for (const Result& result : results_) {
    values.push_back(result.value);
    trials.insert(result.at.trial);
  }
  ValueScale scale;
  StandardizeValues(values, &scale);
  std::vector<Searcher::Expectation> expectations;
  if (!(scale.factor > 0)) return expectations;  // all values are alike
  for (const TrialIndex trial : trials) {
    const auto [mean, deviation] = process_.Predict(
        points_[static_cast<std::size_t>(trial)], top(), trial);
    expectations.push_back(
        {trial, scale.offset + scale.factor * mean, scale.factor * deviation});
  }
  return expectations;
}

// Trains the processes if there are enough new results, and conditions them on
// the results and on the newest trials in training, which are assumed to be as
// predicted. More of them would cost more than they tell.
void SearchModel::Fit(const std::vector<TrialAtRung>& training) {
  std::vector<double> values;
  for (const Result& result : results_) values.push_back(result.value);
  values = StandardizeValues(values);
  used_ = {};
  for (const std::size_t i : KeptObservations(values, kMostObservations)) {
    const auto& [trial, rung] = results_[i].at;
    used_.Add(points_[static_cast<std::size_t>(trial)], rung, trial, values[i]);
  }
  const auto count = static_cast<double>(results_.size());
  const bool first = trained_at_ == 0;
  if (first || count >= kTrainingGrowth * static_cast<double>(trained_at_)) {
    process_.Train(used_, first ? kFirstSteps : kLaterSteps);
    trained_at_ = results_.size();
    correlations_.Clear();
  }
  process_.Condition(used_);
  assumed_ = used_;
  const std::size_t skipped =
      training.size() - std::min(training.size(), kMostTraining);
  for (const auto& [trial, rung] : std::span(training).subspan(skipped)) {
    const Point& point = points_[static_cast<std::size_t>(trial)];
    assumed_.Add(point, rung, trial, process_.PredictMean(point, rung, trial));
  }
  if (!training.empty()) process_.Condition(assumed_);
  FitCost();
  FitValidity();
}

void SearchModel::FitCost() {
  has_cost_ = false;
  if (!counts_cost_) return;
  std::vector<std::size_t> trials;
  for (std::size_t i = costs_.size(); i-- > 0 && trials.size() < kMostCosts;) {
    if (costs_[i].known()) trials.push_back(i);
  }
  if (trials.empty()) return;
  std::ranges::reverse(trials);
  std::vector<double> costs;
  for (const std::size_t i : trials) {
    costs.push_back(costs_[i].log);
  }
  std::tie(cost_mean_, cost_deviation_) = Standardize(costs, kDeviationMin);
  Observations data;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    data.Add(points_[trials[i]], 0, static_cast<TrialIndex>(trials[i]),
             costs[i]);
  }
  if (cost_trained_at_ != trained_at_) {
    cost_process_.Train(data, kCostSteps);
    cost_trained_at_ = trained_at_;
  }
  cost_process_.Condition(data);
  has_cost_ = true;
}

// Conditions the process of validity on the labels of the newest trials. The
// invalid ones, which get rare once they are avoided, are not forgotten.
void SearchModel::FitValidity() {
  std::vector<double> labels(points_.size());  // 0: unknown
  for (const Result& result : results_) {
    labels[static_cast<std::size_t>(result.at.trial)] = 1;
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (invalid_[i]) labels[i] = -1;
  }
  const auto invalid =
      static_cast<std::size_t>(std::ranges::count(labels, -1.0));
  has_validity_ = invalid > 0;
  if (!has_validity_) return;
  std::size_t invalid_left = std::min(invalid, kMostInvalid);
  std::size_t valid_left = kMostLabels - invalid_left;
  std::vector<std::size_t> trials;
  std::size_t known = 0;
  for (std::size_t i = labels.size(); i-- > 0;) {
    if (labels[i] == 0) continue;
    ++known;
    std::size_t& left = labels[i] < 0 ? invalid_left : valid_left;
    if (left == 0) continue;
    --left;
    trials.push_back(i);
  }
  std::vector<double> values;
  for (const std::size_t i : trials) values.push_back(labels[i]);
  std::tie(label_mean_, label_deviation_) = Standardize(values, kDeviationMin);
  Observations data;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    data.Add(points_[trials[i]], 0, static_cast<TrialIndex>(trials[i]),
             values[i]);
  }
  if (static_cast<double>(known) >=
      kTrainingGrowth * static_cast<double>(validity_trained_at_)) {
    validity_process_.Train(
        data, validity_trained_at_ == 0 ? kFirstSteps : kLaterSteps);
    validity_trained_at_ = known;
  }
  validity_process_.Condition(data);
}

double SearchModel::ComputeLogValidity(
    const GaussianProcess::Prediction& label) const {
  const double mean = label_mean_ + label_deviation_ * label.mean;
  const double probability = NormalProbability(
      (mean - kValidLabel) / (label_deviation_ * label.deviation));
  return kValidityWeight * PortableLog(std::max(kMinImprovement, probability));
}

double SearchModel::PredictLogCost(const Point& point) const {
  return cost_mean_ +
         cost_deviation_ *
             cost_process_.PredictMean(point, 0, GaussianProcess::kNewTrial);
}

SearchModel::Aim SearchModel::FindAim() const {
  std::vector<TrialIndex> trials = used_.trials;
  std::ranges::sort(trials);
  trials.erase(std::unique(trials.begin(), trials.end()), trials.end());
  std::vector<double> means;
  for (const TrialIndex trial : trials) {
    const Point& point = points_[static_cast<std::size_t>(trial)];
    means.push_back(process_.PredictMean(point, top(), trial));
  }
  Aim aim;
  const auto best = Smallest(means, kNearTrials);
  for (const std::size_t i : best) {
    aim.near.push_back(points_[static_cast<std::size_t>(trials[i])]);
  }
  // The value to improve on is the least prediction of all trials. An observed
  // value may owe its rank to noise. Before rules 3 it was that of the trials
  // with a result at the top rung, if there were any.
  aim.least = means[best.front()];
  if (aims_at_predictions_) return aim;
  std::optional<double> least;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_.rungs[i] != top()) continue;
    const auto at = std::ranges::lower_bound(trials, used_.trials[i]);
    const double mean = means[static_cast<std::size_t>(at - trials.begin())];
    if (!least || mean < *least) least = mean;
  }
  if (least) aim.least = *least;
  return aim;
}

std::size_t SearchModel::Candidates::best() const {
  return static_cast<std::size_t>(std::ranges::max_element(scores) -
                                  scores.begin());
}

// Looks for the best new point in three rounds: points from the whole space and
// around the best trials, then twice around the best candidates with smaller
// steps. A gradient would not do, since coordinates may be categories.
SearchModel::Candidates SearchModel::FindCandidates(const Aim& aim,
                                                    Rng& rng) const {
  Candidates candidates;
  std::vector<Point> points;
  for (std::size_t i = 0; i < kUniform; ++i) {
    points.push_back(space_.Draw(rng, kMaxUniformDraws));
  }
  for (Point& point : DrawAround(aim.near, kNear, kNearDeviations, rng)) {
    points.push_back(std::move(point));
  }
  AddCandidates(std::move(points), aim, candidates);
  for (const double deviation : kCloserDeviations) {
    std::vector<double> losses;
    for (const double score : candidates.scores) losses.push_back(-score);
    std::vector<Point> centres;
    for (const std::size_t i : Smallest(losses, kCloserCandidates)) {
      centres.push_back(candidates.points[i]);
    }
    if (centres.empty()) break;
    AddCandidates(DrawAround(centres, kCloser, {&deviation, 1}, rng), aim,
                  candidates);
  }
  return candidates;
}

std::vector<Point> SearchModel::DrawAround(const std::vector<Point>& centres,
                                           std::size_t count,
                                           std::span<const double> deviations,
                                           Rng& rng) const {
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    const Point& centre = centres[rng.Below(centres.size())];
    const double deviation = deviations[rng.Below(deviations.size())];
    points.push_back(space_.DrawNear(centre, deviation, rng));
  }
  return points;
}

// Adds the points that no trial has and that meet the constraints, with their
// scores.
void SearchModel::AddCandidates(std::vector<Point> points, const Aim& aim,
                                Candidates& candidates) const {
  std::erase_if(points, [&](const Point& point) {
    return HasPoint(point) || !space_.MeetsConstraints(point);
  });
  std::vector<double> flat;
  for (const Point& point : points) {
    flat.insert(flat.end(), point.begin(), point.end());
  }
  const auto predictions = process_.PredictNew(flat, top());
  std::vector<GaussianProcess::Prediction> costs;
  if (has_cost_) costs = cost_process_.PredictNew(flat, 0, false);
  std::vector<GaussianProcess::Prediction> labels;
  if (has_validity_) labels = validity_process_.PredictNew(flat, 0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    double score = LogExpectedImprovement(predictions[i], aim.least);
    if (has_cost_) {
      score -= 0.5 * (cost_mean_ + cost_deviation_ * costs[i].mean);
    }
    if (has_validity_) score += ComputeLogValidity(labels[i]);
    candidates.scores.push_back(score);
    candidates.points.push_back(std::move(points[i]));
  }
}

void CorrelationTable::Clear() {
  slots_ = 0;
  slot_of_.clear();
  free_.clear();
  known_.clear();
  blocks_.clear();
}

// Gives each trial a slot; one that has one keeps it.
void CorrelationTable::AssignSlots(const std::vector<TrialIndex>& wanted) {
  const std::set<TrialIndex> trials(wanted.begin(), wanted.end());
  if (trials.size() > slots_) {
    Clear();
    slots_ = trials.size() + kSpareSlots;
    known_.assign(slots_, 0);
    for (std::size_t i = slots_; i-- > 0;) free_.push_back(i);
  }
  std::erase_if(slot_of_, [&](const auto& entry) {
    const bool dropped = !trials.contains(entry.first);
    if (dropped) free_.push_back(entry.second);
    return dropped;
  });
  for (const TrialIndex trial : trials) {
    const auto [entry, added] = slot_of_.try_emplace(trial, 0);
    if (!added) continue;
    entry->second = free_.back();
    free_.pop_back();
    known_[entry->second] = 0;
  }
}

// Fills the table for the observations that are new and the trials that were
// added. An entry stays valid until the process has other hyperparameters,
// which is when Clear is called.
void CorrelationTable::Update(const GaussianProcess& process,
                              const Observations& observations,
                              std::span<const std::vector<double>> columns,
                              std::size_t trials) {
  AssignSlots(observations.trials);
  while (blocks_.size() * kBlock < trials) {
    blocks_.emplace_back(slots_ * kBlock);
  }
  Point point(columns.size());
  for (const auto& [trial, slot] : slot_of_) {
    for (std::size_t i = 0; i < point.size(); ++i) {
      point[i] = columns[i][static_cast<std::size_t>(trial)];
    }
    std::size_t& filled = known_[slot];
    while (filled < trials) {
      const std::size_t lane = filled % kBlock;
      const std::size_t count = std::min(kBlock - lane, trials - filled);
      process.Correlate(point, columns, filled, count,
                        &blocks_[filled / kBlock][slot * kBlock + lane]);
      filled += count;
    }
  }
  order_.clear();
  for (const TrialIndex trial : observations.trials) {
    order_.push_back(slot_of_.at(trial));
  }
  rows_.resize(order_.size());
  buffer_.resize(order_.size() * kBlock);
}

std::span<const double* const> CorrelationTable::Block(std::size_t block) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    rows_[i] = &blocks_[block][order_[i] * kBlock];
  }
  return rows_;
}

std::span<const double* const> CorrelationTable::Gather(
    std::span<const TrialIndex> trials) {
  for (std::size_t c = 0; c < trials.size(); ++c) {
    const auto trial = static_cast<std::size_t>(trials[c]);
    const double* from = &blocks_[trial / kBlock][trial % kBlock];
    for (std::size_t i = 0; i < order_.size(); ++i) {
      buffer_[i * kBlock + c] = from[order_[i] * kBlock];
    }
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    rows_[i] = &buffer_[i * kBlock];
  }
  return rows_;
}

// Returns the part of a waiting trial's score that does not depend on the
// model: less cost and a shorter rest are better.
double SearchModel::ComputeBonus(const TrialAtRung& waiting) const {
  const double rest =
      1 -
      static_cast<double>(lengths_[static_cast<std::size_t>(waiting.rung)]) /
          static_cast<double>(lengths_.back());
  const double bonus = -PortableLog(rest);
  if (!has_cost_) return bonus;
  const auto at = static_cast<std::size_t>(waiting.trial);
  return bonus - 0.5 * (costs_[at].known() ? costs_[at].log
                                           : PredictLogCost(points_[at]));
}

// Returns, for each waiting trial, a score that its own does not exceed.
std::vector<double> SearchModel::BoundScores(
    const std::vector<TrialAtRung>& waiting, const Aim& aim,
    std::span<const double> bonus) {
  std::vector<double> bounds(waiting.size());
  std::array<GaussianProcess::Prediction, kBlock> predictions;
  std::array<TrialIndex, kBlock> trials;
  // The observations are ordered so that the first say most (see Condition):
  // few of them give a variance close to the exact one, and never below it. The
  // expected improvement grows with the variance, so this is a bound.
  const std::size_t conditioned = std::min(kBoundObservations, assumed_.size());
  for (std::size_t i = 0; i < waiting.size();) {
    const std::size_t block =
        static_cast<std::size_t>(waiting[i].trial) / kBlock;
    const std::size_t first = block * kBlock;
    const std::size_t width = std::min(kBlock, points_.size() - first);
    std::iota(trials.begin(), trials.end(), static_cast<TrialIndex>(first));
    process_.PredictBlock(correlations_.Block(block),
                          std::span(trials).first(width), width, top(),
                          conditioned, predictions);
    for (; i < waiting.size(); ++i) {
      const auto lane = static_cast<std::size_t>(waiting[i].trial) - first;
      if (lane >= kBlock) break;
      bounds[i] =
          bonus[i] + LogExpectedImprovement(predictions[lane], aim.least);
    }
  }
  return bounds;
}

// Returns the waiting trial with the highest score, if it is at least the
// threshold; of equal ones the first.
std::optional<TrialIndex> SearchModel::BestWaiting(
    const std::vector<TrialAtRung>& waiting, const Aim& aim, double threshold) {
  if (waiting.empty()) return std::nullopt;
  correlations_.Update(process_, process_.observations(), columns_,
                       points_.size());
  std::vector<double> bonus;
  for (const TrialAtRung& trial : waiting) bonus.push_back(ComputeBonus(trial));
  const std::vector<double> bounds = BoundScores(waiting, aim, bonus);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (bounds[i] >= threshold) order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return bounds[a] != bounds[b] ? bounds[a] > bounds[b] : a < b;
  });
  std::optional<std::size_t> best;
  std::array<GaussianProcess::Prediction, kBlock> predictions;
  for (std::size_t first = 0; first < order.size(); first += kBlock) {
    // The bounds descend, so no later trial can reach the best score so far.
    if (bounds[order[first]] < threshold) break;
    const auto chosen =
        std::span(order).subspan(first, std::min(kBlock, order.size() - first));
    std::ranges::sort(chosen);
    std::vector<TrialIndex> trials;
    for (const std::size_t i : chosen) trials.push_back(waiting[i].trial);
    process_.PredictBlock(correlations_.Gather(trials), trials, trials.size(),
                          top(), assumed_.size(), predictions);
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      const double score =
          bonus[chosen[c]] + LogExpectedImprovement(predictions[c], aim.least);
      if (score < threshold) continue;
      if (score > threshold || !best || chosen[c] < *best) best = chosen[c];
      threshold = score;
    }
  }
  if (!best) return std::nullopt;
  return waiting[*best].trial;
}

nlohmann::json SearchModel::Save() const {
  nlohmann::json trials = nlohmann::json::array();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    trials.push_back({points_[i], costs_[i].seconds, costs_[i].length});
    if (invalid_[i]) trials.back().push_back(true);
  }
  nlohmann::json results = nlohmann::json::array();
  for (const Result& result : results_) {
    nlohmann::json value = nullptr;
    if (std::isfinite(result.value)) value = result.value;
    results.push_back({result.at.trial, result.at.rung, std::move(value)});
  }
  return {{"trials", std::move(trials)},
          {"results", std::move(results)},
          {"hyperparameters", process_.hyperparameters()},
          {"cost_hyperparameters", cost_process_.hyperparameters()},
          {"validity_hyperparameters", validity_process_.hyperparameters()},
          {"trained_at", trained_at_},
          {"cost_trained_at", cost_trained_at_},
          {"validity_trained_at", validity_trained_at_}};
}

void SearchModel::Load(const nlohmann::json& state) {
  points_.clear();
  costs_.clear();
  invalid_.clear();
  results_.clear();
  known_.clear();
  correlations_.Clear();
  for (std::vector<double>& column : columns_) column.clear();
  for (const nlohmann::json& row : state.at("trials")) {
    auto point = row.at(0).get<Point>();
    if (point.size() != space_.dimensions()) {
      throw std::invalid_argument("a point has another number of coordinates");
    }
    AddTrial(std::move(point));
    const std::int64_t length = row.at(2);
    if (length > 0) costs_.back().Add(row.at(1), length);
    invalid_.back() = row.size() > 3;
  }
  for (const nlohmann::json& row : state.at("results")) {
    const nlohmann::json& value = row.at(2);
    const TrialAtRung at{.trial = row.at(0), .rung = row.at(1)};
    const bool valid = at.trial >= 0 && at.rung >= 0 && at.rung <= top() &&
                       static_cast<std::size_t>(at.trial) < points_.size();
    if (!valid) throw std::invalid_argument("a result has no trial or rung");
    Observe(at, value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                : value.get<double>());
  }
  for (auto [process, name] :
       {std::pair(&process_, "hyperparameters"),
        std::pair(&cost_process_, "cost_hyperparameters"),
        std::pair(&validity_process_, "validity_hyperparameters")}) {
    // That of validity was added within rules 3.
    if (process == &validity_process_ && !state.contains(name)) continue;
    auto theta = state.at(name).get<std::vector<double>>();
    if (theta.size() != process->hyperparameters().size()) {
      throw std::invalid_argument("the model has other hyperparameters");
    }
    process->SetHyperparameters(std::move(theta));
  }
  trained_at_ = state.at("trained_at");
  cost_trained_at_ = state.at("cost_trained_at");
  validity_trained_at_ = state.value("validity_trained_at", std::size_t{0});
}

}  // namespace dtrain
