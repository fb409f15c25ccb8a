// Fields of trials and experiments in the sample store. Alpha (1) has the
// trials 1.1, lr 0.5 and loss 0.75 at 100 batches, and 1.2, lr 0.25 and loss
// 0.25 there and NaN at 200. Delta (4) maximizes `accuracy`.

#include "engine/app/trial_fields.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/app/experiment_fields.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "tests/support/sample_store.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Timestamp kNow(9'000'000);

class TrialFieldsTest : public testing::Test {
 protected:
  TrialFieldsTest() {
    FillSampleStore(root());
    AddAccuracySearch(root());
  }

  std::filesystem::path root() const { return directory_.path() / "store"; }
  Store Open() const { return Store::OpenForReading(StoreLayout(root())); }

  template <typename Resolve>
  static std::string Refusal(ErrorKind kind, const Resolve& resolve) {
    try {
      resolve();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "not refused";
  }

  const TemporaryDirectory directory_;
};

TEST_F(TrialFieldsTest, AreColumnsHyperparametersAndMetrics) {
  const Store store = Open();
  const ExperimentDetail alpha = FindExperimentDetail(store, 1);
  TrialFields fields(store, alpha, kNow, /*utf8=*/false);
  struct Row {
    FieldName field;
    FieldKind kind;
    std::vector<std::string> values;  // of 1.1 and 1.2
  };
  using enum FieldFunction;
  for (const Row& row :
       {Row{{.name = "id"}, FieldKind::kText, {"1.1", "1.2"}},
        Row{{.name = "state"}, FieldKind::kText, {"ERROR", "COMPLETED"}},
        Row{{.name = "reason"}, FieldKind::kText, {"exit code 1", ""}},
        Row{{.name = "rung"}, FieldKind::kNumber, {"2", "1"}},
        Row{{.name = "best"}, FieldKind::kNumber, {"0.75", "0.25"}},
        Row{{.name = "hp.lr"}, FieldKind::kAny, {"0.5", "0.25"}},
        Row{{.name = "hp.batch"}, FieldKind::kAny, {"32", "32"}},
        Row{{.name = "lr"}, FieldKind::kAny, {"0.5", "0.25"}},
        Row{{.name = "accuracy"}, FieldKind::kNumber, {"0.25", "0.75"}},
        Row{{.name = "metric.loss"}, FieldKind::kNumber, {"0.75", "0.25"}},
        Row{{kMin, "loss"}, FieldKind::kNumber, {"0.75", "0.25"}},
        Row{{kLast, "loss"}, FieldKind::kNumber, {"0.75", "NaN"}},
        Row{{kAt, "accuracy", 100}, FieldKind::kNumber, {"0.25", "0.75"}}}) {
    EXPECT_EQ(fields.Resolve(row.field).kind, row.kind) << row.field.Text();
    std::vector<std::string> values;
    for (const TrialRow& trial : ListTrials(store, alpha.row)) {
      values.push_back(FieldText(fields.GetValue(trial, row.field)));
    }
    EXPECT_EQ(values, row.values) << row.field.Text();
  }
  EXPECT_TRUE(fields.IsMetric({.name = "loss"}));
  EXPECT_FALSE(fields.IsMetric({.name = "hp.lr"}));
  EXPECT_THAT(fields.Expand("hp.*"), ElementsAre(FieldName{.name = "hp.lr"}));
}

// A filter of many trials does not read what no field needs.
TEST_F(TrialFieldsTest, NeedOnlyTheirPartsOfTheTrials) {
  const Store store = Open();
  const ExperimentDetail alpha = FindExperimentDetail(store, 1);
  struct Row {
    const char* name;
    bool hparams;
    bool checkpoints;
  };
  for (const Row& row :
       {Row{"state", false, false}, Row{"hp.lr", false, false},
        Row{"hparams", true, false}, Row{"checkpoint", false, true}}) {
    TrialFields fields(store, alpha, kNow, /*utf8=*/false);
    (void)fields.Resolve({.name = row.name});
    EXPECT_EQ(fields.parts().hparams, row.hparams) << row.name;
    EXPECT_EQ(fields.parts().checkpoints, row.checkpoints) << row.name;
  }
}

TEST_F(TrialFieldsTest, RefusesANameThatNothingHas) {
  const Store store = Open();
  const ExperimentDetail alpha = FindExperimentDetail(store, 1);
  TrialFields fields(store, alpha, kNow, /*utf8=*/false);
  for (const FieldName& field :
       {FieldName{.name = "speed"}, FieldName{.name = "hp.speed"},
        FieldName{FieldFunction::kMin, "speed"}}) {
    EXPECT_THAT(Refusal(ErrorKind::kNotFound, [&] { fields.Resolve(field); }),
                HasSubstr("speed"))
        << field.Text();
  }
}

TEST_F(TrialFieldsTest, HparamsKeepEveryDigitOfTheirIntegers) {
  using nlohmann::json;
  EXPECT_EQ(HparamValue(json(9007199254740993)),
            FieldValue(std::int64_t{9007199254740993}));
  EXPECT_EQ(HparamValue(json(18446744073709551615U)),
            FieldValue(18446744073709551615.0));
  EXPECT_EQ(HparamValue(json("1")), FieldValue(std::string("1")));
  EXPECT_EQ(HparamValue(json()), FieldValue());
  EXPECT_EQ(HparamValue(json{{"a", {{"b", 2}}}}, "a.b"),
            FieldValue(std::int64_t{2}));
  EXPECT_EQ(HparamValue(json{{"a", 1}}, "b"), FieldValue());
}

TEST_F(TrialFieldsTest, ExperimentsHaveThoseOfTheirBestTrial) {
  const Store store = Open();
  const std::vector<ExperimentRow> rows = ListExperiments(store, true);
  ExperimentFields fields(store, rows, kNow, /*utf8=*/false);
  struct Row {
    FieldName field;
    std::string alpha;
    std::string gamma;  // has no trial
    std::string delta;
  };
  for (const Row& row :
       {Row{{.name = "name"}, "alpha", "gamma", "delta"},
        Row{{.name = "state"}, "COMPLETED", "ERROR", "COMPLETED"},
        Row{{.name = "best"}, "0.25", "", "0.9"},
        Row{{.name = "best_trial"}, "1.2", "", "4.2"},
        Row{{.name = "hp.lr"}, "0.25", "", "0.5"},
        Row{{.name = "accuracy"}, "0.75", "", "0.9"},
        Row{{FieldFunction::kMax, "accuracy"}, "0.75", "", "0.9"}}) {
    (void)fields.Resolve(row.field);
    std::map<std::string, std::string> values;
    for (const ExperimentRow& one : rows) {
      values[one.name] = FieldText(fields.GetValue(one, row.field));
    }
    EXPECT_EQ(values["alpha"], row.alpha) << row.field.Text();
    EXPECT_EQ(values["gamma"], row.gamma) << row.field.Text();
    EXPECT_EQ(values["delta"], row.delta) << row.field.Text();
  }
  EXPECT_THAT(
      Refusal(ErrorKind::kUsage, [&] { fields.Resolve({.name = "nosuch"}); }),
      HasSubstr("nosuch"));
}

}  // namespace
}  // namespace dtrain
