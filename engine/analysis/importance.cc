// PED-ANOVA estimates two densities of each hyperparameter, one from the best
// trials and one from all, and takes their Pearson divergence as importance: a
// hyperparameter that does not matter has the same density in both. The values
// are first counted on a grid of at most 50 cells; the density is a mixture of
// one normal distribution per occupied cell, cut off at the ends and rounded to
// cells, and of one wide one as a prior, so the cost depends on the number of
// cells, not of trials. The width of the normals follows Scott's rule (D. W.
// Scott: Multivariate Density Estimation, 1992). Trials without a
// hyperparameter (a conditional one) lower its importance by the terms of
// conditional PED-ANOVA: share of the best trials that have it, squared, by the
// share of all trials.
#include "engine/analysis/importance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>

#include "engine/analysis/statistics.h"
#include "engine/base/metric_order.h"

namespace dtrain {
namespace {

constexpr std::int64_t kMaxCells = 50;
constexpr double kPriorWeight = 1;
// A density of 0 would make the divergence infinite.
constexpr double kMinDensity = 1e-12;

// Probability of a standard normal variable between a and b. Both ends are
// taken to the lower tail, where erfc keeps its precision.
double NormalMass(double a, double b) {
  if (a > 0) return NormalMass(-b, -a);
  const double root = std::sqrt(2.0);
  return 0.5 * (std::erfc(-b / root) - std::erfc(-a / root));
}

// The cells of an axis.
class Cells {
 public:
  explicit Cells(const SearchAxis& axis) : axis_(axis) {
    if (!axis.choices.empty()) {
      count_ = axis.choices.size();
      return;
    }
    low_ = axis.log ? std::log(axis.low) : axis.low;
    const double high = axis.log ? std::log(axis.high) : axis.high;
    count_ = kMaxCells;
    if (axis.step) {
      const double values = std::round((high - low_) / *axis.step) + 1;
      if (values < kMaxCells) count_ = static_cast<std::size_t>(values);
    }
    width_ = (high - low_) / static_cast<double>(count_ - 1);
  }

  std::size_t count() const { return count_; }
  std::size_t CellIndex(double place) const {
    if (!axis_.choices.empty()) return static_cast<std::size_t>(place);
    const double value = axis_.log ? std::log(place) : place;
    // A value in the middle of two cells belongs to the lower one.
    const double cell = std::ceil((value - low_) / width_ - 0.5);
    return static_cast<std::size_t>(
        std::clamp(cell, 0.0, static_cast<double>(count_ - 1)));
  }

