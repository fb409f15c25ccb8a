// What plots read of the sample store: alpha (1) has the trials 1.1 and 1.2,
// gamma (3) none, and delta (4) validated three at 50 and at 100 batches, 4.2
// best with 0.9 and then 0.75.

#include "engine/app/plot_data.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class PlotDataTest : public testing::Test {
 protected:
  PlotDataTest() {
    FillSampleStore(layout_.root());
    AddAccuracySearch(layout_.root());
  }

  Store Open() const { return Store::OpenForReading(layout_); }
  PlotData Read(const PlotQuery& query) {
    return ReadPlotData(Open(), query, notes_);
  }
  // Returns the values of the metric by trial of one experiment.
  static std::vector<double> Values(const PlotSearch& search,
                                    std::size_t metric = 0) {
    std::vector<double> values;
    for (const PlotTrial& trial : search.trials) {
      values.push_back(trial.values.at(metric));
    }
    return values;
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
  std::vector<std::string> notes_;
};

TEST_F(PlotDataTest, ValuesAreThoseOfThePlaceThatWasAsked) {
  struct Row {
    std::optional<ValuePlace> place;
    std::vector<double> values;
  };
  for (const Row& row :
       {Row{std::nullopt, {0.25, 0.75, 0.6}},
        Row{ValuePlace{.kind = ValuePlace::Kind::kBest}, {0.5, 0.9, 0.6}},
        Row{ValuePlace{.kind = ValuePlace::Kind::kLast}, {0.25, 0.75, 0.6}},
        Row{ValuePlace{.kind = ValuePlace::Kind::kLength, .length = 50},
            {0.5, 0.9, 0.1}}}) {
    const PlotData data = Read({.experiments = {4}, .place = row.place});
    EXPECT_EQ(data.metrics.front().name, "accuracy");
    EXPECT_FALSE(data.metrics.front().smaller_is_better);
    EXPECT_EQ(Values(data.searches.at(0)), row.values) << data.place;
  }
}

