// `dtrain evaluate` with a model that was really trained.
//
// `dtrain predict` on image files, with models that were really trained.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EvaluateTest : public testing::Test {
 protected:
  // Experiment 1, of five batches; gives its checkpoint.
  std::string Train() {
    dtrain_.Write("digits.yaml",
                  "entrypoint: digits:LeNetTrial\n"
                  "hyperparameters: {dataset: strokes, global_batch_size: 16}\n"
                  "searcher: {name: single, metric: val_loss, max_length: 5}\n"
                  "resources: {slots: cpu}\n");
    const CliResult result = dtrain_.Run({"create", "digits.yaml"});
    EXPECT_EQ(result.code, 0) << result.err;
    return dtrain_.Run({"checkpoints", "1", "--json"})
        .Json()["checkpoints"][0]["uuid"];
  }

  // Experiment 1, of CIFAR-10's trial on the images in data/.
  void TrainOnImages() {
    WriteImages("data", /*last=*/1);
    dtrain_.Write(
        "cifar.yaml",
        "entrypoint: cifar10:CNNTrial\n"
        "hyperparameters: {data: " +
            (dtrain_.directory() / "data").string() +
            ", global_batch_size: 16}\n"
            "searcher: {name: single, metric: val_loss, max_length: 5}\n"
            "resources: {slots: cpu}\n");
    const CliResult result = dtrain_.Run({"create", "cifar.yaml"});
    EXPECT_EQ(result.code, 0) << result.err;
  }
  // Twenty images of two colours a file, of the classes 0 and `last`.
  void WriteImages(const std::string& directory, int last) {
    std::filesystem::create_directories(dtrain_.directory() / directory);
    for (const char* file :
         {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
          "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
      std::string bytes;
      for (int i = 0; i < 20; ++i) {
        bytes += static_cast<char>(i % 2 * last) +
                 std::string(3072, static_cast<char>(100 * (i % 2)));
      }
      dtrain_.Write(directory + "/" + file, bytes);
    }
  }

  const CliRunner dtrain_;
};

