#include "searchers/repeats.h"

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "searchers/registry.h"
#include "searchers/search_plan.h"
#include "searchers/simulation.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

json Space() {
  return json::parse(R"({
    "lr": {"type": "log", "minval": -4, "maxval": -1, "count": 3},
    "act": {"type": "categorical", "vals": ["relu", "tanh"]}})");
}

std::vector<SearcherConfig> Methods() {
  const SearcherConfig plain{
      .max_length = 10, .max_trials = 12, .max_concurrent_trials = 3};
  std::vector<SearcherConfig> methods;
  for (const std::string name : {"single", "random", "grid", "bayesian_asha"}) {
    methods.push_back(plain);
    methods.back().name = name;
    if (name == "bayesian_asha") methods.back().num_rungs = 1;
  }
  return methods;
}

std::vector<Create> Creates(const Simulation& simulation) {
  std::vector<Create> creates;
  for (const SimulatedTrial& trial : simulation.trials) {
    creates.push_back(trial.created);
  }
  return creates;
}

TEST(CombineRepeatsTest, CombinesByEachWordInAnyOrder) {
  const std::vector<double> values = {0.5, 0.1, 0.2, 0.8};
  const std::vector<double> other = {0.8, 0.2, 0.5, 0.1};
  const std::map<std::string, double> expected = {
      {"mean", 0.4}, {"median", 0.35}, {"min", 0.1}, {"max", 0.8}};
  for (const auto& [word, value] : expected) {
    EXPECT_DOUBLE_EQ(*CombineRepeats(word, values), value) << word;
    EXPECT_EQ(CombineRepeats(word, values), CombineRepeats(word, other));
    EXPECT_EQ(CombineRepeats(word, {}), std::nullopt);
  }
  EXPECT_EQ(CombineRepeats("median", {3, 1, 2}), 2);
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(CombineRepeats("mean", {most, most}), most);
  EXPECT_EQ(CombineRepeats("median", {most, most}), most);
}

TEST(RepeatedSearcherTest, FirstRepeatsAreTheTrialsOfASearchWithoutRepeats) {
  for (SearcherConfig config : Methods()) {
    if (config.name == "bayesian_asha") continue;  // compares their values
    const SimulationOptions options{.metric = FindSimulatedMetric("hash")};
    const auto plain = MakeSearcher(config, Space(), 5);
    const std::vector<Create> points = Creates(Simulate(*plain, options));
    config.repeats = 3;
    const auto searcher = MakeSearcher(config, Space(), 5);

    const std::vector<Create> trials = Creates(Simulate(*searcher, options));

    ASSERT_EQ(trials.size(), 3 * points.size()) << config.name;
    std::set<std::uint32_t> seeds;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const Create& point = points[i / 3];
      const std::int64_t repeat = static_cast<std::int64_t>(i) % 3 + 1;
      EXPECT_EQ(trials[i].hparams, point.hparams);
      EXPECT_EQ(trials[i].seed, RepeatSeed(point.seed, repeat));
      EXPECT_LT(trials[i].seed, 1u << 31);
      seeds.insert(trials[i].seed);
      ids.insert(trials[i].request_id);
      if (repeat > 1) continue;
      EXPECT_EQ(trials[i].seed, point.seed);
      EXPECT_EQ(trials[i].request_id, point.request_id);
    }
    EXPECT_EQ(seeds.size(), trials.size()) << config.name;
    EXPECT_EQ(ids.size(), trials.size()) << config.name;
  }
}

TEST(RepeatedSearcherTest, OneRepeatIsTheSearchItself) {
  for (const SearcherConfig& config : Methods()) {
    for (const SimulationOrder order :
         {SimulationOrder::kRoundRobin, SimulationOrder::kSequential}) {
      const SimulationOptions options{
          .metric = FindSimulatedMetric("hash"),
          .order = order,
          .exits = {{.trial = 1, .after = 0},
                    {.trial = 2, .after = 0, .reason = ExitReason::kInvalidHp},
                    {.trial = 4, .after = 0, .reason = ExitReason::kUserStop}},
          .seconds_per_unit = 0.5};
      const auto plain = MakeSearcher(config, Space(), 5);
      const Simulation expected = Simulate(*plain, options);
      const auto searcher = MakeRepeatedSearcher(
          MakeSearcher(config, Space(), 5), config, Space());

      const Simulation simulation = Simulate(*searcher, options);

      EXPECT_EQ(Creates(simulation), Creates(expected)) << config.name;
      EXPECT_EQ(simulation.failed, expected.failed);
      for (std::size_t i = 0; i < expected.trials.size(); ++i) {
        EXPECT_EQ(simulation.trials[i].lengths, expected.trials[i].lengths);
      }
    }
  }
}

