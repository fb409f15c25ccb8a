// The plan of a search follows from its configuration alone. A bracket of
// successive halving with rungs l_0 < l_1 < ... starts `max_trials` trials at
// l_0 and trains the best 1/divisor of each rung to the next one. adaptive_asha
// has one bracket for each number of rungs, as in Hyperband (Li et al. 2016),
// and distributes trials so that each bracket trains about as much as the
// others.
//
// Plan and search use the same brackets: HalvingSearcher runs what PlanBrackets
// returns, and PlanSearch counts it. Fractions are cut off as in Determined,
// because one trial more in a bracket changes the samples of all later ones.
// Sums saturate instead of overflowing (MultiplyAdd), since a plan of 10^15
// batches for a million trials is valid.

#include "searchers/search_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "searchers/portable_math.h"
#include "searchers/registry.h"

namespace dtrain {
namespace {

// Trials at the same time where the slots are not known.
constexpr std::int64_t kPreviewedPlaces = 4;
// Full trainings in the budget from which a model-based search gains by another
// rung (docs/benchmarks.md).
constexpr std::int64_t kTrainingsForRung = 15;

// Returns the lengths of the rungs: rung k of n is max_length /
// divisor^(n-1-k).
std::vector<std::int64_t> RungLengths(std::int64_t max_length, double divisor,
                                      std::int64_t rungs) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t k = 0; k < rungs; ++k) {
    const double rate = PortablePower(divisor, rungs - 1 - k);
    const auto length =
        static_cast<std::int64_t>(static_cast<double>(max_length) / rate);
    lengths.push_back(std::max<std::int64_t>(length, 1));
  }
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

// Returns 1 + the number of times that `value` can be divided by the divisor.
// The logarithm is that of the C library, as in Determined: for an exact power
// of the divisor, such as 1000 and 10, its error may cost a rung.
std::int64_t RungsFor(std::int64_t value, double divisor) {
  const double divisions =
      std::log(static_cast<double>(value)) / std::log(divisor);
  return static_cast<std::int64_t>(divisions) + 1;
}

// Returns the number of rungs that the length and the trials allow.
std::int64_t RungsWithRoom(const SearcherConfig& config) {
  return std::min({config.max_rungs,
                   RungsFor(config.max_length, config.divisor),
                   RungsFor(config.max_trials, config.divisor)});
}

// Returns the number of rungs of each bracket, in descending order.
std::vector<std::int64_t> BracketRungs(const SearcherConfig& config) {
  std::vector<std::int64_t> rungs = config.bracket_rungs;
  if (rungs.empty()) {
    const std::int64_t most = RungsWithRoom(config);
    const std::int64_t least = config.mode == "aggressive" ? most
                               : config.mode == "standard" ? (most - 1) / 2 + 1
                                                           : 1;
    for (std::int64_t n = least; n <= most; ++n) rungs.push_back(n);
  }
  std::sort(rungs.begin(), rungs.end(), std::greater<>());
  return rungs;
}

// Distributes the trials by the weight divisor^(rungs-1) / rungs, as Determined
// does.
void ShareTrials(std::int64_t max_trials, double divisor,
                 const std::vector<std::int64_t>& rungs,
                 std::vector<Bracket>& brackets) {
  const auto weight = [&](std::int64_t n) {
    // Bounded, so that the sum is finite.
    return std::min(std::pow(divisor, static_cast<double>(n - 1)), 1e300) /
           static_cast<double>(n);
  };
  double sum = 0;
  for (const std::int64_t n : rungs) sum += weight(n);
  std::int64_t left = max_trials;
  for (std::size_t i = 0; i < brackets.size(); ++i) {
    const double share =
        weight(rungs[i]) / sum * static_cast<double>(max_trials);
    brackets[i].max_trials = static_cast<std::int64_t>(std::max(share, 1.0));
    left -= brackets[i].max_trials;
  }
  brackets.front().max_trials += std::max<std::int64_t>(left, 0);
}

// Without a limit each bracket gets as many as the last one has trials.
// Otherwise the limit is divided evenly and the rest goes to the brackets with
// most rungs; each gets at least one.
void ShareConcurrency(std::int64_t concurrency, double divisor,
                      std::vector<Bracket>& brackets) {
  const auto count = static_cast<std::int64_t>(brackets.size());
  if (concurrency == 0) {
    const std::int64_t each = std::max(brackets.back().max_trials,
                                       static_cast<std::int64_t>(divisor));
    for (Bracket& bracket : brackets) bracket.max_concurrent_trials = each;
    return;
  }
  concurrency = std::max(concurrency, count);
  std::int64_t one_more = concurrency % count;
  for (Bracket& bracket : brackets) {
    bracket.max_concurrent_trials =
        concurrency / count + (one_more-- > 0 ? 1 : 0);
  }
}

std::int64_t TotalLength(
    const std::map<std::int64_t, std::int64_t>& trials_at) {
  std::int64_t total = 0;
  for (const auto& [length, trials] : trials_at) {
    total = MultiplyAdd(trials, length, total);
  }
  return total;
}

void AddBracket(const Bracket& bracket, double divisor,
                std::map<std::int64_t, std::int64_t>& trials_at) {
  std::int64_t trials = bracket.max_trials;
  for (const std::int64_t length : bracket.rungs) {
    // Of each rung the best 1/divisor train on, at least one; the others end
    // there.
    std::int64_t continued = 0;
    if (length != bracket.rungs.back()) {
      continued = std::max<std::int64_t>(
          static_cast<std::int64_t>(static_cast<double>(trials) / divisor), 1);
    }
    trials_at[length] += trials - continued;
    trials = continued;
  }
}

}  // namespace

