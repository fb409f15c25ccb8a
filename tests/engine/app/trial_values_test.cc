// Values of trials at one place: a search of 40 trials that stopped all but 10
// after 100 batches. The loss of trial N is N after 100 batches and 100·N after
// 400. Records are batches of 10, epochs are 10 batches.

#include "engine/app/trial_values.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

template <typename Call>
std::string RefusalText(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(ValuePlaceTest, IsAWordOrALength) {
  EXPECT_EQ(ParseValuePlace("--at", "best").kind, ValuePlace::Kind::kBest);
  EXPECT_EQ(ParseValuePlace("--at", "last").kind, ValuePlace::Kind::kLast);
  const ValuePlace place = ParseValuePlace("--at", "2.5");
  EXPECT_EQ(place.kind, ValuePlace::Kind::kLength);
  EXPECT_EQ(place.length, 2.5);
  for (const char* text : {"0", "-3", "inf", "nan", "best of all", ""}) {
    EXPECT_THAT(
        RefusalText(ErrorKind::kUsage, [&] { ParseValuePlace("--at", text); }),
        HasSubstr("--at: expected best, last or a length above 0"));
  }
}

TEST(MetricGoalTest, HasADirectionUnlessItIsTheSearchersMetric) {
  struct Row {
    const char* text;
    const char* metric;
    bool smaller_is_better;
  };
  const ExperimentRow experiment{.metric = "acc", .smaller_is_better = false};
  for (const auto& [text, metric, smaller] :
       {Row{"acc", "acc", false}, Row{"acc:min", "acc", true},
        Row{"loss:min", "loss", true}, Row{"speed:max", "speed", false},
        Row{"a:b:max", "a:b", false}}) {
    const MetricGoal goal = ParseMetricGoal("--metric", text, experiment);
    EXPECT_EQ(goal.metric, metric) << text;
    EXPECT_EQ(goal.smaller_is_better, smaller) << text;
  }
  for (const std::string text : {"speed", ":min", "speed:mean"}) {
    EXPECT_THAT(
        RefusalText(ErrorKind::kUsage,
                    [&] { ParseMetricGoal("--metric", text, experiment); }),
        HasSubstr("write " + text + ":min or " + text + ":max"));
  }
}

class TrialValuesTest : public testing::Test {
 protected:
  void AddSearch(const std::string& unit, std::int64_t trials = 40) const {
    Store store = Store::OpenForWriting(layout_);
    store.Write([&](StoreWriter& w) {
      const std::int64_t id = w.AddExperiment({.name = "search",
                                               .searcher = "async_halving",
                                               .metric = "loss",
                                               .config = Config(unit),
                                               .created = Timestamp(1)});
      for (std::int64_t number = 1; number <= trials; ++number) {
        const TrialId trial{id, number};
        w.AddTrial({.id = trial,
                    .request_id = "r",
                    .hparams = {{"global_batch_size", 10}}});
        const auto loss = static_cast<double>(number);
        Validate(w, trial, 100, loss);
        if (number <= 10) Validate(w, trial, 400, 100 * loss);
      }
    });
  }

  TrialValues Read(const std::string& metric,
                   const std::optional<ValuePlace>& place = {},
                   const std::vector<std::int64_t>* selected = nullptr) const {
    const Store store = Store::OpenForReading(layout_);
    return ReadTrialValues(store, FindExperimentDetail(store, 1), metric, place,
                           selected);
  }
  TrialValues ReadAt(double length) const {
    return Read("loss", ValuePlace{.kind = ValuePlace::Kind::kLength,
                                   .length = length});
  }

 private:
  static nlohmann::json Config(const std::string& unit) {
    return ReadConfig(
               "entrypoint: builtin:FaultTrial\n"
               "hyperparameters: {global_batch_size: 10}\n"
               "records_per_epoch: 100\n"
               "searcher: {name: asha, metric: loss, max_trials: 40, "
               "num_rungs: 2, max_length: {" +
                   unit + ": 400}}\n",
               {.file_name = "search.yaml"})
        .config.value()
        .effective;
  }
  static void Validate(StoreWriter& w, TrialId trial, std::int64_t batches,
                       double loss) {
    w.AddMetrics(trial, MetricKind::kValidation, batches,
                 static_cast<double>(batches) / 10, {{"loss", loss}},
                 Timestamp(batches));
    w.AddValidation(trial, loss, batches, /*smaller_is_better=*/true);
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
};

TEST_F(TrialValuesTest, AreTheGreatestLengthThatEnoughTrialsReached) {
  AddSearch("batches");
  const TrialValues all = Read("loss");
  EXPECT_EQ(all.values.size(), 40u);
  EXPECT_EQ(all.PlaceText(), "at 100 batches");
  // All of these reached both.
  const std::vector<std::int64_t> selected = {2, 3};
  const TrialValues few = Read("loss", {}, &selected);
  EXPECT_EQ(few.values, (std::map<std::int64_t, double>{{2, 200}, {3, 300}}));
  EXPECT_EQ(few.PlaceText(), "at 400 batches");
}

TEST_F(TrialValuesTest, AreThoseOfThePlace) {
  AddSearch("batches");
  const TrialValues best = Read("loss", ValuePlace{});
  EXPECT_EQ(best.values.at(7), 7);
  EXPECT_EQ(best.PlaceText(), "at the best validation");
  const TrialValues last =
      Read("loss", ValuePlace{.kind = ValuePlace::Kind::kLast});
  EXPECT_EQ(last.values.at(7), 700);
  EXPECT_EQ(last.values.at(11), 11);
  EXPECT_EQ(last.PlaceText(), "at the last validation");
  EXPECT_EQ(ReadAt(400).values.size(), 10u);
}

TEST_F(TrialValuesTest, AreAtLengthsInTheUnitOfTheSearch) {
  AddSearch("epochs");
  EXPECT_EQ(Read("loss").PlaceText(), "at 10 epochs");
  EXPECT_EQ(ReadAt(40).values.size(), 10u);
}

// 409 batches of 10 would be 4090 records; 4009 are 400 batches.
TEST_F(TrialValuesTest, AreAtLengthsInRecordsRoundedDownToBatches) {
  AddSearch("records");
  EXPECT_EQ(Read("loss").PlaceText(), "at 1000 records");
  EXPECT_EQ(ReadAt(4009).values.size(), 10u);
}

TEST_F(TrialValuesTest, NameTheMetricsAndLengthsThatThereAre) {
  AddSearch("batches");
  EXPECT_THAT(RefusalText(ErrorKind::kNotFound, [&] { Read("f1"); }),
              HasSubstr("experiment 1 has no validation metric 'f1'; it has "
                        "loss"));
  EXPECT_THAT(RefusalText(ErrorKind::kNotFound, [&] { ReadAt(7); }),
              HasSubstr("no validation at 7 batches; its trials were validated "
                        "at 100 (40 trials), 400 (10 trials)"));
}

}  // namespace
}  // namespace dtrain