// Ends one trial after another of the first point that has one, the first or
// the last of its repeats first. The third point's repeats fail, and two of the
// second's.
std::vector<Create> RunInOrder(const SearcherConfig& config, bool last_first) {
  const auto searcher = MakeSearcher(config, Space(), 5);
  std::vector<Create> creates;
  std::map<std::int64_t, std::set<TrialIndex>> open;  // by point
  const auto send = [&](const Event& event) {
    for (const Operation& operation : searcher->Handle(event)) {
      const auto* create = std::get_if<Create>(&operation);
      if (create == nullptr) continue;
      creates.push_back(*create);
      open[create->trial / config.repeats].insert(create->trial);
    }
  };
  send(Started{});
  while (!open.empty()) {
    auto& [point, trials] = *open.begin();
    const TrialIndex trial = last_first ? *trials.rbegin() : *trials.begin();
    const std::int64_t number = point;
    trials.erase(trial);
    if (trials.empty()) open.erase(open.begin());
    if (number == 2 || (number == 1 && trial % config.repeats < 2)) {
      send(ExitedEarly{trial, trial % 2 == 0 ? ExitReason::kErrored
                                             : ExitReason::kInvalidHp});
      continue;
    }
    send(ValidationCompleted{trial, config.max_length,
                             static_cast<double>(trial * 7919 % 1009) / 3, 1});
    send(Closed{trial});
  }
  return creates;
}

TEST(RepeatedSearcherTest, TheOrderOfRepeatsChangesNothing) {
  for (SearcherConfig config : Methods()) {
    config.repeats = 4;
    config.max_concurrent_trials = 4;
    config.max_trials = 20;
    const auto forwards = RunInOrder(config, /*last_first=*/false);
    const auto backwards = RunInOrder(config, /*last_first=*/true);

    EXPECT_EQ(forwards, backwards) << config.name;
    EXPECT_GE(forwards.size(), 4u);
  }
}

// A search for points that records what it receives.
class RecordingSearcher final : public Searcher {
 public:
  RecordingSearcher(std::int64_t points, json& events)
      : points_(points), events_(events) {}

  std::vector<Operation> Handle(const Event& event) override {
    events_.push_back(ToJson(event));
    std::vector<Operation> operations;
    if (std::get_if<Started>(&event) == nullptr) return operations;
    for (TrialIndex point = 0; point < points_; ++point) {
      operations.push_back(Create{point, "id", {{"lr", point}}, 7});
      operations.push_back(ValidateAfter{point, 5});
      operations.push_back(ValidateAfter{point, 10});
    }
    return operations;
  }
  double Progress() const override { return 0; }
  json Save() const override { return nullptr; }
  void Load(const json&) override {}

 private:
  std::int64_t points_;
  json& events_;
};

class PointResultTest : public testing::Test {
 protected:
  void Make(const std::string& metric, std::int64_t points = 1) {
    const SearcherConfig config{.name = "random",
                                .max_length = 10,
                                .max_trials = points,
                                .max_concurrent_trials = 0,
                                .repeats = 3,
                                .repeat_metric = metric};
    searcher_ = MakeRepeatedSearcher(
        std::make_unique<RecordingSearcher>(points, events_), config, {});
    (void)searcher_->Handle(Started{});
    events_.clear();
  }
  void Close(TrialIndex trial, double value) {
    (void)searcher_->Handle(ValidationCompleted{trial, 5, 1000, 1});
    (void)searcher_->Handle(ValidationCompleted{trial, 10, value, 1});
    (void)searcher_->Handle(Closed{trial});
  }
  void Exit(TrialIndex trial, ExitReason reason) {
    (void)searcher_->Handle(ExitedEarly{trial, reason});
  }

  std::unique_ptr<Searcher> searcher_;
  json events_ = json::array();  // that the search for points has received
};

TEST_F(PointResultTest, IsOneValueWhenTheLastRepeatHasEnded) {
  Make("mean");

  Close(2, 0.1);
  Close(0, 0.2);
  EXPECT_EQ(events_, json::array());
  Close(1, 0.6);

  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[0].at("event"), "validation_completed");
  EXPECT_EQ(events_[0].at("trial"), 0);
  EXPECT_EQ(events_[0].at("length"), 10);
  EXPECT_NEAR(events_[0].at("metric").get<double>(), 0.3, 1e-12);
  EXPECT_EQ(events_[0].at("seconds"), 6);
  EXPECT_EQ(events_[1], ToJson(Event(Closed{0})));
}

