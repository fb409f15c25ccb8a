// --filter and --columns on names and numbers that are easily taken
// for others: 1.10 and 1.1, integers beyond 2^53, 0.99999951 and 1.

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kSelectionYaml[] =
    "name: '1.10'\n"
    "entrypoint: builtin:FaultTrial\n"
    "hyperparameters:\n"
    "  big: {type: categorical, vals: [9007199254740992, 9007199254740993]}\n"
    "  seed: {type: int, minval: 1, maxval: 10}\n"
    "  version: {type: categorical, vals: ['1', 1]}\n"
    "searcher: {name: random, metric: acc, smaller_is_better: false, "
    "max_length: 100, max_trials: 10}\n";

std::int64_t AddSelectionSearch(StoreWriter& writer, const std::string& name,
                                std::uint32_t seed) {
  const ConfigResult result =
      ReadConfig(kSelectionYaml, {.file_name = "selection.yaml"});
  return writer.AddExperiment({.name = name,
                               .searcher = "random",
                               .metric = "acc",
                               .smaller_is_better = false,
                               .seed = seed,
                               .yaml = kSelectionYaml,
                               .config = result.config.value().effective,
                               .created = Timestamp(1)});
}

void AddSelectionTrial(StoreWriter& writer, TrialId id, const json& version) {
  writer.AddTrial({.id = id,
                   .request_id = "r",
                   .hparams = {{"big", 9007199254740990 + id.number},
                               {"seed", id.number},
                               {"version", version}},
                   .created = Timestamp(1)});
  writer.SetTrialState(id, State::kRunning, Timestamp(2));
}

void AddReport(StoreWriter& writer, TrialId id, std::int64_t batches,
               const MetricValues& values) {
  writer.AddMetrics(id, MetricKind::kValidation, batches, 0.5, values,
                    Timestamp(batches));
}

