#include "engine/program/program.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

using Words = std::vector<std::string>;

struct NullCase {
  Words command;
  nlohmann::json hparams;
  Words words;
};

TEST(ProgramWordsTest, LeavesOutAnArgumentThatIsNullAndItsOption) {
  const nlohmann::json null;
  for (const auto& [command, hparams, words] : std::vector<NullCase>{
           {{"p", "--a", "{x}", "b"}, {{"x", null}}, {"p", "b"}},
           {{"p", "--a={x}", "b"}, {{"x", null}}, {"p", "b"}},
           {{"p", "{x}"}, {{"x", null}}, {"p"}},
           {{"-p", "{x}"}, {{"x", null}}, {"-p"}},
           {{"p", "--b", "--a", "{x}", "{y}"},
            {{"x", null}, {"y", null}},
            {"p", "--b"}},
           {{"p", "{bn:--bn}", "{x}"},
            {{"bn", true}, {"x", null}},
            {"p", "--bn"}},
           {{"p", "{mode}", "{x}"},
            {{"mode", "-fast"}, {"x", null}},
            {"p", "-fast"}},
           // What the trial lacks by its condition is left out in the same way.
           {{"p", "--a", "{x}", "b"}, {{"y", 1}}, {"p", "b"}},
           {{"p", "--a={x}", "lr={x},{y}", "b"}, {{"y", 1}}, {"p", "b"}},
           {{"p", "{x:--bn|--no-bn}", "--y={y}"}, {{"y", 1}}, {"p", "--y=1"}},
           {{"p", "--net", "{net.x}", "{trial}"},
            {{"net", {{"y", 1}}}},
            {"p", "0.0"}}}) {
    TrialSpec spec;
    spec.command = command;
    spec.placeholders = true;
    spec.hparams = hparams;
    EXPECT_EQ(ProgramWords(spec, {}, {}), words);
  }
}

// A trial with a value of its own in each field that a program gets.
TrialSpec SpecWithEveryField() {
  return {.id = {3, 17},
          .run = 2,
          .rules = 1,
          .hparams = {{"lr", 0.25}, {"net", {{"a-b", true}}}, {"l", {1, 2}}},
          .alternatives = {{"lr", {0.25, 0.5}}},
          .data = {{"path", "/d"}},
          .seed = 77,
          .rank = 1,
          .world_size = 4,
          .threads = 6,
          .gpus = {5, 7},
          .gpu_share = 0.5,
          .settings = {.scheduling_unit = 11,
                       .min_validation_period = {12, Unit::kBatches},
                       .min_checkpoint_period = {13, Unit::kRecords},
                       .checkpoint_policy = "all",
                       .perform_initial_validation = true,
                       .records_per_epoch = 14,
                       .searcher_metric = "acc",
                       .requires_metric = false,
                       .smaller_is_better = false,
                       .time_metric = "done"}};
}

ProgramPaths EveryPath() {
  ProgramPaths paths{.description = "/s/trial.json",
                     .scratch = "/s/scratch",
                     .checkpoint = "/c/1",
                     .at = {.epoch = 1.5, .count = 96},
                     .validated = true,
                     .warm_start = "/c/0",
                     .socket = "/s/socket"};
  paths.at.trainer.batches = 150;
  return paths;
}

