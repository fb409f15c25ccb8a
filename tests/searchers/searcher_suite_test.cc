// Rules that every searcher must follow for any outcome of its trials.

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "searchers/hparam_constraints.h"
#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using nlohmann::json;

struct SearchCase {
  std::string name;
  SearcherConfig config;
  bool constant = false;     // no hyperparameter is searched
  bool conditional = false;  // some depend on others
};

json Space(const SearchCase& search) {
  if (search.constant) return {{"lr", 0.1}};
  json space = json::parse(R"({
    "lr": {"type": "log", "minval": -4, "maxval": -1, "count": 3},
    "net": {"layers": {"type": "int", "minval": 1, "maxval": 4},
            "act": {"type": "categorical", "vals": ["relu", "tanh"]}},
    "batch": 64})");
  if (!search.conditional) return space;
  space["a"] = json::parse(R"({
    "type": "double", "minval": 0, "maxval": 1, "count": 2,
    "when": {"net.act": ["relu"], "net.layers": {"minval": 3}}})");
  space["z"] = json::parse(R"({
    "type": "categorical", "vals": [1, 2], "when": {"a": {"maxval": 0.5}}})");
  return space;
}

// Expects exactly those hyperparameters whose conditions hold in that space.
void ExpectPresent(const json& hparams) {
  const json& net = hparams.at("net");
  const bool a = net.at("act") == "relu" && net.at("layers") >= 3;
  EXPECT_EQ(hparams.contains("a"), a) << hparams;
  EXPECT_EQ(hparams.contains("z"), a && hparams.at("a") <= 0.5) << hparams;
  EXPECT_TRUE(hparams.contains("lr")) << hparams;
}

SearcherConfig Asha(bool stop_once, std::int64_t trials, std::int64_t at_once) {
  return {.name = "async_halving",
          .max_length = 27,
          .max_trials = trials,
          .max_concurrent_trials = at_once,
          .num_rungs = 4,
          .divisor = 3,
          .stop_once = stop_once};
}

SearcherConfig Adaptive(bool stop_once, const std::string& mode) {
  return {.name = "adaptive_asha",
          .max_length = 64,
          .max_trials = 30,
          .max_concurrent_trials = 6,
          .stop_once = stop_once,
          .mode = mode};
}

SearcherConfig With(SearcherConfig config,
                    void (*change)(SearcherConfig& config)) {
  change(config);
  return config;
}

// All trials at once, of which few are created ahead.
SearcherConfig Deferred(SearcherConfig config) {
  config.max_concurrent_trials = 0;
  config.creates_ahead = 2;
  return config;
}

std::vector<SearchCase> ModelBasedCases() {
  const SearcherConfig bayesian{.name = "bayesian_asha",
                                .max_length = 27,
                                .max_trials = 40,
                                .max_concurrent_trials = 4,
                                .num_rungs = 4,
                                .divisor = 3};
  return {
      {"Bayesian", bayesian},
      {"BayesianConstant", bayesian, true},
      {"BayesianOne", With(bayesian, [](auto& c) { c.max_trials = 1; })},
      {"BayesianBySlots",
       With(bayesian, [](auto& c) { c.max_concurrent_trials = 0; })},
      {"BayesianLargerIsBetter",
       With(bayesian, [](auto& c) { c.smaller_is_better = false; })},
      {"BayesianCostLength",
       With(bayesian, [](auto& c) { c.cost = "length"; })},
      {"BayesianEqualRungs", With(bayesian, [](auto& c) { c.max_length = 3; })},
      {"BayesianOneRung", With(bayesian, [](auto& c) { c.num_rungs = 1; })},
      {"BayesianOneRungBudget", With(bayesian,
                                     [](auto& c) {
                                       c.num_rungs = 1;
                                       c.budget = 300;
                                     })},
      {"BayesianBudget", With(bayesian, [](auto& c) { c.budget = 90; })},
      {"BayesianTime", With(bayesian, [](auto& c) { c.budget_seconds = 20; })},
      {"BayesianWithPoints",
       With(bayesian,
            [](auto& c) {
              c.points = {json::parse(
                  R"({"lr": 0.1, "net": {"layers": 1, "act": "relu"}})")};
            })},
      {"BayesianWithPartsOfPoints",
       With(bayesian,
            [](auto& c) {
              c.points = {json::parse(R"({"net": {"act": "relu"}})"),
                          json::parse(R"({"lr": 0.1})")};
            })},
  };
}

