// `continue`, and the keys of a YAML that start from a checkpoint: refusals,
// records, and real trials that start from a checkpoint.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/layout.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class ContinueTest : public testing::Test {
 protected:
  ContinueTest() { FillSampleStore(dtrain_.store()); }

  // Expects that it is refused, and that nothing is recorded.
  void ExpectRefused(std::vector<std::string> arguments, int code,
                     const std::string& message) const {
    arguments.insert(arguments.begin(), "continue");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(dtrain_.Run({"describe", "4"}).code, 3);
  }
  json Described(const std::string& id) const {
    return dtrain_.Run({"describe", id, "--json"}).Json();
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(ContinueTest, RefusesAnUnknownSource) {
  ExpectRefused({"9.1"}, 3, "no experiment 9");
  ExpectRefused({"1.7"}, 3, "has no trial 1.7");
  ExpectRefused({"1.1"}, 3, "trial 1.1 has no checkpoint");
  ExpectRefused({"ffff"}, 3, "ffff");
  ExpectRefused({"1.x"}, 2, "'1.x' is not a valid ID");
  ExpectRefused({"0a1b", "--best"}, 2, "--best: requires a trial");
}

TEST_F(ContinueTest, RefusesADamagedCheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  std::ofstream(layout_.Checkpoint({1, 2}, uuid) / "model.safetensors") << "x";
  ExpectRefused({"cccc"}, 1, "'model.safetensors'");
  ExpectRefused({"1.2"}, 3, "trying an older one");
}

TEST_F(ContinueTest, SaysThatItSkipsACheckpointMarkedCorrupt) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  std::ofstream(layout_.Checkpoint({1, 2}, uuid) / "model.safetensors") << "x";
  ASSERT_EQ(dtrain_.Run({"checkpoint", "verify", "1.2"}).code, 1);
  ExpectRefused({"1.2"}, 3, "is marked CORRUPT; trying an older one");
}

TEST_F(ContinueTest, RefusesADeletedCheckpoint) {
  AddCheckpoint(layout_, {1, 2}, 100, 'c');
  ASSERT_EQ(dtrain_.Run({"checkpoint", "delete", "cccc"}).code, 0);
  ExpectRefused({"cccc"}, 3, "is deleted");
}

TEST_F(ContinueTest, RefusesInvalidValues) {
  AddCheckpoint(layout_, {1, 2}, 100, 'c');
  ExpectRefused({"1.2", "--set", "nmae=x"}, 2, "did you mean 'name'?");
  ExpectRefused({"1.2", "--set", "hyperparameters.lr=fast"}, 2,
                "hyperparameters.lr was 0.25 in trial 1.2, and \"fast\" is not "
                "of its type (number)");
  ExpectRefused({"1.2", "--set", "hyperparameters.batch=[1]"}, 2,
                "hyperparameters.batch");
}

// It can run in no build: the checkpoint's weights are none.
TEST_F(ContinueTest, RecordsItsSource) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  const CliResult result =
      dtrain_.Run({"continue", "1.2", "--set", "hyperparameters.lr=1", "--set",
                   "max_restarts=0", "--set", "resources.slots=cpu", "--name",
                   "again", "--label", "mine"});
  EXPECT_NE(result.code, 0);
  const json made = Described("4");
  EXPECT_EQ(made["name"], "again");
  EXPECT_EQ(made["labels"], json({"mine"}));
  EXPECT_EQ(made["provenance"]["forked_from"], json({{"trial", "1.2"},
                                                     {"checkpoint", uuid},
                                                     {"batches", 100},
                                                     {"length", 100},
                                                     {"unit", "batches"}}));
  EXPECT_EQ(made["config"]["searcher"]["name"], "single");
  EXPECT_THAT(dtrain_.Run({"list"}).out,
              HasSubstr(" 4  again (continues 1.2) "));
  EXPECT_EQ(made["config"]["searcher"]["max_length"], json({{"batches", 10}}));
  EXPECT_EQ(made["config"]["searcher"]["source_checkpoint_uuid"], uuid);
  EXPECT_EQ(made["config"]["hyperparameters"],
            json({{"lr", 1}, {"batch", 32}}));
  EXPECT_THAT(dtrain_.Run({"describe", "4"}).out,
              HasSubstr("  forked_from   "));
}

TEST_F(ContinueTest, KeepsItsSourceCheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  dtrain_.Run({"continue", "cccc", "--set", "max_restarts=0", "--set",
               "resources.slots=cpu"});
  ASSERT_EQ(dtrain_.Run({"delete", "1", "--yes"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"gc"}).code, 0);
  const fs::path source = layout_.Source(4, uuid);
  EXPECT_TRUE(fs::exists(source / "model.safetensors"));
  EXPECT_TRUE(fs::exists(source / "MANIFEST.json"));
  ASSERT_EQ(dtrain_.Run({"delete", "4", "--yes"}).code, 0);
  EXPECT_FALSE(fs::exists(source));
}