std::int64_t MultiplyAdd(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) ||
      __builtin_add_overflow(result, c, &result)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return result;
}

std::int64_t TrialsForTop(const Bracket& bracket, double divisor) {
  double trials = 1;
  for (std::size_t i = 1; i < bracket.rungs.size(); ++i) {
    trials = std::ceil(std::min(trials * divisor, 1e15));
  }
  return static_cast<std::int64_t>(trials);
}

std::vector<Bracket> AsyncHalvingBrackets(const SearcherConfig& config) {
  return {{.max_trials = config.max_trials,
           .max_concurrent_trials = config.max_concurrent_trials,
           .rungs = RungLengths(config.max_length, config.divisor,
                                config.num_rungs > 0 ? config.num_rungs
                                                     : RungsWithRoom(config))}};
}

std::vector<Bracket> BayesianBrackets(const SearcherConfig& config) {
  SearcherConfig halving = config;
  halving.max_concurrent_trials = CountPlaces(config);
  if (config.num_rungs > 0) return AsyncHalvingBrackets(halving);
  halving.num_rungs = config.rules < 2 ? 5 : RungsWithRoom(config);
  std::vector<Bracket> brackets = AsyncHalvingBrackets(halving);
  const bool large = SearchBudget(config) >=
                     MultiplyAdd(kTrainingsForRung, config.max_length, 0);
  if (config.rules < 2 || !large || brackets.front().rungs.front() < 2) {
    return brackets;
  }
  ++halving.num_rungs;
  return AsyncHalvingBrackets(halving);
}

SearcherConfig ExtendPlan(SearcherConfig created, std::int64_t max_trials) {
  SearcherConfig plan = created;
  plan.max_trials = max_trials;
  if (IsModelBased(created)) {
    // Without a budget, that of halving with the rungs that halving had.
    if (plan.num_rungs == 0) plan.num_rungs = RungsWithRoom(created);
    plan.budget = SearchBudget(plan);
  }
  const auto brackets = FindSearcher(created.name)->brackets;
  if (brackets == AdaptiveAshaBrackets) {
    plan.bracket_rungs = BracketRungs(created);
  } else if (brackets != nullptr) {
    plan.num_rungs = std::ssize(brackets(created).front().rungs);
  }
  return plan;
}

bool IsModelBased(const SearcherConfig& config) {
  const SearcherEntry* entry = FindSearcher(config.name);
  return entry != nullptr && entry->model_based;
}