TEST_F(EvaluateTest, UnmountedStorageIsNotDamage) {
  dtrain_.Write("digits.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {dataset: strokes, global_batch_size: 16}\n"
                "searcher: {name: single, metric: val_loss, max_length: 2}\n"
                "resources: {slots: cpu}\n"
                "checkpoint_storage: {path: kept}\n");
  const auto kept = dtrain_.directory() / "kept";
  std::filesystem::create_directory(kept);
  std::filesystem::permissions(kept, std::filesystem::perms::owner_all);
  ASSERT_EQ(dtrain_.Run({"create", "digits.yaml"}).code, 0);
  std::filesystem::rename(kept, dtrain_.directory() / "unmounted");
  const CliResult result = dtrain_.Run({"evaluate", "1"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("does not exist; mount or restore it"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("damaged")));
}

TEST_F(EvaluateTest, GivesTheMetricsOfTheTrial) {
  const std::string uuid = Train();
  const CliResult result =
      dtrain_.Run({"evaluate", uuid.substr(0, 8), "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json evaluation = result.Json();
  EXPECT_EQ(evaluation["checkpoint"], uuid);
  EXPECT_EQ(evaluation["trial"], "1.1");
  EXPECT_EQ(evaluation["split"], "validation");
  const json metrics =
      dtrain_.Run({"metrics", "1", "--kind", "validation", "--json"})
          .Json()["metrics"];
  ASSERT_EQ(metrics.size(), 2);
  for (const json& metric : metrics) {
    EXPECT_NEAR(evaluation["metrics"][metric["name"]].get<double>(),
                metric["value"].get<double>(), 1e-6);
  }
  // It leaves no trace.
  EXPECT_EQ(dtrain_.Run({"metrics", "1", "--kind", "validation", "--json"})
                .Json()["metrics"],
            metrics);

  const CliResult text = dtrain_.Run({"evaluate", uuid, "--slots", "none"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("of trial 1.1, validation set\n"));
  EXPECT_THAT(text.out, HasSubstr("  val_loss  "));
  EXPECT_THAT(text.out, HasSubstr("[Elapsed 0:00:"));
  EXPECT_THAT(text.err, HasSubstr("own handwritten digits"));

  const CliResult slots = dtrain_.Run({"evaluate", uuid, "--slots", "many"});
  EXPECT_EQ(slots.code, 2);
  EXPECT_THAT(slots.err, HasSubstr("--slots: 'many' is not valid here"));

  const CliResult damaged = dtrain_.RunProgram(
      {"bash", "-c",
       "echo x >>store/experiments/1/trials/1/checkpoints/" + uuid +
           "/model.safetensors; dtrain --store store evaluate " + uuid});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("model.safetensors"));
}

TEST_F(EvaluateTest, PredictsClasses) {
  const std::string uuid = Train();
  const CliResult result =
      dtrain_.Run({"predict", uuid, "--limit", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json predictions = result.Json()["predictions"];
  ASSERT_EQ(predictions.size(), 3);
  double sum = 0;
  for (const json& value : predictions[0]["probabilities"]) {
    sum += value.get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(predictions[2]["sample"], 2);
  EXPECT_EQ(predictions[0]["probabilities"][predictions[0]["class"].get<int>()],
            predictions[0]["probability"]);
  EXPECT_TRUE(predictions[0].contains("target"));

  const CliResult table =
      dtrain_.Run({"predict", uuid, "--limit", "3", "--csv"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out,
              testing::StartsWith("sample,class,probability,target\r\n0,"));
  EXPECT_THAT(table.err, HasSubstr("/3)"));

  const CliResult file =
      dtrain_.Run({"predict", uuid, "--out", "p.safetensors"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_THAT(file.err, HasSubstr("output [10000, 10], target"));
  EXPECT_GT(std::filesystem::file_size(dtrain_.directory() / "p.safetensors"),
            10'000 * (10 * 4 + 8));

  const CliResult features =
      dtrain_.Run({"predict", uuid, "--features", "--out", "f.safetensors"});
  const json written =
      dtrain_.Run({"predict", uuid, "--out", "j.safetensors", "--json"}).Json();
  EXPECT_EQ(written["file"], "j.safetensors");
  EXPECT_EQ(written["checkpoint"], uuid);
  EXPECT_EQ(written["shape"].size(), 2u);
  EXPECT_EQ(written["classes"], json::array());
  EXPECT_EQ(features.code, 1);
  EXPECT_THAT(features.err, HasSubstr("this trial has no Features"));
}

TEST_F(EvaluateTest, ReportsAMissingTestSet) {
  const std::string uuid = Train();
  for (const char* command : {"evaluate", "predict"}) {
    const CliResult result = dtrain_.Run({command, uuid, "--split", "test"});
    EXPECT_EQ(result.code, 3);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                HasSubstr("error: this trial's data has no test set of its "
                          "own; it has: training, validation; name one of "
                          "these with --split"));
  }
  EXPECT_EQ(dtrain_.Run({"evaluate", uuid, "--split", "training"}).code, 0);
}

TEST_F(EvaluateTest, EvaluatesTheBestModelOfATrialOrExperiment) {
  Train();
  const auto measured = [&](const std::vector<std::string>& arguments) {
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.Json()["batches"];
  };
  EXPECT_EQ(measured({"evaluate", "1", "--json"}), 5);
  EXPECT_EQ(measured({"evaluate", "1.1", "--json"}), 5);
  EXPECT_EQ(measured({"evaluate", "1.1", "--latest", "--json"}), 5);
  EXPECT_EQ(dtrain_.Run({"evaluate", "2"}).code, 3);
  EXPECT_EQ(dtrain_.Run({"evaluate", "1.2"}).code, 3);
}

TEST_F(EvaluateTest, EvaluatesTheLatestModelOnRequest) {
  dtrain_.Write("digits.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {dataset: strokes, global_batch_size: 16,\n"
                "                  lr: 0.1}\n"
                "searcher: {name: single, metric: val_loss, max_length: 20,\n"
                "           smaller_is_better: false}\n"
                "min_validation_period: 10\n"
                "checkpoint_policy: all\n"
                "reproducibility: {experiment_seed: 3}\n"
                "resources: {slots: cpu}\n");
  ASSERT_EQ(dtrain_.Run({"create", "digits.yaml"}).code, 0);
  const json trial = dtrain_.Run({"describe", "1.1", "--json"}).Json();
  ASSERT_EQ(trial["best"]["batches"], 10);
  EXPECT_EQ(dtrain_.Run({"evaluate", "1.1", "--json"}).Json()["batches"], 10);
  EXPECT_EQ(
      dtrain_.Run({"evaluate", "1.1", "--latest", "--json"}).Json()["batches"],
      20);
  const std::vector<std::string> predict = {"predict", "1.1", "--limit", "1",
                                            "--json"};
  EXPECT_EQ(dtrain_.Run(predict).Json()["checkpoint"],
            trial["best"]["checkpoint"]);
  std::vector<std::string> latest = predict;
  latest.emplace_back("--latest");
  EXPECT_EQ(dtrain_.Run(latest).Json()["checkpoint"], trial["checkpoint"]);
}

TEST_F(EvaluateTest, EvaluatesOnOtherData) {
  TrainOnImages();
  WriteImages("other", /*last=*/7);
  const auto metrics = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"evaluate", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return dtrain_.Run(words).Json()["metrics"];
  };
  EXPECT_EQ(metrics({"--data", "data"}), metrics({}));
  EXPECT_NE(metrics({"--data", "other", "--record"}), metrics({}));
  EXPECT_EQ(dtrain_.Run({"describe", "1.1", "--json"})
                .Json()["evaluations"][0]["data"],
            (dtrain_.directory() / "other").string());
  const auto last_class = [&](const std::string& data) {
    const json predictions =
        dtrain_.Run({"predict", "1", "--data", data, "--json"})
            .Json()["predictions"];
    int last = 0;
    for (const json& one : predictions) {
      last = std::max(last, one["target"].get<int>());
    }
    return last;
  };
  EXPECT_EQ(last_class("data"), 1);
  EXPECT_EQ(last_class("other"), 7);
}

TEST_F(EvaluateTest, NamesTheMetricsOfATestSetAndRecordsThem) {
  TrainOnImages();
  const CliResult result =
      dtrain_.Run({"evaluate", "1", "--split", "test", "--record", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json evaluation = result.Json();
  EXPECT_EQ(evaluation["split"], "test");
  EXPECT_EQ(evaluation["recorded"], true);
  EXPECT_EQ(evaluation["metrics"].size(), 2u);
  EXPECT_TRUE(evaluation["metrics"]["loss"].is_number());
  EXPECT_TRUE(evaluation["metrics"]["accuracy"].is_number());
  const json validation = dtrain_.Run({"evaluate", "1", "--json"}).Json();
  EXPECT_TRUE(validation["metrics"].contains("val_loss"));
  EXPECT_EQ(validation["recorded"], false);

  for (const char* target : {"1", "1.1"}) {
    const json recorded =
        dtrain_.Run({"describe", target, "--json"}).Json()["evaluations"];
    ASSERT_EQ(recorded.size(), 1u);
    EXPECT_EQ(recorded[0]["split"], "test");
    EXPECT_EQ(recorded[0]["checkpoint"], evaluation["checkpoint"]);
    EXPECT_EQ(recorded[0]["metrics"], evaluation["metrics"]);
    EXPECT_EQ(recorded[0]["data"], nullptr);
  }
  EXPECT_THAT(dtrain_.Run({"describe", "1.1"}).out,
              HasSubstr("test set, trial 1.1, checkpoint "));
}

TEST_F(EvaluateTest, RefusesAnUnknownCheckpoint) {
  const CliResult result = dtrain_.Run({"evaluate", "0123abcd"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("0123abcd"));
}

TEST_F(EvaluateTest, RefusesAnUnknownSplit) {
  const CliResult result =
      dtrain_.Run({"evaluate", "0123abcd", "--split", "holdout"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("holdout"));
}

namespace fs = std::filesystem;
using testing::ElementsAre;

class PredictImagesTest : public testing::Test {
 protected:
  // Experiment 1, of one batch; gives its checkpoint.
  std::string Train(const std::string& yaml,
                    const std::string& metric = "val_loss") const {
    dtrain_.Write("train.yaml",
                  yaml + "\nsearcher: {name: single, metric: " + metric +
                      ", max_length: 1}\nresources: {slots: cpu}\n");
    const CliResult result = dtrain_.Run({"create", "train.yaml"});
    EXPECT_EQ(result.code, 0) << result.err;
    return dtrain_.Run({"checkpoints", "1", "--json"})
        .Json()["checkpoints"][0]["uuid"];
  }
  std::string TrainDigits() const {
    return Train(
        "entrypoint: digits:LeNetTrial\n"
        "hyperparameters: {dataset: strokes, global_batch_size: 16}");
  }
  // One of the recorded images, under another name.
  void Copy(const std::string& image, const std::string& to) const {
    const fs::path path = dtrain_.directory() / to;
    fs::create_directories(path.parent_path());
    fs::copy_file(fs::path(DTRAIN_GOLDEN_DIR) / "images" / image, path);
  }

  const CliRunner dtrain_;
};

TEST_F(PredictImagesTest, TakesFilesAndFolders) {
  Copy("420.jpg", "a.jpg");
  Copy("rgb.png", "folder/deep/b.PNG");
  dtrain_.Write("folder/notes.txt", "no image");
  const std::string uuid = TrainDigits();

  const CliResult result =
      dtrain_.Run({"predict", uuid, "a.jpg", "folder", "a.jpg", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = result.Json();
  ASSERT_EQ(json["predictions"].size(), 3u);
  EXPECT_EQ(json["predictions"][0]["image"], "a.jpg");
  EXPECT_EQ(json["predictions"][1]["image"], "folder/deep/b.PNG");
  EXPECT_EQ(json["predictions"][0]["probabilities"].size(), 10u);
  EXPECT_EQ(json["predictions"][0]["probabilities"],
            json["predictions"][2]["probabilities"]);
  EXPECT_NE(json["predictions"][0]["probabilities"],
            json["predictions"][1]["probabilities"]);
  EXPECT_THAT(json["unread"], ElementsAre());
  EXPECT_FALSE(json.contains("split"));

  const CliResult text = dtrain_.Run({"predict", uuid, "a.jpg"});
  EXPECT_THAT(text.out, HasSubstr("a.jpg"));
}

TEST_F(PredictImagesTest, PrintsTheNamesOfClasses) {
  Copy("420.jpg", "data/train/ants/1.jpg");
  Copy("rgb.png", "data/train/bees/1.png");
  Copy("420.jpg", "data/val/ants/1.jpg");
  Copy("rgb.png", "data/val/bees/1.png");
  Copy("420.jpg", "a.jpg");
  const std::string uuid = Train(
      "entrypoint: model_def:ImageNetTrial\n"
      "hyperparameters: {arch: resnet18, crop_size: 32, num_classes: 3, "
      "global_batch_size: 2, data: '" +
      (dtrain_.directory() / "data").string() + "'}");

  const auto image = dtrain_.Run({"predict", uuid, "a.jpg", "--json"}).Json();
  const std::vector<std::string> names = {"ants", "bees"};
  EXPECT_EQ(image["classes"], names);
  const int label = image["predictions"][0]["class"];
  EXPECT_EQ(image["predictions"][0]["class_name"],
            label < 2 ? names.at(static_cast<std::size_t>(label)) : "");
  const auto set = dtrain_.Run({"predict", uuid, "--json"}).Json();
  EXPECT_EQ(set["predictions"][0]["target_name"], "ants");
  EXPECT_EQ(set["predictions"][1]["target_name"], "bees");
  const CliResult text = dtrain_.Run({"predict", uuid});
  EXPECT_THAT(text.out, HasSubstr("TARGET NAME"));
  EXPECT_THAT(text.out, HasSubstr("bees"));

  // The model keeps the class names of its training data.
  Copy("420.jpg", "data/train/aardvarks/1.jpg");
  Copy("420.jpg", "data/val/aardvarks/1.jpg");
  const CliResult later = dtrain_.Run({"predict", uuid, "a.jpg", "--json"});
  EXPECT_EQ(later.Json()["classes"], names);
  EXPECT_THAT(later.err,
              HasSubstr("classes differ from those of the training"));
}

TEST_F(PredictImagesTest, NamesUnreadableFiles) {
  Copy("420.jpg", "good.jpg");
  dtrain_.Write("bad.jpg", "this is no image");
  const std::string uuid = TrainDigits();

  const CliResult result =
      dtrain_.Run({"predict", uuid, "bad.jpg", "good.jpg", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.Json()["unread"], ElementsAre("bad.jpg"));
  ASSERT_EQ(result.Json()["predictions"].size(), 1u);
  EXPECT_EQ(result.Json()["predictions"][0]["image"], "good.jpg");
  EXPECT_THAT(result.err, HasSubstr("bad.jpg"));

  const CliResult none = dtrain_.Run({"predict", uuid, "bad.jpg"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("none of 1 images could be read"));
}

TEST_F(PredictImagesTest, RefusesMissingFiles) {
  const std::string uuid = TrainDigits();
  const CliResult missing = dtrain_.Run({"predict", uuid, "none.jpg"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.jpg: no such image or directory"));

  fs::create_directory(dtrain_.directory() / "empty");
  const CliResult empty = dtrain_.Run({"predict", uuid, "empty"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err,
              HasSubstr("empty: contains no .jpg, .jpeg or .png file"));
}

TEST_F(PredictImagesTest, RefusesATrialThatTakesNoImages) {
  Copy("420.jpg", "a.jpg");
  const std::string uuid =
      Train("entrypoint: builtin:FaultTrial\nhyperparameters: {}", "loss");
  const CliResult result = dtrain_.Run({"predict", uuid, "a.jpg"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("does not define how images are preprocessed"));
}

}  // namespace
}  // namespace dtrain