TEST_F(ContinueTest, BestOptionTakesTheBestCheckpoint) {
  AddCheckpoint(layout_, {1, 2}, 100, 'c');
  AddCheckpoint(layout_, {1, 2}, 200, 'd');
  for (const char* option : {"--quiet", "--best"}) {
    std::vector<std::string> words = {"continue", "1.2",
                                      "--set",    "max_restarts=0",
                                      "--set",    "resources.slots=cpu"};
    if (option == std::string("--best")) words.emplace_back(option);
    dtrain_.Run(words);
  }
  const auto from = [&](const std::string& id) {
    return Described(id)["provenance"]["forked_from"]["batches"];
  };
  EXPECT_EQ(from("4"), 200);
  EXPECT_EQ(from("5"), 100);
}

// Stored experiments are like this: the best validation, at batch 100, has no
// checkpoint.
TEST_F(ContinueTest, RefusesABestValidationWithoutACheckpoint) {
  Store::OpenForWriting(layout_).Write([](StoreWriter& writer) {
    writer.SetCheckpointState("0a1b2c3d-0000-4000-8000-000000000001",
                              "DELETED");
    writer.AddValidation({1, 2}, 0.5, 200, /*smaller_is_better=*/true);
  });
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 200, 'd');
  const std::string problem =
      "trial 1.2: its best validation (loss 0.25 at batch 100) has no "
      "checkpoint; the best one with a checkpoint is " +
      uuid + " (0.5 at batch 200)";
  ExpectRefused({"1.2", "--best"}, 3, problem);
  ExpectRefused({"1", "--best"}, 3, problem + "; give a checkpoint");
  ExpectRefused({"1"}, 2, "experiment 1 has 2 trials; give one such as 1.1");
  ExpectRefused({"1", "--latest"}, 2, "experiment 1 has 2 trials");
  ExpectRefused({"1.2", "--best", "--latest"}, 2, "--latest");
  ExpectRefused({"dddd", "--latest"}, 2, "--latest: requires a trial");
  ExpectRefused({"7", "--best"}, 3, "no experiment 7");
  ExpectRefused({"3", "--best"}, 3, "has no finite validation value of 'loss'");

  const CliResult best = dtrain_.Run({"best", "1", "--json"});
  EXPECT_EQ(best.code, 0);
  EXPECT_THAT(best.err, HasSubstr("note: " + problem));
  EXPECT_EQ(best.Json()["best"][0]["checkpoint"], nullptr);
  EXPECT_EQ(best.Json()["best"][0]["best_saved"]["checkpoint"], uuid);
  EXPECT_EQ(dtrain_.Run({"evaluate", "1.2"}).code, 3);
  EXPECT_EQ(dtrain_.Run({"evaluate", "1"}).code, 3);
}

TEST_F(ContinueTest, RefusesADamagedBestCheckpoint) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  AddCheckpoint(layout_, {1, 2}, 200, 'd');
  std::ofstream(layout_.Checkpoint({1, 2}, uuid) / "model.safetensors") << "x";
  ExpectRefused({"1.2", "--best"}, 1, "'model.safetensors'");
}

TEST_F(ContinueTest, RefusesAYamlWithAMissingSource) {
  dtrain_.Write("exp.yaml",
                "name: x\n"
                "entrypoint: builtin:FaultTrial\n"
                "searcher: {name: single, metric: loss, max_length: 10}\n");
  const CliResult no_store =
      dtrain_.Run({"--store", "new", "create", "exp.yaml", "--set",
                   "searcher.source_trial_id=3.7"});
  EXPECT_EQ(no_store.code, 3);
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "new"));
  EXPECT_EQ(dtrain_
                .Run({"create", "exp.yaml", "--set",
                      "searcher.source_checkpoint_uuid=ffff"})
                .code,
            3);
}

TEST_F(ContinueTest, NamesTheCheckpointOfAYamlsTrial) {
  const std::string uuid = AddCheckpoint(layout_, {1, 2}, 100, 'c');
  dtrain_.Write("exp.yaml",
                "name: x\n"
                "entrypoint: builtin:FaultTrial\n"
                "searcher: {name: single, metric: loss, max_length: 10,\n"
                "           source_trial_id: 1.2}\n");
  const json plan =
      dtrain_.Run({"create", "exp.yaml", "--dry-run", "--json"}).Json();
  EXPECT_EQ(plan["config"]["searcher"]["source_checkpoint_uuid"], uuid);
  EXPECT_EQ(plan["config"]["searcher"]["source_trial_id"], nullptr);
}

#ifdef DTRAIN_HAS_TRIALS