 private:
  const SearchAxis& axis_;
  std::size_t count_ = 0;
  double low_ = 0;
  double width_ = 1;
};

// Occupied cells and the number of trials in each.
struct Occupied {
  std::vector<double> cells;
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
};

Occupied FindOccupied(const std::vector<std::int64_t>& counts) {
  Occupied occupied;
  for (std::size_t cell = 0; cell < counts.size(); ++cell) {
    if (counts[cell] == 0) continue;
    occupied.cells.push_back(static_cast<double>(cell));
    occupied.counts.push_back(counts[cell]);
    occupied.total += counts[cell];
  }
  return occupied;
}

// Distance of the quartiles of the trials' cells.
double QuartileRange(const Occupied& trials) {
  std::vector<std::int64_t> sums(trials.counts.size());
  std::partial_sum(trials.counts.begin(), trials.counts.end(), sums.begin());
  const auto lower = std::ranges::lower_bound(sums, trials.total / 4);
  auto upper = std::ranges::upper_bound(sums, trials.total * 3 / 4);
  if (upper == sums.end()) --upper;
  return trials.cells[static_cast<std::size_t>(upper - sums.begin())] -
         trials.cells[static_cast<std::size_t>(lower - sums.begin())];
}

// Width of the normals by Scott's rule, in cells.
double Bandwidth(const Occupied& trials) {
  const auto total = static_cast<double>(trials.total);
  double sum = 0;
  for (std::size_t i = 0; i < trials.cells.size(); ++i) {
    sum += trials.cells[i] * static_cast<double>(trials.counts[i]);
  }
  double squares = 0;
  for (std::size_t i = 0; i < trials.cells.size(); ++i) {
    const double distance = trials.cells[i] - sum / total;
    squares += distance * distance * static_cast<double>(trials.counts[i]);
  }
  const double deviation = std::sqrt(squares / std::max(1.0, total - 1));
  const double width = 1.059 *
                       std::min(QuartileRange(trials) / 1.34, deviation) *
                       std::pow(total, -0.2);
  // 90 % of a normal at least this wide fit into its cell.
  return std::max(width, 0.5 / 1.64);
}

// Adds `weight` × the density of a normal cut off at the ends. `masses` has
// that of the cell at each distance from the mean, or is empty.
void AddNormal(double weight, double mean, double width,
               const std::vector<double>& masses,
               std::vector<double>& density) {
  const auto count = static_cast<double>(density.size());
  const double whole =
      NormalMass((-0.5 - mean) / width, (count - 0.5 - mean) / width);
  for (std::size_t cell = 0; cell < density.size(); ++cell) {
    const double left = static_cast<double>(cell) - 0.5 - mean;
    density[cell] +=
        weight *
        (masses.empty() ? NormalMass(left / width, (left + 1) / width)
                        : masses[static_cast<std::size_t>(
                              std::abs(static_cast<double>(cell) - mean))]) /
        whole;
  }
}

std::vector<double> NumberDensity(const std::vector<std::int64_t>& counts) {
  const Occupied trials = FindOccupied(counts);
  const double all = static_cast<double>(trials.total) + kPriorWeight;
  const double width = Bandwidth(trials);
  std::vector<double> density(counts.size(), 0.0);
  // The means are cells, so that few distances occur.
  std::vector<double> masses;
  for (std::size_t distance = 0; distance < counts.size(); ++distance) {
    const double left = static_cast<double>(distance) - 0.5;
    masses.push_back(NormalMass(left / width, (left + 1) / width));
  }
  for (std::size_t i = 0; i < trials.cells.size(); ++i) {
    AddNormal(static_cast<double>(trials.counts[i]) / all, trials.cells[i],
              width, masses, density);
  }
  const auto last = static_cast<double>(counts.size()) - 1;
  AddNormal(kPriorWeight / all, last / 2, last + 1, {}, density);
  return density;
}

std::vector<double> ChoiceDensity(const std::vector<std::int64_t>& counts) {
  const Occupied trials = FindOccupied(counts);
  const double all = static_cast<double>(trials.total) + kPriorWeight;
  const auto kernels = static_cast<double>(trials.cells.size()) + 1;
  const auto choices = static_cast<double>(counts.size());
  // Each kernel is its own choice and a little of all.
  const double spread = kPriorWeight / kernels;
  const double scale = 1 / (1 + spread * choices);
  std::vector<double> density(counts.size());
  for (std::size_t choice = 0; choice < counts.size(); ++choice) {
    const auto own = static_cast<double>(counts[choice]);
    density[choice] =
        (own + static_cast<double>(trials.total) * spread) * scale / all +
        kPriorWeight / all / choices;
  }
  return density;
}

// Σ q (p / q − 1)² over the cells, with p of the best trials and q of all.
double PearsonDivergence(const std::vector<double>& best,
                         const std::vector<double>& all) {
  double sum = 0;
  for (std::size_t cell = 0; cell < best.size(); ++cell) {
    const double base = all[cell] + kMinDensity;
    const double ratio = (best[cell] + kMinDensity) / base - 1;
    sum += base * ratio * ratio;
  }
  return sum;
}

// The trials with finite values, in columns.
struct Columns {
  std::vector<std::vector<double>> places;  // by axis
  std::vector<double> values;
  std::vector<double> value_ranks;
  std::vector<bool> is_best;
  std::int64_t best = 0;  // number of those
};

Columns MakeColumns(std::size_t axes, const std::vector<TrialOutcome>& trials) {
  Columns columns;
  columns.places.resize(axes);
  for (const TrialOutcome& trial : trials) {
    assert(trial.places.size() == axes);
    if (!std::isfinite(trial.value)) continue;
    columns.values.push_back(trial.value);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      columns.places[axis].push_back(trial.places[axis]);
    }
  }
  columns.value_ranks = Ranks(columns.values);
  return columns;
}

// Marks the best `quantile`, and all that equal the last of them.
void MarkBest(bool smaller_is_better, double quantile, Columns& columns) {
  std::vector<double> keys;
  for (const double value : columns.values) {
    keys.push_back(RankKey(value, smaller_is_better));
  }
  std::vector<double> sorted = keys;
  const auto kept = static_cast<std::ptrdiff_t>(
      std::ceil(quantile * static_cast<double>(keys.size())));
  const auto last = sorted.begin() + std::max<std::ptrdiff_t>(kept, 1) - 1;
  std::ranges::nth_element(sorted, last);
  for (const double key : keys) {
    columns.is_best.push_back(key <= *last);
    columns.best += key <= *last ? 1 : 0;
  }
}

// Trials by their cell of an axis.
class CellTable {
 public:
  CellTable(const SearchAxis& axis, const std::vector<double>& places)
      : density_(axis.choices.empty() ? NumberDensity : ChoiceDensity) {
    if (axis.constant()) return;
    const Cells cells(axis);
    count_ = cells.count();
    for (const double place : places) {
      cells_.push_back(std::isfinite(place)
                           ? static_cast<std::uint32_t>(cells.CellIndex(place))
                           : static_cast<std::uint32_t>(count_));
    }
  }