TEST_F(PointResultTest, LeavesOutRepeatsWithoutAValue) {
  for (const std::string metric : {"mean", "median", "min", "max"}) {
    Make(metric);

    Exit(0, ExitReason::kErrored);
    Close(1, 0.5);
    Close(2, kNan);

    ASSERT_EQ(events_.size(), 2u) << metric;
    EXPECT_EQ(events_[0].at("metric"), 0.5) << metric;
    EXPECT_EQ(events_[0].at("seconds"), 4);
  }
}

TEST_F(PointResultTest, IsAFailureOnlyIfAllRepeatsFailed) {
  struct Case {
    std::vector<ExitReason> exits;
    std::string reason;
  };
  using enum ExitReason;
  for (const Case& c :
       {Case{{kErrored, kErrored, kErrored}, "errored"},
        Case{{kInvalidHp, kErrored, kInvalidHp}, "errored"},
        Case{{kInvalidHp, kInvalidHp, kInvalidHp}, "invalid_hp"},
        Case{{kErrored, kUserStop, kInvalidHp}, "user_stop"}}) {
    Make("mean");

    for (TrialIndex trial = 0; trial < 3; ++trial) {
      Exit(trial, c.exits[static_cast<std::size_t>(trial)]);
    }

    ASSERT_EQ(events_.size(), 1u);
    EXPECT_EQ(events_[0].at("reason"), c.reason);
  }
}

TEST_F(PointResultTest, IsNanIfNoValueIsANumber) {
  Make("mean");

  Close(0, kNan);
  Close(1, kNan);
  Exit(2, ExitReason::kErrored);

  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[0].at("metric"), "NaN");
}

TEST_F(PointResultTest, IsReplacedWhenAFailedRepeatRunsAgain) {
  Make("mean");
  Close(0, 0.1);
  Exit(1, ExitReason::kErrored);
  Close(2, 0.2);
  events_.clear();

  const auto operations =
      searcher_->Handle(Retried{.trials = {{.trial = 1}}, .lost = {}});

  EXPECT_THAT(operations,
              ElementsAre(Operation(Reopen{1}), Operation(ValidateAfter{1, 5}),
                          Operation(ValidateAfter{1, 10}),
                          Operation(dtrain::Close{1})));
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].at("trials"), json::parse("[[0, 0]]"));
  Close(1, 0.6);
  ASSERT_EQ(events_.size(), 3u);
  EXPECT_NEAR(events_[1].at("metric").get<double>(), 0.3, 1e-12);
  EXPECT_EQ(events_[1].at("seconds"), 2) << "what the point had was counted";
}

TEST_F(PointResultTest, ARetriedTrialContinuesAtItsLength) {
  Make("mean");
  (void)searcher_->Handle(ValidationCompleted{1, 5, 0.3, 1});
  Exit(1, ExitReason::kErrored);

  const auto operations = searcher_->Handle(
      Retried{.trials = {{.trial = 1, .length = 5}}, .lost = {}});

  EXPECT_THAT(operations,
              ElementsAre(Operation(Reopen{1}), Operation(ValidateAfter{1, 10}),
                          Operation(dtrain::Close{1})));
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].at("trials"), json::array()) << "it is not over";
}

// A model decides about a point only when a trial of it may soon run.
TEST(RepeatedSearcherTest, HasFewPointsOpen) {
  SearcherConfig config = Methods().back();
  config.max_trials = 50;
  config.repeats = 3;
  for (const auto& [trials, points] :
       std::map<std::int64_t, std::int64_t>{{1, 1}, {3, 2}, {4, 2}, {5, 3}}) {
    config.max_concurrent_trials = trials;
    EXPECT_EQ(PointSearch(config).max_concurrent_trials, points);
    EXPECT_EQ(TrialsAtOnce(config, Space()), trials);
  }
}

TEST(RepeatedSearcherTest, PlansTrialsAndTheirBudget) {
  SearcherConfig config{.name = "random",
                        .max_length = 10,
                        .max_trials = 4,
                        .max_concurrent_trials = 0,
                        .repeats = 3};
  const SearchPlan random = PlanSearch(config, Space());
  EXPECT_THAT(random.rows, ElementsAre(PlanRow{.trials = 12, .length = 10}));
  EXPECT_EQ(random.total_length, 120);
  EXPECT_EQ(random.max_trials, 12);
  EXPECT_EQ(TrialsAtOnce(config, Space()), 12);
  config.name = "bayesian_asha";
  config.num_rungs = 1;
  const SearchPlan model = PlanSearch(config, Space());
  EXPECT_EQ(model.total_length, 120);
  EXPECT_EQ(model.max_trials, 12);
  EXPECT_EQ(PointSearch(config).budget, 0);
  config.budget = 100;
  EXPECT_EQ(PlanSearch(config, Space()).total_length, 100);
  EXPECT_EQ(PointSearch(config).budget, 34);
}

}  // namespace
}  // namespace dtrain