// Experiment 1: 1.1 is the best trial, 0.99999951 at 100 batches, and reported
// `rare` at 50. Experiment 2: every validation was NaN.
void FillSelectionStore(StoreWriter& writer) {
  const std::int64_t id = AddSelectionSearch(writer, "1.10", 371175123);
  for (std::int64_t number = 1; number <= 10; ++number) {
    AddSelectionTrial(writer, {id, number}, number == 2 ? json(1) : json("1"));
  }
  AddReport(writer, {id, 1}, 50, {{"acc", 0.5}, {"rare", 5}});
  writer.AddValidation({id, 1}, 0.5, 50, /*smaller_is_better=*/false);
  AddReport(writer, {id, 1}, 100, {{"acc", 0.99999951}});
  writer.AddValidation({id, 1}, 0.99999951, 100, /*smaller_is_better=*/false);
  AddReport(writer, {id, 1}, 150, {{"late", 1}});
  AddReport(writer, {id, 10}, 5000000, {{"best", 1}, {"batches", 1}});
  writer.SetExperimentState(id, State::kCompleted, Timestamp(7));
  const std::int64_t failed = AddSelectionSearch(writer, "hopeless", 2);
  AddSelectionTrial(writer, {failed, 1}, "1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  AddReport(writer, {failed, 1}, 50, {{"acc", nan}});
  AddReport(writer, {failed, 1}, 100, {{"acc", nan}});
  writer.SetExperimentState(failed, State::kCompleted, Timestamp(7));
}

class SelectionTest : public testing::Test {
 protected:
  SelectionTest() {
    Store::OpenForWriting(StoreLayout(dtrain_.store()))
        .Write(FillSelectionStore);
  }

  std::string Csv(const std::string& command, const std::string& columns,
                  const std::string& filter) const {
    std::vector<std::string> arguments = {command, "1"};
    if (command == "list") arguments.pop_back();
    for (const std::string& one :
         {std::string("--csv"), std::string("--columns"), columns,
          std::string("--filter"), filter}) {
      arguments.push_back(one);
    }
    return dtrain_.Run(arguments).out;
  }

  const CliRunner dtrain_;
};

TEST_F(SelectionTest, ComparesTextsWithNumbersAsTheyWereWritten) {
  EXPECT_EQ(Csv("trials", "id", "id == 1.10"), "id\r\n1.10\r\n");
  EXPECT_EQ(Csv("trials", "id", "id in (1.10, 1.2)"), "id\r\n1.2\r\n1.10\r\n");
  EXPECT_THAT(Csv("trials", "id", "id != 1.10"), HasSubstr("\r\n1.1\r\n"));
  EXPECT_EQ(Csv("metrics", "trial,name", "trial == 1.10 and name == best"),
            "trial,name\r\n1.10,best\r\n");
  EXPECT_EQ(Csv("list", "id", "best_trial == 1.1"), "id\r\n1\r\n");
  EXPECT_EQ(Csv("list", "id", "best_trial == 1.10"), "id\r\n");
  EXPECT_EQ(Csv("list", "id", "name == 1.10"), "id\r\n1\r\n");
  EXPECT_EQ(Csv("list", "id", "name == 1.1"), "id\r\n");
}

TEST_F(SelectionTest, KeepsEveryDigitOfIntegers) {
  EXPECT_EQ(Csv("trials", "id,hp.big", "hp.big == 9007199254740993"),
            "id,hp.big\r\n1.3,9007199254740993\r\n");
  EXPECT_EQ(Csv("trials", "id", "hp.big > 9007199254740999"), "id\r\n1.10\r\n");
  const json row = dtrain_
                       .Run({"trials", "1", "--json", "--columns", "hp.big",
                             "--filter", "number == 3"})
                       .Json()["trials"][0];
  EXPECT_EQ(row["columns"]["hp.big"].dump(), "9007199254740993");
  EXPECT_THAT(dtrain_.Run({"list", "--columns", "id,seed"}).out,
              HasSubstr(" 371175123\n"));
  EXPECT_THAT(dtrain_.Run({"metrics", "1.10", "--columns", "batches"}).out,
              HasSubstr("5000000\n"));
  EXPECT_EQ(Csv("metrics", "batches", "trial == 1.10 and name == best"),
            "batches\r\n5000000\r\n");
}

TEST_F(SelectionTest, SaysThatAColumnHidesAHyperparameterOrMetric) {
  const CliResult result =
      dtrain_.Run({"trials", "1", "--filter", "seed == 2", "--csv"});
  EXPECT_EQ(result.err,
            "dtrain: note: 'seed' is the column; the hyperparameter is "
            "hp.seed\n");
  EXPECT_EQ(Csv("trials", "id", "hp.seed == 2"), "id\r\n1.2\r\n");
  const std::string sorts =
      dtrain_.Run({"__complete", "zsh", "trials", "1", "--sort", ""}).out;
  EXPECT_THAT(sorts, AllOf(HasSubstr("\nmetric.best\n"),
                           HasSubstr("\nmetric.batches\n"),
                           Not(HasSubstr("\nbatches\n"))));
  EXPECT_THAT(
      dtrain_.Run({"__complete", "zsh", "metrics", "1", "--name", ""}).out,
      HasSubstr("\nbatches\n"));
}

TEST_F(SelectionTest, ShowsNoValueWhereThereIsNone) {
  EXPECT_EQ(Csv("list", "id,best", "id == 2"), "id,best\r\n2,\r\n");
  EXPECT_THAT(
      dtrain_.Run({"list", "--columns", "best", "--filter", "id == 2"}).out,
      HasSubstr("-\n"));
  const json row =
      dtrain_.Run({"list", "--json", "--columns", "best", "--filter", "id==2"})
          .Json()["experiments"][0];
  EXPECT_EQ(row["columns"]["best"], nullptr);
}

TEST_F(SelectionTest, ComparesTheLastValueUntilTheBestValidation) {
  EXPECT_EQ(Csv("trials", "id", "rare == 5"), "id\r\n1.1\r\n");
}

TEST_F(SelectionTest, QuotesTextsThatCouldBeNumbers) {
  const CliResult diff =
      dtrain_.Run({"diff", "1.1", "1.2", "--hparams", "--exit-code"});
  EXPECT_EQ(diff.code, 1);
  EXPECT_THAT(diff.out, AllOf(HasSubstr("-version: \"1\"\n"),
                              HasSubstr("+version: 1\n")));
  EXPECT_THAT(dtrain_.Run({"compare", "1.1", "1.2"}).out,
              testing::ContainsRegex("version +\"1\" +1"));
}

TEST_F(SelectionTest, RoundsNoNumberToAnInteger) {
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr("acc 0.9999995 "));
  EXPECT_THAT(dtrain_.Run({"best", "1", "-n", "1"}).out,
              HasSubstr("0.9999995"));
  EXPECT_EQ(Csv("trials", "id", "acc == 1"), "id\r\n");
}

TEST_F(SelectionTest, RefusesValuesThatNothingHas) {
  const auto refused = [this](const std::string& filter) {
    const CliResult result = dtrain_.Run({"list", "--filter", filter});
    EXPECT_EQ(result.code, 2) << filter;
    return result.err;
  };
  EXPECT_THAT(refused("started > 2026-02-30"), HasSubstr("expected a time"));
  EXPECT_THAT(refused("progress > 99"),
              HasSubstr("expected a number from 0 to 1 at character 12; "
                        "'progress' is a share; write 0.5 for 50%"));
  EXPECT_THAT(refused("progress > 50%"),
              HasSubstr("expected a number from 0 to 1"));
  EXPECT_THAT(refused("archived == no"), HasSubstr("it is one of true, false"));
  const CliResult metrics = dtrain_.Run({"metrics", "1", "--name", "nosuch"});
  EXPECT_EQ(metrics.code, 3);
  EXPECT_EQ(metrics.err,
            "dtrain: error: experiment 1 has no metric 'nosuch'; it has acc, "
            "batches, best, late, rare\n");
}

TEST_F(SelectionTest, SaysWhyAComparisonHasNoMeaning) {
  EXPECT_THAT(dtrain_.Run({"trials", "1", "--filter", "id > 1.9"}).err,
              HasSubstr("expected ==, !=, ~ or in at character 4; 'id' is a "
                        "text; 'number' is the trial's number"));
  EXPECT_THAT(
      dtrain_.Run({"trials", "1", "--filter", "hp.big > 2026-01-01"}).err,
      HasSubstr("'hp.big' has an order only where it is a number"));
}

}  // namespace
}  // namespace dtrain