  // The divergence if trial i occurs weights[i] times.
  double Divergence(const std::vector<std::uint32_t>& weights,
                    const std::vector<bool>& is_best) const;

 private:
  std::vector<double> (*density_)(const std::vector<std::int64_t>&);
  std::size_t count_ = 0;             // of cells; 0: a constant
  std::vector<std::uint32_t> cells_;  // of the trials; count_: none
};

double CellTable::Divergence(const std::vector<std::uint32_t>& weights,
                             const std::vector<bool>& is_best) const {
  if (count_ == 0) return 0;
  std::vector<std::int64_t> best(count_ + 1), all(count_ + 1);
  std::int64_t best_trials = 0, all_trials = 0;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    all[cells_[i]] += weights[i];
    all_trials += weights[i];
    if (!is_best[i]) continue;
    best[cells_[i]] += weights[i];
    best_trials += weights[i];
  }
  const std::int64_t best_count = best_trials - best.back();
  const std::int64_t all_count = all_trials - all.back();
  best.pop_back();
  all.pop_back();
  if (best_count == 0 || all_count < 2) return 0;
  const auto trials = static_cast<double>(all_trials);
  const auto chosen = static_cast<double>(best_trials);
  const double best_share = static_cast<double>(best_count) / chosen;
  const double all_share = static_cast<double>(all_count) / trials;
  const double quantile = chosen / trials;
  return quantile * quantile * best_share * best_share / all_share *
         PearsonDivergence(density_(best), density_(all));
}

// Shares of the divergences in their sum, 0 if that is 0. Parts of a category
// are not added.
std::vector<double> Shares(const std::vector<SearchAxis>& axes,
                           const std::vector<double>& divergences) {
  double sum = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_part) sum += divergences[i];
  }
  std::vector<double> shares;
  for (const double one : divergences) {
    shares.push_back(sum > 0 ? std::min(one / sum, 1.0) : 0);
  }
  return shares;
}

// Adds the intervals of the shares.
void AddIntervals(const std::vector<SearchAxis>& axes,
                  const std::vector<CellTable>& tables, const Columns& columns,
                  bool smaller_is_better, double quantile,
                  std::vector<HparamImportance>& importances) {
  // At most so many places of trials are counted: some 10 ms.
  constexpr std::size_t kMaxPlaces = 3'000'000;
  const std::size_t count = columns.values.size();
  const std::size_t number_of_samples = std::clamp<std::size_t>(
      kMaxPlaces / (count * std::max<std::size_t>(axes.size(), 1)), 20, 100);
  const std::size_t outside = number_of_samples / 20;  // on each side, of 90 %
  std::vector<std::size_t> order(count);               // the best first
  std::iota(order.begin(), order.end(), 0);
  // Trials in any order have the same samples.
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    if (columns.values[a] != columns.values[b]) {
      return RankKey(columns.values[a], smaller_is_better) <
             RankKey(columns.values[b], smaller_is_better);
    }
    for (const auto& places : columns.places) {
      const double x = std::isnan(places[a]) ? HUGE_VAL : places[a];
      const double y = std::isnan(places[b]) ? HUGE_VAL : places[b];
      if (x != y) return x < y;
    }
    return a < b;
  });
  std::mt19937 random(1);  // the same intervals at each call
  std::vector<std::vector<double>> samples(axes.size());
  for (std::size_t sample = 0; sample < number_of_samples; ++sample) {
    std::vector<std::uint32_t> weights(count);
    for (std::size_t i = 0; i < count; ++i) ++weights[order[random() % count]];
    std::vector<bool> is_best(count);
    const double wanted = std::ceil(quantile * static_cast<double>(count));
    double last = 0;
    std::size_t kept = 0;
    for (const std::size_t i : order) {
      if (static_cast<double>(kept) >= wanted && columns.values[i] != last) {
        break;
      }
      is_best[i] = true;
      kept += weights[i];
      if (weights[i] > 0) last = columns.values[i];
    }
    std::vector<double> divergences;
    for (const CellTable& table : tables) {
      divergences.push_back(table.Divergence(weights, is_best));
    }
    const auto shares = Shares(axes, divergences);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      samples[i].push_back(shares[i]);
    }
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::ranges::sort(samples[i]);
    importances[i].low = samples[i][outside];
    importances[i].high = samples[i][number_of_samples - 1 - outside];
  }
}