bool TakesRepeats(const SearcherConfig& config) {
  return PlanBrackets(config).empty() ||
         (IsModelBased(config) && config.num_rungs == 1);
}

std::vector<SearchCase> MakeCases() {
  const SearcherConfig single{.name = "single", .max_length = 10};
  const SearcherConfig random{.name = "random",
                              .max_length = 10,
                              .max_trials = 12,
                              .max_concurrent_trials = 3};
  const SearcherConfig grid{
      .name = "grid", .max_length = 10, .max_concurrent_trials = 5};
  std::vector<SearchCase> cases = {
      {"Single", single},
      {"SingleConstant", single, true},
      {"SingleStops", With(single,
                           [](auto& c) {
                             c.stops = {2, 5};
                           })},
      {"Random", random},
      {"RandomConstant", random, true},
      {"RandomAllAtOnce",
       With(random, [](auto& c) { c.max_concurrent_trials = 0; })},
      {"RandomWithPoints",
       With(random,
            [](auto& c) {
              c.points = {json::parse(
                  R"({"lr": 0.1, "net": {"layers": 1, "act": "relu"}})")};
            })},
      {"RandomWithPartsOfPoints",
       With(random,
            [](auto& c) {
              c.points = {json::parse(R"({"net": {"act": "relu"}})"),
                          json::parse(R"({"lr": 0.1})")};
            })},
      {"Grid", grid},
      {"GridAllAtOnce",
       With(grid, [](auto& c) { c.max_concurrent_trials = 0; })},
      {"Promotion", Asha(false, 20, 4)},
      {"PromotionOne", Asha(false, 1, 16)},
      {"PromotionUnbounded", Asha(false, 40, 0)},
      {"PromotionConstant", Asha(false, 20, 4), true},
      {"PromotionLargerIsBetter",
       With(Asha(false, 20, 4), [](auto& c) { c.smaller_is_better = false; })},
      {"PromotionEqualRungs",
       With(Asha(false, 20, 4), [](auto& c) { c.max_length = 3; })},
      {"Stopping", Asha(true, 20, 4)},
      {"StoppingUnbounded", Asha(true, 40, 0)},
      {"StoppingConstant", Asha(true, 20, 4), true},
      {"AdaptiveConservative", Adaptive(false, "conservative")},
      {"AdaptiveStandard", Adaptive(false, "standard")},
      {"AdaptiveAggressive", Adaptive(true, "aggressive")},
      {"AdaptiveStopping", Adaptive(true, "conservative")},
      {"AdaptiveBracketRungs", With(Adaptive(false, "standard"),
                                    [](auto& c) {
                                      c.bracket_rungs = {1, 3, 9, 2};
                                    })},
      {"RandomDeferred", Deferred(random)},
      {"GridDeferred", Deferred(grid)},
      {"PromotionDeferred", Deferred(Asha(false, 40, 0))},
      {"StoppingDeferred", Deferred(Asha(true, 40, 0))},
      {"AdaptiveDeferred", Deferred(Adaptive(false, "standard"))},
  };
  const std::vector<SearchCase> model_based = ModelBasedCases();
  cases.insert(cases.end(), model_based.begin(), model_based.end());
  // Each of the methods that can train a point several times.
  for (const SearchCase& search : std::vector<SearchCase>(cases)) {
    if (!TakesRepeats(search.config)) continue;
    SearchCase repeated = search;
    repeated.name = "Repeated" + search.name;
    repeated.config.repeats = 3;
    cases.push_back(repeated);
  }
  // One case for every method, also for those without cases above.
  for (const SearcherEntry& entry : SearcherTable()) {
    cases.push_back({"Default_" + std::string(entry.name),
                     {.name = std::string(entry.name),
                      .max_length = 27,
                      .max_trials = 12,
                      .max_concurrent_trials = 3}});
    cases.push_back({.name = "Conditional_" + std::string(entry.name),
                     .config = cases.back().config,
                     .conditional = true});
    if (entry.keys.find("constraints") == entry.keys.npos) continue;
    cases.push_back({.name = "Constrained_" + std::string(entry.name),
                     .config = cases.back().config,
                     .conditional = true});
    cases.back().config.constraints = {
        "net.layers < 4", "net.act == relu or net.layers > 1", "a < 0.9"};
  }
  return cases;
}

// Created once per process: the names of all tests come from them.
const std::vector<SearchCase>& Cases() {
  static const std::vector<SearchCase> cases = MakeCases();
  return cases;
}

