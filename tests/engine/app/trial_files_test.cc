#include "engine/app/trial_files.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(TrialFilesTest, TextNamesTheLargest) {
  const WrittenFile log{.path = "log.txt", .bytes = 10};
  const WrittenFile model{.path = "out/model.pt", .bytes = 14'000'000};
  EXPECT_EQ(TrialFilesText({}), "");
  EXPECT_EQ(TrialFilesText({log}), "log.txt, 10 B");
  EXPECT_EQ(TrialFilesText({log, model}),
            "out/model.pt and 1 more file, 14.0 MB");
  EXPECT_EQ(TrialFilesText({model, log, log}),
            "out/model.pt and 2 more files, 14.0 MB");
}

TEST(TrialFilesTest, AreKeptOfTheBestTrialsOfACompletedExperiment) {
  struct Case {
    State state;
    std::int64_t save_experiment_best;
    bool smaller_is_better;
    std::vector<std::int64_t> kept;
  };
  std::vector<TrialRow> trials;
  const std::vector<std::optional<double>> values = {0.5, 0.9, std::nullopt,
                                                     0.1};
  for (const auto& value : values) {
    TrialRow trial;
    trial.id = {1, static_cast<std::int64_t>(trials.size()) + 1};
    if (value) trial.best = BestValidation{.value = *value};
    trials.push_back(trial);
  }
  const std::vector<Case> cases = {
      {State::kCompleted, 0, true, {4}},
      {State::kCompleted, 1, false, {2}},
      {State::kCompleted, 2, true, {1, 4}},
      {State::kCompleted, 9, true, {1, 2, 4}},
      {State::kCanceled, 2, true, {}},
      {State::kError, 0, true, {}},
      {State::kPaused, 0, true, {1, 2, 3, 4}},
      {State::kInterrupted, 0, true, {1, 2, 3, 4}},
  };
  for (const Case& it : cases) {
    ExperimentRow experiment;
    experiment.state = it.state;
    experiment.smaller_is_better = it.smaller_is_better;
    EXPECT_THAT(
        TrialsThatKeepFiles(trials, experiment, it.save_experiment_best),
        testing::ElementsAreArray(it.kept))
        << StateName(it.state) << it.save_experiment_best;
  }
}

}  // namespace
}  // namespace dtrain