std::int64_t SearchBudget(const SearcherConfig& config) {
  if (config.budget > 0 || config.budget_seconds > 0) return config.budget;
  std::map<std::int64_t, std::int64_t> trials_at;
  AddBracket(AsyncHalvingBrackets(config).front(), config.divisor, trials_at);
  return MultiplyAdd(TotalLength(trials_at), config.repeats, 0);
}

bool CountsTime(const SearcherConfig& config) {
  if (!config.cost.empty()) return config.cost == "time";
  return config.rules < 2 || config.budget_seconds > 0;
}

std::size_t TrialsBeforeModel(std::size_t dimensions) {
  return std::max<std::size_t>(8, dimensions + 1);
}

std::int64_t CountPlaces(const SearcherConfig& config) {
  const std::int64_t places = config.max_concurrent_trials;
  return std::min(places == 0 ? kPreviewedPlaces : places,
                  MultiplyAdd(config.max_trials, config.repeats, 0));
}

std::vector<Bracket> AdaptiveAshaBrackets(const SearcherConfig& config) {
  const std::vector<std::int64_t> rungs = BracketRungs(config);
  std::vector<Bracket> brackets(rungs.size());
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    brackets[i].rungs =
        RungLengths(config.max_length, config.divisor, rungs[i]);
  }
  ShareTrials(config.max_trials, config.divisor, rungs, brackets);
  ShareConcurrency(config.max_concurrent_trials, config.divisor, brackets);
  return brackets;
}

std::vector<Bracket> PlanBrackets(const SearcherConfig& config) {
  const SearcherEntry* entry = FindSearcher(config.name);
  if (entry == nullptr || entry->brackets == nullptr) return {};
  return entry->brackets(config);
}

std::int64_t TrialsAtStart(const Bracket& bracket, double divisor) {
  if (bracket.max_concurrent_trials > 0) {
    return std::min(bracket.max_concurrent_trials, bracket.max_trials);
  }
  const double concurrency =
      std::pow(divisor, static_cast<double>(bracket.rungs.size()) - 1);
  const auto most = static_cast<double>(bracket.max_trials);
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(std::min(concurrency, most)), 1);
}

SearchPlan PlanSearch(const SearcherConfig& config,
                      const nlohmann::json& hyperparameters) {
  SearchPlan plan;
  plan.brackets = PlanBrackets(config);
  if (IsModelBased(config)) {
    plan.total_length = SearchBudget(config);
    plan.max_trials = MultiplyAdd(config.max_trials, config.repeats, 0);
    plan.brackets.front().max_trials = plan.max_trials;
    plan.max_seconds = config.budget_seconds;
    return plan;
  }
  std::map<std::int64_t, std::int64_t> trials_at;
  for (const Bracket& bracket : plan.brackets) {
    AddBracket(bracket, config.divisor, trials_at);
  }
  if (plan.brackets.empty()) {
    const SearcherEntry* entry = FindSearcher(config.name);
    trials_at[config.max_length] = entry == nullptr
                                       ? config.max_trials
                                       : entry->trials(config, hyperparameters);
  }
  for (auto& [length, trials] : trials_at) {
    trials = MultiplyAdd(trials, config.repeats, 0);
    plan.rows.push_back({.trials = trials, .length = length});
    plan.max_trials += trials;
  }
  plan.total_length = TotalLength(trials_at);
  return plan;
}

std::int64_t TrialsAtOnce(const SearcherConfig& config,
                          const nlohmann::json& hyperparameters) {
  const SearchPlan plan = PlanSearch(config, hyperparameters);
  if (!plan.brackets.empty()) {
    std::int64_t trials = 0;
    for (const Bracket& bracket : plan.brackets) {
      trials += TrialsAtStart(bracket, config.divisor);
    }
    return trials;
  }
  const std::int64_t all = plan.max_trials;
  const std::int64_t concurrent = config.max_concurrent_trials;
  return concurrent == 0 ? all : std::min(concurrent, all);
}

}  // namespace dtrain