// Runs a search with results, failures and an order drawn from a seed, and
// checks the rules at every step.
class Play {
 public:
  Play(const SearchCase& search, std::uint32_t seed)
      : search_(search),
        space_(Space(search)),
        constraints_(space_, search.config.constraints),
        dice_(seed) {
    searcher_ = NewSearcher();
    at_once_ = TrialsAtOnce(search.config, space_);
  }

  std::unique_ptr<Searcher> NewSearcher() const {
    return MakeSearcher(search_.config, space_, /*seed=*/5);
  }

  bool save_at_every_event = false;
  unsigned failing = 0;  // in 100 operations
  // Extends the search by this many trials after this number of steps, or at
  // its end if that comes first.
  std::int64_t more = 0;
  int steps_before = 0;
  bool retry_at_end = false;  // once

  void Run() {
    Send(Started{});
    for (int step = 0; step < 100'000; ++step) {
      if (more > 0 && (over_ || step == steps_before)) Extend();
      if (over_ && retry_at_end) Retry();
      if (over_) break;
      ASSERT_FALSE(busy_.empty()) << "the search has no pending operation";
      auto next = busy_.begin();
      std::advance(next, dice_() % busy_.size());
      Step(*next);
    }
    ASSERT_TRUE(over_) << "the search does not end";
    EXPECT_EQ(progress_, 1);
    EXPECT_EQ(live_.size(), 0u);
  }