constexpr char kLeNetYaml[] =
    "name: digits\n"
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters: {lr: 0.05, global_batch_size: 16, dataset: strokes,\n"
    "                  training_samples: 640}\n"
    "searcher: {name: single, metric: val_accuracy, smaller_is_better: false,\n"
    "           max_length: 40}\n"
    "scheduling_unit: 20\n"
    "reproducibility: {experiment_seed: 3}\n"
    "resources: {slots: cpu}\n";

class ContinueRunTest : public testing::Test {
 protected:
  CliResult Run(const std::vector<std::string>& arguments) const {
    CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }
  // A validation metric of the only trial at a batch.
  json Metric(const std::string& trial, const std::string& name,
              std::int64_t batches) const {
    const json rows = Run({"metrics", trial, "--kind", "validation", "--name",
                           name, "--json"})
                          .Json()["metrics"];
    for (const json& row : rows) {
      if (row["batches"] == batches) return row["value"];
    }
    return nullptr;
  }

  CliRunner dtrain_;
};

TEST_F(ContinueRunTest, StartsWithTheWeightsAndCountsFromZero) {
  dtrain_.Write("digits.yaml", kLeNetYaml);
  Run({"create", "digits.yaml"});
  Run({"continue", "1.1", "--set", "perform_initial_validation=true", "--set",
       "searcher.max_length=20"});
  const json last = Metric("1.1", "val_accuracy", 40);
  ASSERT_TRUE(last.is_number());
  EXPECT_EQ(Metric("2.1", "val_accuracy", 0), last);
  EXPECT_EQ(Run({"trials", "2", "--json"}).Json()["trials"][0]["batches"], 20);
  EXPECT_THAT(Run({"logs", "2"}).out, HasSubstr("started from checkpoint"));
  const json made = Run({"describe", "2", "--json"}).Json();
  EXPECT_EQ(made["provenance"]["forked_from"]["trial"], "1.1");
}

TEST_F(ContinueRunTest, StartsFromTheTrialThatAYamlNames) {
  dtrain_.Write("digits.yaml", kLeNetYaml);
  Run({"create", "digits.yaml"});
  Run({"create", "digits.yaml", "--set", "searcher.source_trial_id=1.1",
       "--set", "perform_initial_validation=true"});
  EXPECT_EQ(Metric("2.1", "val_accuracy", 0),
            Metric("1.1", "val_accuracy", 40));
}

// The loss falls and a greater one is better: batch 20 is the best.
TEST_F(ContinueRunTest, StartsWithTheBestModelOrRefuses) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3", 60));
  const std::vector<std::string> create = {"create", "fault.yaml", "--set",
                                           "searcher.smaller_is_better=false",
                                           "--set"};
  auto first = create;
  first.emplace_back("checkpoint_policy=best");
  Run(first);
  auto second = create;
  second.emplace_back("checkpoint_policy=none");
  second.insert(second.end(), {"--set", "min_checkpoint_period=30"});
  dtrain_.Run(second);
  const auto from = [&](const std::string& id) {
    return Run({"describe", id, "--json"})
        .Json()["provenance"]["forked_from"]["batches"];
  };
  Run({"continue", "1.1", "--best"});
  EXPECT_EQ(from("3"), 20);
  Run({"continue", "1", "--best"});
  EXPECT_EQ(from("4"), 20);
  Run({"continue", "1", "--latest"});
  EXPECT_EQ(from("5"), 60);

  for (const char* source : {"2", "2.1"}) {
    const CliResult refused = dtrain_.Run({"continue", source, "--best"});
    EXPECT_EQ(refused.code, 3);
    EXPECT_THAT(refused.err, HasSubstr("trial 2.1 has no checkpoint; "));
    EXPECT_THAT(refused.err, HasSubstr("save_trial_best"));
  }
  EXPECT_EQ(dtrain_.Run({"describe", "6"}).code, 3);
}

TEST_F(ContinueRunTest, ResumesAfterItsSourceIsDeleted) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3, step_ms: 10", 40));
  Run({"create", "fault.yaml"});
  const CliResult paused =
      dtrain_.Run({"continue", "1.1", "--set", "searcher.max_length=400"},
                  {.signal_when = "validation at batch 20", .signal = SIGINT});
  ASSERT_EQ(paused.code, 130) << paused.err;
  Run({"delete", "1", "--yes"});
  Run({"gc"});
  EXPECT_EQ(Run({"resume", "2", "--json"}).Json()["state"], "COMPLETED");
}

TEST_F(ContinueRunTest, RunsInTheBackground) {
  dtrain_.Write("fault.yaml", FaultYaml("x: 0.3", 40));
  Run({"create", "fault.yaml"});
  EXPECT_EQ(Run({"continue", "1.1", "-d"}).out, "2\n");
  Run({"wait", "2"});
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain
