// Metrics that are no numbers, missing, or reported twice.

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::Each;
using testing::HasSubstr;

struct Special {
  const char* name;
  const char* fault;
  const char* smaller_is_better;
  const char* value;     // of the loss at batch 40
  std::int64_t best_at;  // of the validations at 20, 40 and 60
};

void PrintTo(const Special& special, std::ostream* out) {
  *out << special.name;
}

std::string SingleSearch(const std::string& metric,
                         const std::string& smaller_is_better) {
  return "{name: single, metric: " + metric +
         ", smaller_is_better: " + smaller_is_better + ", max_length: 60}";
}

std::string RandomSearch(const std::string& metric) {
  return "{name: random, max_trials: 1, metric: " + metric +
         ", max_length: 60}";
}

std::string Yaml(const std::string& hparams, const std::string& searcher) {
  return "entrypoint: builtin:FaultTrial\nhyperparameters: {once: false, " +
         hparams + "}\nsearcher: " + searcher +
         "\nscheduling_unit: 10\nmin_validation_period: 20\nmax_restarts: 1\n"
         "resources: {slots: cpu}\n";
}

class SpecialMetricTest : public FaultRun,
                          public testing::WithParamInterface<Special> {};

TEST_P(SpecialMetricTest, IsRecordedButNeverTheBest) {
  const Special& special = GetParam();
  const CliResult result =
      Create(Yaml(std::string(special.fault) + ": 40",
                  SingleSearch("loss", special.smaller_is_better)),
             {"--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Trial().at("best").at("batches"), special.best_at);
  EXPECT_EQ(Values("validation", "loss").at(1), special.value);
  EXPECT_EQ(Trial().at("restarts"), 0);
}

// python's json, told to take no NaN or Infinity outside a string.
TEST_P(SpecialMetricTest, KeepsEveryDocumentValid) {
  ASSERT_EQ(Create(Yaml(std::string(GetParam().fault) + ": 60",
                        SingleSearch("loss", GetParam().smaller_is_better)))
                .code,
            0);
  const CliResult result = Shell(
      "for c in list 'describe 1' 'trials 1' 'best 1' 'metrics 1' "
      "'checkpoints 1' 'logs 1' 'resume 1'; do dtrain $c --json 2>/dev/null | "
      "python3 -c 'import json, sys; json.load(sys.stdin, "
      "parse_constant=lambda c: sys.exit(c))' || echo $c; done");
  EXPECT_EQ(result.out, "") << result.err;
  EXPECT_EQ(Trial().at("latest").at("value"), GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    Values, SpecialMetricTest,
    testing::Values(
        Special{"NanWhereLessIsBetter", "nan_at", "true", "NaN", 60},
        Special{"NanWhereMoreIsBetter", "nan_at", "false", "NaN", 20},
        Special{"InfinityWhereLessIsBetter", "inf_at", "true", "Infinity", 60},
        Special{"InfinityWhereMoreIsBetter", "inf_at", "false", "Infinity",
                20}),
    [](const auto& info) { return info.param.name; });

class MetricFaultsTest : public FaultRun {};

// acc = 1 - loss: where the loss is infinite, acc is minus infinity.
TEST_F(MetricFaultsTest, MinusInfinityIsNeverTheLeast) {
  ASSERT_EQ(Create(Yaml("inf_at: 40", SingleSearch("acc", "true"))).code, 0);
  EXPECT_EQ(Values("validation", "acc").at(1), "-Infinity");
  EXPECT_EQ(Trial().at("best").at("batches"), 20);
}

TEST_F(MetricFaultsTest, AshaRanksNanLast) {
  const CliResult result =
      Create(Yaml("x: 0.3, nan_at: {type: categorical, vals: [-1, 8]}",
                  "{name: asha, metric: loss, max_trials: 12, num_rungs: 2, "
                  "divisor: 2, max_length: 16, max_concurrent_trials: 1}"),
             {"--set", "reproducibility.experiment_seed=3"});
  ASSERT_EQ(result.code, 0) << result.err;
  int diverged = 0;
  int promoted = 0;
  for (const json& trial : Trials()) {
    const bool is_nan = trial.at("hparams").at("nan_at") == 8;
    diverged += is_nan ? 1 : 0;
    promoted += is_nan && trial.at("rung") == 2 ? 1 : 0;
  }
  EXPECT_GT(diverged, 2);
  EXPECT_LT(diverged, 7) << "at least half of them must be sound";
  EXPECT_EQ(promoted, 0);
}

struct Valueless {
  const char* name;
  const char* fault;
  const char* searcher;
  const char* rules;
  int code;
};

void PrintTo(const Valueless& valueless, std::ostream* out) {
  *out << valueless.name;
}

class ValuelessSearchTest : public FaultRun,
                            public testing::WithParamInterface<Valueless> {};

TEST_P(ValuelessSearchTest, EndsByTheRulesOfItsExperiment) {
  const Valueless& valueless = GetParam();
  const CliResult result = Create(
      Yaml(std::string("x: {type: int, minval: 1, maxval: 2}, ") +
               valueless.fault,
           "{" + std::string(valueless.searcher) +
               ", metric: loss, max_length: 4, max_concurrent_trials: 1}"),
      {"--set", std::string("rules=") + valueless.rules});
  EXPECT_EQ(result.code, valueless.code) << result.err;
  EXPECT_EQ(
      result.err.find("no trial has a finite 'loss'") != std::string::npos,
      valueless.code == 1)
      << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Searches, ValuelessSearchTest,
    testing::Values(
        Valueless{"Random", "nan_at: 4", "name: random, max_trials: 2", "2", 1},
        Valueless{"Grid", "inf_at: 4", "name: grid", "2", 1},
        Valueless{"Asha", "nan_at: 2",
                  "name: asha, max_trials: 4, num_rungs: 2, divisor: 2", "2",
                  1},
        Valueless{"Stopping", "nan_at: 1",
                  "name: asha, max_trials: 4, num_rungs: 2, stop_once: true",
                  "2", 1},
        Valueless{"OneFinite", "nan_at: {type: categorical, vals: [-1, 4]}",
                  "name: grid", "2", 0},
        Valueless{"Recorded", "nan_at: 4", "name: random, max_trials: 2", "1",
                  0}),
    [](const auto& info) { return info.param.name; });

// Nothing is searched.
TEST_F(MetricFaultsTest, SingleTrialTrainsOnWithoutTheMetric) {
  const CliResult result = Create(Yaml("x: 0", SingleSearch("los", "true")));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no best: searcher.metric 'los' was not "
                                    "reported; reported: acc, loss;"));
  EXPECT_EQ(Values("validation", "loss").size(), 3);
  EXPECT_EQ(Trial().at("best"), nlohmann::json());
}

TEST_F(MetricFaultsTest, MisspeltMetricFailsAtTheFirstValidation) {
  // Slow enough to be stopped before the second one.
  const CliResult result = Create(Yaml("step_ms: 50", RandomSearch("los")));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("searcher.metric 'los' was not reported; "
                                    "reported: acc, loss;"));
  EXPECT_EQ(Values("validation", "loss").size(), 1);
  EXPECT_EQ(Trial().at("restarts"), 0);
}

TEST_F(MetricFaultsTest, MetricMissingOnceFails) {
  const CliResult result =
      Create(Yaml("skip_metric_at: 40", RandomSearch("loss")));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("searcher.metric 'loss' was not reported; "
                                    "reported: acc;"));
  EXPECT_EQ(Trial().at("state"), "ERROR");
  EXPECT_EQ(Trial().at("restarts"), 0);
}

TEST_F(MetricFaultsTest, NameReportedTwiceHasOneValue) {
  ASSERT_EQ(
      Create(Yaml("x: 0, dup_metric_at: 30", SingleSearch("loss", "true")))
          .code,
      0);
  EXPECT_EQ(Values("training", "lr"), json({0.5, 0.5, 0.0, 0.5, 0.5, 0.5}));
  EXPECT_EQ(Values("training", "loss").size(), 6);
}

}  // namespace
}  // namespace dtrain
