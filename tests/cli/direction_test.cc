// smaller_is_better in every place that picks the best: a
// search of three programs, and the output of each command.

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// The trials have h = 1, 2, 3 and the scores 10h+1, 10h+3 and 10h+2 at the
// batches 10, 20 and 30.
struct Direction {
  std::string smaller;  // searcher.smaller_is_better
  std::string word;
  std::int64_t best;  // score
  std::int64_t batches;
  std::vector<std::int64_t> scores;  // of the trials, best first
};

class DirectionTest : public testing::TestWithParam<Direction> {
 protected:
  void SetUp() override {
    fs::permissions(
        dtrain_.Write(
            "score.sh",
            "#!/bin/bash\n"
            "for at in 10:1 20:3 30:2; do\n"
            "  batches=${at%:*}\n"
            "  echo > $DTRAIN_DIRECTORY/$batches\n"
            "  printf '{\"type\":\"checkpoint\",\"batches\":%d,\"path\":\"%s\"}"
            "\\n' $batches $DTRAIN_DIRECTORY/$batches >&3\n"
            "  printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":"
            "{\"score\":%d}}\\n' $batches $((10 * DTRAIN_HPARAM_h + ${at#*:})) "
            ">&3\n"
            "done\n"),
        fs::perms::owner_all);
    dtrain_.Write("score.yaml",
                  "entrypoint: ./score.sh\n"
                  "hyperparameters: {h: {type: categorical, vals: [2, 3, 1]}}\n"
                  "searcher: {name: grid, metric: score, smaller_is_better: " +
                      GetParam().smaller +
                      "}\n"
                      "checkpoint_storage: {save_trial_best: 1,\n"
                      "                     save_trial_latest: 0}\n"
                      "resources: {slots: cpu}\n");
    created_ = dtrain_.Run({"create", "score.yaml", "--jsonl"});
    ASSERT_EQ(created_.code, 0) << created_.err;
  }

  std::vector<json> Events(const std::string& name) const {
    std::vector<json> events;
    std::istringstream lines(created_.out);
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.at("event") == name) events.push_back(event);
    }
    return events;
  }
  json Json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json();
  }
  std::vector<std::int64_t> BestScores(const json& trials) const {
    std::vector<std::int64_t> scores;
    for (const json& trial : trials) {
      scores.push_back(trial.at("best").at("value"));
    }
    return scores;
  }

  CliRunner dtrain_;
  CliResult created_;
};

TEST_P(DirectionTest, AppliesToTheRun) {
  const json end = Events("end").at(0);
  EXPECT_EQ(end["best"]["value"], GetParam().best);
  EXPECT_EQ(end["best"]["batches"], GetParam().batches);
  EXPECT_EQ(end["best"]["hparams"]["h"], GetParam().best / 10);
  const auto validations = Events("validation");
  const auto last = std::find_if(validations.rbegin(), validations.rend(),
                                 [](const json& one) { return one["best"]; });
  ASSERT_NE(last, validations.rend());
  EXPECT_EQ((*last)["metrics"]["score"], GetParam().best);
  EXPECT_THAT(created_.err,
              HasSubstr("score " + std::to_string(GetParam().best)));
}

TEST_P(DirectionTest, AppliesToBest) {
  const json best = Json({"best", "1", "-n", "3"})["best"];
  std::vector<std::int64_t> scores;
  for (const json& trial : best) {
    scores.push_back(trial["value"]);
    EXPECT_EQ(trial["batches"], GetParam().batches);
    EXPECT_EQ(trial["best_saved"]["value"], trial["value"]);
    EXPECT_EQ(trial["best_saved"]["checkpoint"], trial["checkpoint"]);
  }
  EXPECT_EQ(scores, GetParam().scores);
  EXPECT_EQ(Json({"best", "1"})["best"][0]["value"], GetParam().best);
}

TEST_P(DirectionTest, AppliesToTrials) {
  for (const char* key : {"best", "score", "rung"}) {
    const json trials = Json({"trials", "1", "--sort", key})["trials"];
    EXPECT_EQ(BestScores(trials), GetParam().scores) << key;
  }
  const json trials = Json({"trials", "1", "--sort", "best"})["trials"];
  const std::string id = trials[0]["id"];
  EXPECT_EQ(Json({"describe", id})["best"]["value"], GetParam().best);
  EXPECT_EQ(trials[0]["latest"]["batches"], 30);
}

TEST_P(DirectionTest, AppliesToTheExperiment) {
  const std::string score = std::to_string(GetParam().best);
  const json listed =
      Json({"list", "--filter", "best==" + score})["experiments"];
  ASSERT_EQ(listed.size(), 1);
  EXPECT_EQ(listed[0]["best"]["value"], GetParam().best);
  EXPECT_EQ(Json({"describe", "1"})["best"]["value"], GetParam().best);
  EXPECT_EQ(Json({"wait", "1"})["experiments"][0]["best"]["value"],
            GetParam().best);
  const std::string text = dtrain_.Run({"describe", "1"}).out;
  EXPECT_THAT(text, HasSubstr("grid, " + GetParam().word + " score\n"));
  EXPECT_THAT(text, HasSubstr("score " + score + " at batch " +
                              std::to_string(GetParam().batches)));
}

TEST_P(DirectionTest, AppliesToRequirements) {
  EXPECT_EQ(dtrain_
                .Run({"wait", "1", "--require",
                      "score==" + std::to_string(GetParam().best)})
                .code,
            0);
}