  const json& transcript() const { return transcript_; }
  std::size_t created() const { return lengths_.size(); }
  std::int64_t total_length() const {
    return std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0});
  }
  std::size_t invalid() const { return invalid_; }
  std::size_t errored() const { return errored_; }
  bool failed() const { return failed_; }
  // Every length that was asked for.
  const std::set<std::int64_t>& asked() const { return asked_; }

  // Hyperparameters, identifiers and seeds, by trial.
  json Creates() const {
    json creates = json::array();
    for (const json& row : transcript_) {
      if (row.value("operation", "") == "create") creates.push_back(row);
    }
    return creates;
  }

 private:
  void Extend() {
    const std::int64_t trials = search_.config.max_trials + more;
    const SearcherConfig plan = ExtendPlan(search_.config, trials);
    at_once_ = TrialsAtOnce(plan, space_);
    more = 0;
    over_ = false;
    progress_ = 0;
    Send(Extended{trials, plan.budget, plan.budget_seconds, {}});
  }

  void Retry() {
    Retried retried;
    for (const TrialIndex trial : std::exchange(failed_trials_, {})) {
      retried.trials.push_back({trial, done_[trial]});
    }
    errored_ = 0;
    failing = 0;
    retry_at_end = over_ = false;
    at_once_ = static_cast<std::int64_t>(lengths_.size());
    progress_ = 0;
    Send(retried);
  }

  void Step(TrialIndex trial) {
    std::vector<std::int64_t>& todo = todo_[trial];
    const bool fails = dice_() % 100 < failing;
    if (fails) return Fail(trial);
    if (todo.empty()) {
      busy_.erase(trial);
      live_.erase(trial);
      return Send(Closed{trial});
    }
    const std::int64_t length = todo.front();
    todo.erase(todo.begin());
    if (todo.empty() && !closing_.contains(trial)) busy_.erase(trial);
    done_[trial] = length;
    const double seconds = static_cast<double>(dice_() % 8) / 4;
    const double metric = Metric();
    if (todo.empty() && !std::isfinite(metric)) not_finite_.insert(trial);
    Send(ValidationCompleted{trial, length, metric, seconds});
  }

  void Fail(TrialIndex trial) {
    const auto reason = static_cast<ExitReason>(dice_() % 3);
    busy_.erase(trial);
    live_.erase(trial);
    todo_[trial].clear();
    invalid_ += reason == ExitReason::kInvalidHp;
    if (reason == ExitReason::kErrored) {
      ++errored_;
      failed_trials_.push_back(trial);
      lengths_.at(trial) = done_[trial];
    }
    Send(ExitedEarly{trial, reason});
  }

  double Metric() {
    const unsigned kind = dice_() % 20;
    if (kind == 0) return std::numeric_limits<double>::quiet_NaN();
    if (kind == 1) return -std::numeric_limits<double>::infinity();
    return static_cast<double>(dice_() % 50);
  }

  void Send(const Event& event) {
    const auto operations = searcher_->Handle(event);
    transcript_.push_back(ToJson(event));
    for (const Operation& operation : operations) {
      transcript_.push_back(ToJson(operation));
      Handle(operation);
    }
    EXPECT_GE(searcher_->Progress(), progress_);
    EXPECT_LE(searcher_->Progress(), 1);
    progress_ = searcher_->Progress();
    EXPECT_LE(static_cast<std::int64_t>(busy_.size()), at_once_ + closes_);
    if (!save_at_every_event) return;
    const json state = json::parse(searcher_->Save().dump());
    searcher_ = NewSearcher();
    searcher_->Load(state);
    EXPECT_EQ(searcher_->Save(), state);
  }

  void Handle(const Operation& operation) {
    ASSERT_FALSE(over_) << "an operation after Shutdown";
    if (const auto* create = std::get_if<Create>(&operation)) {
      EXPECT_EQ(create->trial, static_cast<TrialIndex>(lengths_.size()));
      if (search_.conditional) ExpectPresent(create->hparams);
      EXPECT_TRUE(constraints_.Hold(create->hparams)) << create->hparams;
      lengths_.push_back(0);
      live_.insert(create->trial);
    } else if (const auto* more = std::get_if<ValidateAfter>(&operation)) {
      EXPECT_TRUE(live_.contains(more->trial));
      EXPECT_FALSE(closing_.contains(more->trial));
      EXPECT_FALSE(not_finite_.contains(more->trial));
      EXPECT_GT(more->length, lengths_.at(more->trial));
      EXPECT_LE(more->length, search_.config.max_length);
      lengths_.at(more->trial) = more->length;
      asked_.insert(more->length);
      todo_[more->trial].push_back(more->length);
      busy_.insert(more->trial);
    } else if (const auto* close = std::get_if<Close>(&operation)) {
      EXPECT_TRUE(live_.contains(close->trial));
      EXPECT_TRUE(closing_.insert(close->trial).second);
      busy_.insert(close->trial);
      ++closes_;
    } else if (const auto* reopen = std::get_if<Reopen>(&operation)) {
      EXPECT_TRUE(live_.insert(reopen->trial).second);
      closing_.erase(reopen->trial);
    } else {
      over_ = true;
      failed_ = std::get<Shutdown>(operation).failed;
    }
  }

  SearchCase search_;
  json space_;
  HparamConstraints constraints_;
  std::mt19937 dice_;
  std::unique_ptr<Searcher> searcher_;
  std::int64_t at_once_ = 0;
  json transcript_ = json::array();
  std::vector<std::int64_t> lengths_;  // latest requested length, by trial
  std::set<std::int64_t> asked_;
  std::map<TrialIndex, std::int64_t> done_;  // length completed
  std::vector<TrialIndex> failed_trials_;    // with an error
  std::map<TrialIndex, std::vector<std::int64_t>> todo_;
  std::set<TrialIndex> not_finite_;  // last value before another length
  std::set<TrialIndex> busy_;        // have an operation
  std::set<TrialIndex> live_;        // have not ended
  std::set<TrialIndex> closing_;     // have a Close
  std::int64_t closes_ = 0;
  double progress_ = 0;
  std::size_t invalid_ = 0;
  std::size_t errored_ = 0;
  bool over_ = false;
  bool failed_ = false;
};

using SuiteParameter = std::tuple<int, std::uint32_t>;

class SearcherSuiteTest : public testing::TestWithParam<SuiteParameter> {
 protected:
  SearchCase search() const { return Cases().at(std::get<0>(GetParam())); }
  std::uint32_t seed() const { return std::get<1>(GetParam()); }

  SearchPlan plan() const {
    return PlanSearch(search().config, Space(search()));
  }

  // Number of trials, without invalid ones.
  std::size_t Planned() const {
    return static_cast<std::size_t>(plan().max_trials);
  }

  // A model decides how many trials share the budget. The last decision may
  // exceed it by less than a rung of all repeats.
  void ExpectWithinBudget(const Play& play) const {
    const std::int64_t budget = plan().total_length;
    EXPECT_GE(play.created(), 1u);
    EXPECT_LE(play.created(), Planned());
    if (budget == 0) return;
    const SearcherConfig& config = search().config;
    EXPECT_LT(play.total_length(), budget + config.repeats * config.max_length);
    if (play.created() < Planned()) {
      EXPECT_GE(play.total_length(), budget);
    }
  }
};

