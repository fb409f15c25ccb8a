// Hyperparameters that are checked by what a trial reads.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"

namespace dtrain {
namespace {

// Additions start at line 4, column 3.
const std::string kRuled =
    "entrypoint: a:B\n"
    "searcher: {name: grid, metric: loss, max_length: 100}\n"
    "hyperparameters:\n";

// The hyperparameters of the model a:B.
class HparamRulesTest : public testing::Test {
 protected:
  static ReadOptions Options() {
    return {
        .file_name = "f.yaml", .hparam_rules = [](const std::string& name) {
          if (name != "a:B") return std::vector<HparamRule>{};
          return std::vector<HparamRule>{
              {.name = "global_batch_size", .type = "int", .required = true},
              {.name = "lr", .type = "float"},
              {.name = "optimizer", .type = "string"},
              {.name = "pretrained", .type = "bool"},
              {.name = "split", .type = "list"},
              {.name = "dense1", .type = "int", .unused = true}};
        }};
  }

  // All that is found in this grid search.
  static std::vector<std::string> Find(const std::string& added,
                                       const ReadOptions& options = Options()) {
    std::vector<std::string> lines;
    const ConfigResult result =
        ReadConfig(kRuled + "  global_batch_size: 8\n" + added, options);
    for (const Diagnostic& found : result.diagnostics) {
      lines.push_back(found.ToString());
    }
    return lines;
  }
};

TEST_F(HparamRulesTest, AcceptsEveryHyperparameterThatTheTrialReads) {
  EXPECT_THAT(Find("  lr: {type: int, minval: 1, maxval: 3}\n"
                   "  optimizer: {type: categorical, vals: [sgd, adam, null]}\n"
                   "  pretrained: null\n"
                   "  split: [0.8, 0.2]\n"),
              testing::IsEmpty());
  EXPECT_THAT(Find("  lr: {type: log, minval: -4, maxval: -1, count: 2}\n"
                   "  split: {type: categorical, vals: [[1, 0]]}\n"
                   "  pretrained: {type: const, val: true}\n"),
              testing::IsEmpty());
  EXPECT_THAT(Find("  lr: 1\n"), testing::IsEmpty());
}

TEST_F(HparamRulesTest, RefusesUnknownNames) {
  EXPECT_THAT(Find("  learning_rate: 0.1\n  optimiser: adam\n  batch_size: 8\n"
                   "  foo: 1\n  opt: {lr: 0.1}\n"),
              testing::ElementsAre(
                  "f.yaml:5:3: hyperparameters.learning_rate: a:B has no "
                  "hyperparameter 'learning_rate'; did you mean 'lr'?",
                  testing::HasSubstr("f.yaml:6:3:"),
                  testing::HasSubstr("did you mean 'global_batch_size'?"),
                  testing::HasSubstr("it has global_batch_size, lr, "),
                  testing::HasSubstr("move 'lr' out of the nested map")));
}

TEST_F(HparamRulesTest, RefusesWrongTypes) {
  EXPECT_THAT(
      Find("  lr: '1e-4'\n"
           "  optimizer: 5\n"
           "  pretrained: yes\n"
           "  split: 0.8\n"),
      testing::ElementsAre(
          "f.yaml:5:7: hyperparameters.lr: expected a number, got the string "
          "'1e-4'; remove the quotes",
          testing::HasSubstr("expected a string, got the integer 5; quote it"),
          testing::HasSubstr("expected true or false, got the string 'yes'"),
          testing::HasSubstr("expected a list, got the number 0.8")));
  EXPECT_THAT(Find("  lr: [0.1, 0.01]\n"),
              testing::ElementsAre(testing::HasSubstr(
                  "f.yaml:5:7: hyperparameters.lr: expected a number, got a "
                  "list; to search these values, write {type: categorical, "
                  "vals: [0.1,0.01]}")));
}

TEST_F(HparamRulesTest, ChecksRangesByTheirType) {
  EXPECT_THAT(
      Find("  optimizer: {type: categorical, vals: [sgd, 1]}\n"
           "  pretrained: {type: int, minval: 0, maxval: 1}\n"
           "  lr: {type: const, val: big}\n"),
      testing::ElementsAre(
          testing::HasSubstr("hyperparameters.optimizer.vals[1]: expected a "
                             "string, got the integer 1"),
          testing::HasSubstr("hyperparameters.pretrained.type: a:B expects "
                             "true or false, but type: int yields integers"),
          testing::HasSubstr("hyperparameters.lr.val: expected a number")));
  const ConfigResult result = ReadConfig(
      kRuled +
          "  global_batch_size: {type: log, minval: 1, maxval: 2, count: "
          "2}\n",
      Options());
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_THAT(result.diagnostics[0].message,
              testing::HasSubstr("use type: int or categorical"));
}

TEST_F(HparamRulesTest, RefusesAMissingHyperparameter) {
  const std::string text =
      "entrypoint: a:B\n"
      "searcher: {name: single, metric: loss, max_length: 100}\n";
  const auto message = [&](const std::string& added) {
    const ConfigResult result = ReadConfig(text + added, Options());
    return result.diagnostics.size() == 1 ? result.diagnostics[0].ToString()
                                          : "";
  };
  EXPECT_EQ(message(""),
            "f.yaml: hyperparameters.global_batch_size: required by a:B but "
            "missing; add it, such as global_batch_size: 64");
  EXPECT_THAT(message("hyperparameters: {lr: 1}\n"),
              testing::StartsWith("f.yaml:3:18: "));
  EXPECT_THAT(message("hyperparameters: {global_batch_size: null}\n"),
              testing::StartsWith("f.yaml:3:"));
}

TEST_F(HparamRulesTest, NamesHyperparametersWithoutEffect) {
  EXPECT_THAT(
      Find("  dense1: 128\n"),
      testing::ElementsAre("f.yaml:5:3: hyperparameters.dense1: note: "
                           "accepted for compatibility; no effect on a:B"));
  EXPECT_THAT(Find("  dense1: {type: int, minval: 1, maxval: 2}\n"),
              testing::ElementsAre(testing::HasSubstr(
                  "warning: is searched, but has no effect on a:B")));
}

TEST_F(HparamRulesTest, OnlyWarnsOfARecordedExperiment) {
  ReadOptions options = Options();
  options.recorded = true;
  options.overrides = {"hyperparameters.optimiser=adam"};
  EXPECT_THAT(Find("  learning_rate: 0.1\n", options),
              testing::ElementsAre(
                  testing::HasSubstr("learning_rate: warning: a:B has no"),
                  testing::HasSubstr("--set hyperparameters.optimiser: "
                                     "hyperparameters.optimiser: a:B has no")));

  const ConfigResult old = ReadConfig(kRuled + "  learning_rate: 0.1\n", {});
  const Diagnostics found =
      CheckRecordedHparams(old.config->effective, options);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].severity, Severity::kWarning);
}

TEST_F(HparamRulesTest, IgnoresOtherTrials) {
  ReadOptions options = Options();
  options.overrides = {"entrypoint=c:D"};
  EXPECT_THAT(Find("  learning_rate: 0.1\n", options), testing::IsEmpty());
}

}  // namespace
}  // namespace dtrain