// The policy keeps of each trial the best checkpoint alone.
TEST_P(DirectionTest, AppliesToKeptCheckpoints) {
  const json kept = Json({"checkpoints", "1"})["checkpoints"];
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> scores;
  for (const json& row : kept) {
    batches.push_back(row["batches"]);
    scores.push_back(row["metric"]);
  }
  ASSERT_EQ(batches.size(), 3);
  EXPECT_THAT(batches, Each(GetParam().batches));
  EXPECT_THAT(scores, testing::UnorderedElementsAreArray(GetParam().scores));
  EXPECT_EQ(Json({"gc"})["removed"], json::array());
}

TEST_P(DirectionTest, AppliesToTheCheckpointToContinueFrom) {
  const CliResult result = dtrain_.Run({"continue", "1", "--best", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const json source = Json({"describe", "2"})["provenance"]["forked_from"];
  EXPECT_EQ(source["batches"], GetParam().batches);
  EXPECT_EQ(source["trial"], Json({"list"})["experiments"][0]["best"]["trial"]);
}

INSTANTIATE_TEST_SUITE_P(
    Both, DirectionTest,
    testing::Values(Direction{"true", "minimizing", 11, 10, {11, 21, 31}},
                    Direction{"false", "maximizing", 33, 20, {33, 23, 13}}),
    [](const auto& info) { return info.param.word; });

// gc of an experiment of one trial with a checkpoint at each of the batches
// 100 to 500, whose metrics are 3, 1, 5, 2 and 4.
class GarbageDirectionTest : public testing::TestWithParam<bool> {
 protected:
  // The batches of the checkpoints that gc keeps under this policy.
  std::vector<std::int64_t> KeptUnder(const std::string& policy) const {
    const CliRunner dtrain;
    const StoreLayout layout(dtrain.store());
    const ConfigResult config = ReadConfig(
        "entrypoint: [sh, -c, 'true']\n"
        "searcher: {name: single, metric: score, max_length: 500,\n"
        "           smaller_is_better: " +
            std::string(GetParam() ? "true" : "false") +
            "}\ncheckpoint_storage: " + policy + "\n",
        {.file_name = "gc.yaml"});
    Store::OpenForWriting(layout).Write([&](StoreWriter& writer) {
      writer.AddExperiment({.name = "gc",
                            .searcher = "single",
                            .metric = "score",
                            .smaller_is_better = GetParam(),
                            .config = config.config.value().effective,
                            .created = Timestamp(1)});
      writer.AddTrial({.id = {1, 1}, .request_id = "r"});
      std::int64_t batches = 0;
      for (const double score : {3, 1, 5, 2, 4}) {
        batches += 100;
        writer.AddMetrics({1, 1}, MetricKind::kValidation, batches, 0,
                          {{"score", score}}, Timestamp(batches));
        writer.AddValidation({1, 1}, score, batches, GetParam());
      }
      writer.SetTrialState({1, 1}, State::kCompleted, Timestamp(1000));
      writer.SetExperimentState(1, State::kCompleted, Timestamp(1000));
    });
    for (int i = 1; i <= 5; ++i) {
      AddCheckpoint(layout, {1, 1}, 100 * i, static_cast<char>('a' + i));
    }
    EXPECT_EQ(dtrain.Run({"gc", "1"}).code, 0);
    std::vector<std::int64_t> kept;
    const json rows = dtrain.Run({"checkpoints", "1", "--json"}).Json();
    for (const json& row : rows["checkpoints"]) {
      kept.push_back(row["batches"]);
      EXPECT_TRUE(fs::exists(row["path"].get<std::string>()));
    }
    return kept;
  }
};

TEST_P(GarbageDirectionTest, FollowsTheExperimentsOwnPolicy) {
  const std::int64_t best = GetParam() ? 200 : 300;
  const std::int64_t second = GetParam() ? 400 : 500;
  EXPECT_THAT(KeptUnder("{save_trial_best: 1, save_trial_latest: 0}"),
              ElementsAre(best));
  EXPECT_THAT(KeptUnder("{save_trial_best: 2, save_trial_latest: 0}"),
              ElementsAre(best, second));
  EXPECT_THAT(KeptUnder("{save_experiment_best: 1, save_trial_best: 0,\n"
                        "                     save_trial_latest: 0}"),
              ElementsAre(best));
  EXPECT_THAT(KeptUnder("{save_trial_best: 0, save_trial_latest: 2}"),
              ElementsAre(400, 500));
}

INSTANTIATE_TEST_SUITE_P(Both, GarbageDirectionTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "least" : "greatest";
                         });

// The metric is the trial's number.
TEST(PreviewDirectionTest, AppliesToTheBestSimulatedTrials) {
  const CliRunner dtrain;
  dtrain.Write("search.yaml",
               "entrypoint: builtin:FaultTrial\n"
               "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
               "searcher: {name: random, metric: loss, max_trials: 6, "
               "max_length: 9}\n");
  const auto first = [&](const std::string& smaller) {
    const std::string out =
        dtrain
            .Run({"preview-search", "search.yaml", "--simulate", "trial_index",
                  "--seed", "1", "--set",
                  "searcher.smaller_is_better=" + smaller})
            .out;
    const std::size_t table = out.find("TRIAL  BEST");
    return out.substr(out.find('\n', table) + 1, 11);
  };
  EXPECT_EQ(first("true"), "    1     0");
  EXPECT_EQ(first("false"), "    6     5");
}

}  // namespace
}  // namespace dtrain