TEST_F(PlotDataTest, AnExperimentWithoutTheMetricIsNoted) {
  const PlotData data = Read({.experiments = {4, 1}, .metrics = {"speed:max"}});
  EXPECT_EQ(Values(data.searches.at(0)),
            (std::vector<double>{1100, 2100, 3100}));
  EXPECT_THAT(Values(data.searches.at(1)),
              ElementsAre(testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(notes_,
              ElementsAre("experiment 1 was searched for the smallest loss, "
                          "experiment 4 for the largest accuracy",
                          "experiment 1 has no validation metric 'speed'"));
}

TEST_F(PlotDataTest, ValidationsComeInTheOrderOfTime) {
  const PlotData data = Read({.experiments = {4}, .validations = true});
  std::vector<std::pair<std::int64_t, double>> found;  // batches, value
  for (const Observation& one : data.searches.at(0).validations) {
    found.emplace_back(one.batches, one.value);
  }
  EXPECT_THAT(found,
              ElementsAre(Pair(50, 0.5), Pair(50, 0.9), Pair(50, 0.1),
                          Pair(100, 0.25), Pair(100, 0.75), Pair(100, 0.6)));
}

TEST_F(PlotDataTest, RefusesWhatNoTrialHas) {
  struct Row {
    PlotQuery query;
    std::string error;
  };
  for (const Row& row :
       {Row{{.experiments = {9}}, "no experiment 9"},
        Row{{.experiments = {4}, .metrics = {"beauty:min"}},
            "has no validation metric 'beauty'; it has accuracy, speed"},
        Row{{.experiments = {4, 1}, .metrics = {"beauty:min"}},
            "none of these experiments has a validation metric 'beauty'"},
        Row{{.experiments = {4},
        .place = ValuePlace{.kind = ValuePlace::Kind::kLength, .length = 7}},
            "has no validation at 7 batches"},
        Row{{.experiments = {4}, .group = "beauty"},
            "--group: no trial has a hyperparameter 'beauty'; they have batch, "
            "lr"}}) {
    try {
      Read(row.query);
      ADD_FAILURE() << row.error;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
      EXPECT_THAT(error.what(), HasSubstr(row.error));
    }
  }
}

TEST_F(PlotDataTest, CurvesAreByTrialAndKind) {
  const auto read = [this](std::optional<std::int64_t> trial, CurveAxis axis) {
    return ReadCurves(Open(), 1, trial, {"loss"}, axis, {});
  };
  EXPECT_THAT(read({}, CurveAxis::kBatches), testing::SizeIs(4));
  const std::vector<TrialCurve> one = read(1, CurveAxis::kBatches);
  ASSERT_THAT(one, testing::SizeIs(2));
  EXPECT_EQ(one[0].kind, MetricKind::kTraining);
  EXPECT_THAT(one[0].points, ElementsAre(CurvePoint(100, 1.75)));
  EXPECT_THAT(one[1].points, ElementsAre(CurvePoint(100, 0.75)));
  EXPECT_THAT(read(1, CurveAxis::kEpochs)[1].points,
              ElementsAre(CurvePoint(0.5, 0.75)));
  EXPECT_THAT(read(1, CurveAxis::kSeconds)[1].points,
              ElementsAre(CurvePoint(1.0001, 0.75)));
}

TEST_F(PlotDataTest, RungsHaveTheLengthsOfAllBrackets) {
  struct Row {
    std::string searcher;
    std::vector<std::string> lengths;
  };
  std::int64_t id = 4;
  for (const Row& row :
       {Row{"name: async_halving, num_rungs: 2", {"4 epochs", "16 epochs"}},
        Row{"name: adaptive_asha, bracket_rungs: [3, 2]",
            {"1 or 4 epochs", "4 or 16 epochs", "16 epochs"}}}) {
    const ConfigResult config = ReadConfig(
        "name: rungs\nentrypoint: builtin:FaultTrial\n"
        "searcher: {metric: loss, max_length: {epochs: 16}, max_trials: 30, "
        "divisor: 4, " +
            row.searcher + "}\n",
        {.file_name = "rungs.yaml"});
    Store::OpenForWriting(layout_).Write([&](StoreWriter& writer) {
      writer.AddExperiment({.name = "rungs",
                            .searcher = "asha",
                            .metric = "loss",
                            .config = config.config.value().effective,
                            .created = Timestamp(1)});
    });
    EXPECT_EQ(ReadRungs(Open(), {++id}, {}).searches.at(0).rung_lengths,
              row.lengths);
  }
}

TEST_F(PlotDataTest, RunsBeginWithTheStartOfTheTrial) {
  TrialRow trial{.id = {1, 1}};
  EXPECT_THAT(ComputeRuns(trial, {}, Timestamp(0)), IsEmpty());
  trial.started = Timestamp(2'000'000);
  trial.runs = 2;
  RunTimes reports;
  reports.Add(3, 1);
  reports.Add(5, 2);
  reports.Add(6, 2);
  const auto spans = [&] {
    std::vector<std::pair<double, double>> found;
    for (const Span& span : ComputeRuns(trial, reports, Timestamp(0))) {
      found.emplace_back(span.begin, span.end);
    }
    return found;
  };
  EXPECT_THAT(spans(), ElementsAre(Pair(2, 3), Pair(5, 6)));
  // A failure ends the last run.
  trial.state = State::kError;
  trial.ended = Timestamp(9'000'000);
  EXPECT_THAT(spans(), ElementsAre(Pair(2, 3), Pair(5, 9)));
}

TEST_F(PlotDataTest, NamesAtMostTwenty) {
  EXPECT_EQ(KnownMetrics({}), "; it has no metrics yet");
  EXPECT_EQ(KnownMetrics({"a", "b"}), "; it has a, b");
  const std::string many =
      ListNames(std::vector<std::string>(500, std::string(1'000, 'm')));
  EXPECT_LT(many.size(), 2'000U);
  EXPECT_THAT(many, EndsWith(" and 480 more"));
}

}  // namespace
}  // namespace dtrain
