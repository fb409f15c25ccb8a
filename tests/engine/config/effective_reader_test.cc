#include <string>

#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class BadKeyTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadKeyTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Names, BadKeyTest,
    testing::Values(
        BadConfig{"Unknown", kValid + "max_restart: 1\n", 3, 1, "max_restart",
                  "unknown key; did you mean 'max_restarts'?"},
        BadConfig{"UnknownInSection", kValid + "resources:\n  slot: auto\n", 4,
                  3, "resources.slot", "did you mean 'slots'?"},
        BadConfig{"SlurmInResources",
                  kValid + "resources:\n  slurm: {partition: gpu}\n", 4, 10,
                  "resources.slurm", "move the section to the top level"},
        BadConfig{"KeyOfASection", kValid + "max_trials: 4\n", 3, 1,
                  "max_trials", "did you mean 'searcher.max_trials'?"},
        BadConfig{"BatchAsALength",
                  kValid + "min_validation_period: {batch: 200}\n", 3, 25,
                  "min_validation_period.batch", "did you mean 'batches'?"},
        BadConfig{"FarFromAll", kValid + "zzzzzzzz: 1\n", 3, 1, "zzzzzzzz",
                  "unknown key; remove it"},
        BadConfig{"DottedName", kValid + "resources.slots: auto\n", 3, 1,
                  "resources.slots", "unknown key"},
        BadConfig{"WrongCase", kValid + "Name: x\n", 3, 1, "Name",
                  "did you mean 'name'?"},
        BadConfig{"NoEntrypoint",
                  "searcher: {name: single, metric: a, "
                  "max_length: 1}\n",
                  0, 0, "entrypoint", "required but missing"},
        BadConfig{"NoSearcher", "entrypoint: a:B\n", 0, 0, "searcher",
                  "required but missing"},
        BadConfig{"NullSearcher", "entrypoint: a:B\nsearcher:\n", 2, 1,
                  "searcher", "required but missing"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Types, BadKeyTest,
    testing::Values(
        BadConfig{"SectionAsScalar", kValid + "resources: 4\n", 3, 12,
                  "resources", "expected a map, got the integer 4"},
        BadConfig{"SectionAsList", kValid + "optimizations:\n  - a\n", 3, 1,
                  "optimizations", "expected a map, got a list"},
        BadConfig{"QuotedInteger", kValid + "max_restarts: \"5\"\n", 3, 15,
                  "max_restarts", "got the string '5'; remove the quotes"},
        BadConfig{"ExponentInteger", kValid + "max_restarts: 1e3\n", 3, 15,
                  "max_restarts", "got the number 1e3; write 1000"},
        BadConfig{"FractionInteger", kValid + "max_restarts: 1.5\n", 3, 15,
                  "max_restarts", "got the number 1.5"},
        BadConfig{"NegativeInteger", kValid + "max_restarts: -1\n", 3, 15,
                  "max_restarts", "from 0 to 1000000, got the integer -1"},
        BadConfig{"HugeInteger",
                  kValid + "scheduling_unit: 9999999999999999999\n", 3, 18,
                  "scheduling_unit", "too large for a number"},
        BadConfig{"ZeroSchedulingUnit", kValid + "scheduling_unit: 0\n", 3, 18,
                  "scheduling_unit", "from 1 to"},
        BadConfig{"NegativeRecords", kValid + "records_per_epoch: -1\n", 3, 20,
                  "records_per_epoch", "at least 0"},
        BadConfig{"BooleanInteger", kValid + "max_restarts: true\n", 3, 15,
                  "max_restarts", "got the boolean true"},
        BadConfig{"YesIsNoBoolean",
                  kValid + "perform_initial_validation: yes\n", 3, 29,
                  "perform_initial_validation",
                  "expected true or false, got the string 'yes'"},
        BadConfig{"OneIsNoBoolean", kValid + "perform_initial_validation: 1\n",
                  3, 29, "perform_initial_validation", "true or false"},
        BadConfig{"NumericName", kValid + "name: 2024\n", 3, 7, "name",
                  "expected a string, got the integer 2024; quote it"},
        BadConfig{"EmptyName", kValid + "name: ''\n", 3, 7, "name", "is empty"},
        BadConfig{"LongName", kValid + "name: " + std::string(1001, 'x') + "\n",
                  3, 7, "name", "has 1001 bytes"},
        BadConfig{"OptimizationLevel",
                  kValid + "optimizations: {mixed_precision: O2}\n", 3, 34,
                  "optimizations.mixed_precision", "use 'O1' instead"},
        BadConfig{"LabelsNoList", kValid + "labels: a\n", 3, 9, "labels",
                  "a list of strings"},
        BadConfig{"NumericLabel", kValid + "labels: [a, 5]\n", 3, 13,
                  "labels[1]", "quote it"},
        BadConfig{"DataNoMap", kValid + "data: /data\n", 3, 7, "data",
                  "expected a map"},
        BadConfig{"NanInData", kValid + "data: {a: [.nan]}\n", 3, 12,
                  "data.a[0]", "a finite number"},
        BadConfig{"UnknownPolicy", kValid + "checkpoint_policy: bst\n", 3, 20,
                  "checkpoint_policy", "did you mean 'best'?"},
        BadConfig{"NegativeSeed",
                  kValid + "reproducibility: {experiment_seed: -1}\n", 3, 36,
                  "reproducibility.experiment_seed", "from 0 to 2147483647"},
        BadConfig{"LargeSeed",
                  kValid + "reproducibility: {experiment_seed: 2147483648}\n",
                  3, 36, "reproducibility.experiment_seed", "to 2147483647"},
        BadConfig{"UnknownPrecision",
                  kValid + "optimizations: {mixed_precision: fp17}\n", 3, 34,
                  "optimizations.mixed_precision", "did you mean 'fp16'?"},
        BadConfig{"SinkSize", kValid + "optimizations: {sink_size: -2}\n", 3,
                  28, "optimizations.sink_size", "from -1 to"},
        BadConfig{"Switch", kValid + "optimizations: {cuda_graphs: maybe}\n", 3,
                  30, "optimizations.cuda_graphs", "auto, true or false"},
        BadConfig{"NoPatience", kValid + "early_stopping: {min_delta: 1}\n", 3,
                  17, "early_stopping.patience", "required but missing"},
        BadConfig{"NegativeDelta",
                  kValid + "early_stopping: {patience: 1, min_delta: -1}\n", 3,
                  42, "early_stopping.min_delta", "at least 0"},
        BadConfig{"NegativeKeep",
                  kValid + "checkpoint_storage: {save_trial_best: -1}\n", 3, 39,
                  "checkpoint_storage.save_trial_best", "from 0"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    RemoteStorage, BadKeyTest,
    testing::Values(
        BadConfig{"MistypedKey",
                  kValid + "checkpoint_storage: {type: s3, bukket: b}\n", 3, 32,
                  "checkpoint_storage.bukket", "unknown key"},
        BadConfig{"KeyOfAnotherType",
                  kValid + "checkpoint_storage: {type: gcs, secret_key: b}\n",
                  3, 33, "checkpoint_storage.secret_key", "unknown key"},
        BadConfig{"WrongCount",
                  kValid + "checkpoint_storage: {type: azure, "
                           "save_trial_best: x}\n",
                  3, 52, "checkpoint_storage.save_trial_best",
                  "expected an integer"},
        BadConfig{"Other", kValid + "checkpoint_storage: {type: nfs}\n", 3, 28,
                  "checkpoint_storage.type", "directory, shared_fs"}),
    CaseName);

class EffectiveReaderTest : public testing::Test {
 protected:
  nlohmann::json Effective(const std::string& text) {
    const ConfigResult result = ReadConfig(text, {.file_name = "e.yaml"});
    return result.config ? result.config->effective : nlohmann::json();
  }
};

TEST_F(EffectiveReaderTest, TrialsOfSlurmRunOnWorkersOnly) {
  const auto resources =
      Effective(kValid + "resources: {executor: slurm}\n").at("resources");
  EXPECT_EQ(resources.at("listen"), 0);
  EXPECT_EQ(resources.at("local"), false);
  const auto given =
      Effective(kValid +
                "resources: {executor: slurm, local: true, listen: 4000}\n")
          .at("resources");
  EXPECT_EQ(given.at("listen"), 4000);
  EXPECT_EQ(given.at("local"), true);
}

TEST_F(EffectiveReaderTest, SlurmHasAllItsKeysOnceItIsGiven) {
  EXPECT_TRUE(Effective(kValid).at("slurm").is_null());
  EXPECT_TRUE(Effective(kValid + "resources: {slurm: {}}\n")  // Determined's
                  .at("slurm")
                  .is_null());
  const auto slurm = Effective(kValid + "slurm: {time: 90}\n").at("slurm");
  EXPECT_EQ(slurm.at("time"), "01:30:00");
  EXPECT_EQ(slurm.at("max_jobs"), 8);
  EXPECT_EQ(slurm.at("grace"), 120.0);
}

TEST_F(EffectiveReaderTest, FillsInDefaults) {
  const nlohmann::json effective = Effective(kValid);

  EXPECT_EQ(effective["max_restarts"], 5);
  EXPECT_EQ(effective["scheduling_unit"], 100);
  EXPECT_EQ(effective["hang_timeout"], 600);
  EXPECT_EQ(effective["searcher"]["smaller_is_better"], true);
  EXPECT_EQ(effective["resources"]["slots"], "auto");
  EXPECT_TRUE(effective["early_stopping"].is_null());
  EXPECT_TRUE(effective["reproducibility"]["experiment_seed"].is_null());
}

TEST_F(EffectiveReaderTest, TakesNullAsUnset) {
  EXPECT_EQ(Effective(kValid + "max_restarts:\nresources: ~\n"),
            Effective(kValid));
}

TEST_F(EffectiveReaderTest, HasTheKeysOfTheSearcherOnly) {
  const nlohmann::json searcher = Effective(kValid)["searcher"];

  EXPECT_TRUE(searcher.contains("max_length"));
  EXPECT_FALSE(searcher.contains("max_trials"));
  EXPECT_FALSE(searcher.contains("divisor"));
}

TEST_F(EffectiveReaderTest, GivesAliasesTheirCanonicalName) {
  const nlohmann::json effective =
      Effective(kSearcher +
                "  name: asha\n  max_trials: 5\n  num_rungs: 2\n"
                "  max_length: 9\n");

  EXPECT_EQ(effective["searcher"]["name"], "async_halving");
  EXPECT_EQ(
      Effective(kValid +
                "optimizations: {mixed_precision: O0}\n")["optimizations"]
                                                         ["mixed_precision"],
      "none");
}

TEST_F(EffectiveReaderTest, NotesAndOmitsIgnoredKeys) {
  const std::string text = kValid +
                           "bind_mounts: [{host_path: /a}]\n"
                           "environment: {image: pytorch}\n"
                           "resources: {priority: 5}\n";

  const Diagnostics notes = ReadFindings(text, Severity::kNote);

  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].key, "bind_mounts");
  EXPECT_EQ(notes[1].key, "environment.image");
  EXPECT_EQ(notes[2].key, "resources.priority");
  EXPECT_EQ(Effective(text), Effective(kValid));
}

TEST_F(EffectiveReaderTest, ReplacesRemoteStorageByTheStore) {
  const std::string s3 =
      "checkpoint_storage:\n  type: s3\n  bucket: b\n  access_key: secret1\n"
      "  secret_key: secret2\n  prefix: p\n  save_trial_best: 3\n";
  const Diagnostics notes = ReadFindings(kValid + s3, Severity::kNote);

  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].line, 4);
  EXPECT_EQ(notes[0].key, "checkpoint_storage.type");
  EXPECT_THAT(notes[0].message,
              testing::HasSubstr("s3 is not supported; checkpoints are written "
                                 "to this machine, in the store"));
  EXPECT_EQ(Effective(kValid + s3),
            Effective(kValid + "checkpoint_storage: {save_trial_best: 3}\n"));
  for (const char* other : {"gcs, bucket: b", "azure, container: c",
                            "hdfs, hdfs_url: u, hdfs_path: /p, user: u"}) {
    const std::string text =
        kValid + "checkpoint_storage: {type: " + other + "}\n";
    EXPECT_EQ(Effective(text), Effective(kValid)) << other;
    EXPECT_EQ(ReadFindings(text, Severity::kNote).size(), 1u) << other;
  }
}

TEST_F(EffectiveReaderTest, KeepsTheDirectoryGivenWithRemoteStorage) {
  const std::string text =
      kValid + "checkpoint_storage: {type: s3, bucket: b, host_path: /kept}\n";
  const Diagnostics notes = ReadFindings(text, Severity::kNote);

  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0].message,
              testing::HasSubstr("in the directory of host_path"));
  EXPECT_EQ(Effective(text)["checkpoint_storage"]["path"], "/kept");
}

TEST_F(EffectiveReaderTest, TakesAnyLabelAsAName) {
  EXPECT_EQ(Effective(kValid + "name: ../../x\n")["name"], "../../x");
  EXPECT_EQ(Effective(kValid + "name: -rf\n")["name"], "-rf");
  EXPECT_EQ(Effective(kValid + "name: \"a\\eb\"\n")["name"],
            "a\x1b"
            "b");
  EXPECT_EQ(Effective(kValid + "name: " + std::string(300, 'x') + "\n")["name"],
            std::string(300, 'x'));
}

}  // namespace
}  // namespace dtrain