std::size_t CountFinite(const std::vector<double>& numbers) {
  return static_cast<std::size_t>(std::ranges::count_if(
      numbers, [](double number) { return std::isfinite(number); }));
}

// Correlates numbers of all trials with their values.
std::optional<double> CorrelationWith(const std::vector<double>& numbers,
                                      const Columns& columns) {
  const bool all_finite = std::ranges::all_of(
      numbers, [](double number) { return std::isfinite(number); });
  if (!all_finite || numbers.size() < 2) {
    return RankCorrelation(numbers, columns.values);
  }
  return LinearCorrelation(Ranks(numbers), columns.value_ranks);
}

// Values whose order means something: numbers, and categories that are numbers.
std::optional<double> ComputeCorrelation(const SearchAxis& axis,
                                         const std::vector<double>& places,
                                         const Columns& columns) {
  if (axis.choices.empty()) return CorrelationWith(places, columns);
  std::vector<double> numbers;
  for (const nlohmann::json& choice : axis.choices) {
    if (!choice.is_number()) return std::nullopt;
    numbers.push_back(choice.get<double>());
  }
  std::vector<double> chosen;
  for (const double place : places) {
    chosen.push_back(std::isfinite(place)
                         ? numbers[static_cast<std::size_t>(place)]
                         : std::numeric_limits<double>::quiet_NaN());
  }
  return CorrelationWith(chosen, columns);
}

}  // namespace

std::size_t CountBest(const std::vector<TrialOutcome>& trials,
                      bool smaller_is_better, double quantile) {
  Columns columns;
  for (const TrialOutcome& trial : trials) {
    if (std::isfinite(trial.value)) columns.values.push_back(trial.value);
  }
  if (!columns.values.empty()) MarkBest(smaller_is_better, quantile, columns);
  return static_cast<std::size_t>(columns.best);
}

std::vector<HparamImportance> HparamImportances(
    const std::vector<SearchAxis>& axes,
    const std::vector<TrialOutcome>& trials, bool smaller_is_better,
    double quantile, bool intervals) {
  assert(quantile > 0 && quantile < 1);
  Columns columns = MakeColumns(axes.size(), trials);
  std::vector<HparamImportance> importances;
  if (!columns.values.empty()) MarkBest(smaller_is_better, quantile, columns);
  const std::vector<std::uint32_t> once(columns.values.size(), 1);
  std::vector<CellTable> tables;
  std::vector<double> divergences;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    tables.emplace_back(axes[i], columns.places[i]);
    divergences.push_back(columns.values.size() < 2
                              ? 0
                              : tables[i].Divergence(once, columns.is_best));
  }
  const std::vector<double> shares = Shares(axes, divergences);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    importances.push_back(
        {.name = axes[i].name,
         .divergence = divergences[i],
         .share = shares[i],
         .correlation = ComputeCorrelation(axes[i], columns.places[i], columns),
         .trials = CountFinite(columns.places[i])});
  }
  if (intervals && columns.values.size() >= 2) {
    AddIntervals(axes, tables, columns, smaller_is_better, quantile,
                 importances);
  }
  std::ranges::stable_sort(importances, std::greater<>(),
                           &HparamImportance::divergence);
  return importances;
}

}  // namespace dtrain