TEST(DescribeTrialTest, HasEveryField) {
  const nlohmann::json expected = {
      {"protocol", 1},
      {"experiment", 3},
      {"trial", 17},
      {"run", 2},
      {"rules", 1},
      {"hyperparameters",
       {{"lr", 0.25}, {"net", {{"a-b", true}}}, {"l", {1, 2}}}},
      {"alternatives", {{"lr", {0.25, 0.5}}}},
      {"data", {{"path", "/d"}}},
      {"seed", 77},
      {"until", {{"records", 192}}},
      {"checkpoint",
       {{"path", "/c/1"},
        {"batches", 150},
        {"epochs", 1.5},
        {"records", 96},
        {"validated", true}}},
      {"warm_start", "/c/0"},
      {"directory", "/s/scratch"},
      {"devices", {5, 7}},
      {"gpu_share", 0.5},
      {"threads", 6},
      {"rank", 1},
      {"world_size", 4},
      {"metric", "acc"},
      {"requires_metric", false},
      {"smaller_is_better", false},
      {"time_metric", "done"},
      {"scheduling_unit", 11},
      {"min_validation_period", {{"batches", 12}}},
      {"min_checkpoint_period", {{"records", 13}}},
      {"checkpoint_policy", "all"},
      {"perform_initial_validation", true},
      {"records_per_epoch", 14}};
  EXPECT_EQ(
      DescribeTrial(SpecWithEveryField(), {192, Unit::kRecords}, EveryPath()),
      expected);

  const nlohmann::json first =
      DescribeTrial(TrialSpec(), {}, {.scratch = "/s/scratch"});
  for (const char* name :
       {"until", "checkpoint", "warm_start", "time_metric"}) {
    EXPECT_EQ(first.at(name), nullptr) << name;
  }
  EXPECT_EQ(first.size(), expected.size());
}

TEST(ProgramVariablesTest, AreThoseOfTheTrial) {
  ::setenv("PYTHONPATH", "/mine", 1);
  ::unsetenv("OMP_NUM_THREADS");
  ::unsetenv("PYTHONUNBUFFERED");
  const auto variables_of = [](const TrialSpec& spec) {
    std::map<std::string, std::string> variables;
    for (const auto& [name, value] :
         ProgramVariables(spec, {192, Unit::kRecords}, EveryPath())) {
      variables[name] = value;
    }
    return variables;
  };
  TrialSpec spec = SpecWithEveryField();
  auto variables = variables_of(spec);
  // Modules of the user hide those of dtrain, if these are installed.
  EXPECT_TRUE(variables["PYTHONPATH"].empty() ||
              variables["PYTHONPATH"].starts_with("/mine:"));
  variables.erase("PYTHONPATH");
  EXPECT_EQ(variables, (std::map<std::string, std::string>{
                           {"DTRAIN_TRIAL", "/s/trial.json"},
                           {"DTRAIN_REPORT_FD", "3"},
                           {"DTRAIN_OPERATIONS_FD", "4"},
                           {"DTRAIN_SOCKET", "/s/socket"},
                           {"DTRAIN_DIRECTORY", "/s/scratch"},
                           {"DTRAIN_SEED", "77"},
                           {"DTRAIN_UNIT", "records"},
                           {"DTRAIN_UNTIL", "192"},
                           {"DTRAIN_CHECKPOINT", "/c/1"},
                           {"DTRAIN_DONE", "96"},
                           {"OMP_NUM_THREADS", "6"},
                           {"DTRAIN_HPARAM_lr", "0.25"},
                           {"DTRAIN_HPARAM_net_a_b", "true"}}));

  ::setenv("OMP_NUM_THREADS", "9", 1);
  EXPECT_FALSE(variables_of(spec).contains("OMP_NUM_THREADS"));
  ::unsetenv("OMP_NUM_THREADS");
  spec.metrics.emplace();
  EXPECT_EQ(variables_of(spec)["PYTHONUNBUFFERED"], "1");
  spec.metrics->file = "metrics.csv";
  EXPECT_FALSE(variables_of(spec).contains("PYTHONUNBUFFERED"));
  ::unsetenv("PYTHONPATH");
}

TEST(WithoutPlacedTest, RemovesWhatTheCommandPasses) {
  TrialSpec spec;
  spec.command = {"p", "--opt={opt}", "{bn:--bn}", "{lr}"};
  spec.placeholders = true;
  EXPECT_EQ(WithoutPlaced({"bn", "lr", "lr_end", "opt", "opt.lr", "x"}, spec),
            (Words{"lr_end", "x"}));
}

}  // namespace
}  // namespace dtrain