TEST_P(SearcherSuiteTest, EndsWithAllItsTrials) {
  Play play(search(), seed());

  play.Run();

  if (IsModelBased(search().config)) {
    ExpectWithinBudget(play);
  } else {
    EXPECT_EQ(play.created(), Planned());
  }
  EXPECT_FALSE(play.failed());
}

TEST_P(SearcherSuiteTest, NeverExceedsItsTrialsIfSomeFail) {
  Play play(search(), seed());
  play.failing = 30;

  play.Run();

  EXPECT_LE(play.created(), Planned() + play.invalid());
  EXPECT_EQ(play.failed(), play.created() == play.errored() + play.invalid());
}

TEST_P(SearcherSuiteTest, EndsIfAllFail) {
  Play play(search(), seed());
  play.failing = 100;

  play.Run();
}

TEST_P(SearcherSuiteTest, IsDeterministic) {
  Play first(search(), seed());
  Play second(search(), seed());
  first.failing = second.failing = 20;

  first.Run();
  second.Run();

  EXPECT_EQ(first.transcript(), second.transcript());
}

TEST_P(SearcherSuiteTest, SavingAndLoadingChangesNothing) {
  Play plain(search(), seed());
  Play saved(search(), seed());
  plain.failing = saved.failing = 20;
  saved.save_at_every_event = true;

  plain.Run();
  saved.Run();

  EXPECT_EQ(plain.transcript(), saved.transcript());
}

// At any moment, with failures or without: all trials of the larger plan, and
// no length that is not one of the rungs.
TEST_P(SearcherSuiteTest, ExtendedIsAsIfCreatedLarger) {
  const SearcherEntry& entry = *FindSearcher(search().config.name);
  if (entry.keys.find("max_trials") == entry.keys.npos) return;
  constexpr std::int64_t kMore = 25;
  SearchCase larger = search();
  larger.config = ExtendPlan(larger.config, larger.config.max_trials + kMore);
  for (const int steps : {7, 100'000}) {
    Play extended(search(), seed());
    extended.more = kMore;
    extended.steps_before = steps;
    extended.failing = seed() == 1 ? 10 : 0;
    extended.save_at_every_event = seed() == 2;

    extended.Run();

    std::set<std::int64_t> rungs = {larger.config.max_length};
    for (const Bracket& bracket : PlanBrackets(larger.config)) {
      rungs.insert(bracket.rungs.begin(), bracket.rungs.end());
    }
    EXPECT_THAT(rungs, testing::IsSupersetOf(extended.asked()));
    if (entry.model_based || extended.invalid() > 0) continue;
    Play created(larger, seed());
    created.Run();
    EXPECT_EQ(extended.Creates(), created.Creates());
  }
}

// A bracket whose share of the larger number is smaller than what it has.
TEST(ExtendedAdaptiveTest, HasTheTrialsOfItsPlan) {
  for (const std::string mode : {"standard", "conservative"}) {
    for (std::int64_t trials = 14; trials < 76; ++trials) {
      SearcherConfig config = Adaptive(false, mode);
      config.max_trials = trials;
      Play extended({"", config}, 1);
      extended.more = 1;
      extended.steps_before = 100'000;

      extended.Run();

      EXPECT_EQ(extended.created(), static_cast<std::size_t>(trials + 1));
    }
  }
}

// Every trial that failed is trained again in its place, and replays.
TEST_P(SearcherSuiteTest, RetriedTrialsTakeTheirPlace) {
  Play retried(search(), seed());
  Play saved(search(), seed());
  for (Play* play : {&retried, &saved}) {
    play->failing = 20;
    play->retry_at_end = true;
  }
  saved.save_at_every_event = true;

  retried.Run();
  saved.Run();

  EXPECT_EQ(retried.transcript(), saved.transcript());
  EXPECT_EQ(retried.errored(), 0u);
  EXPECT_LE(retried.created(), Planned() + retried.invalid());
}

TEST_P(SearcherSuiteTest, RefusesAnInvalidState) {
  const auto searcher = Play(search(), seed()).NewSearcher();

  EXPECT_THROW(searcher->Load({{"trials", 5}}), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(
    All, SearcherSuiteTest,
    testing::Combine(testing::Range(0, static_cast<int>(Cases().size())),
                     testing::Range(1u, kSanitized ? 2u : 4u)),
    [](const auto& info) {
      return Cases().at(std::get<0>(info.param)).name + "_" +
             std::to_string(std::get<1>(info.param));
    });

}  // namespace
}  // namespace dtrain
