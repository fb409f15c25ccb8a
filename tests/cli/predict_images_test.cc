// `dtrain predict` on image files, with models that were really trained.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

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

  // The model knows the classes that it was trained on, whatever comes later.
  Copy("420.jpg", "data/train/aardvarks/1.jpg");
  Copy("420.jpg", "data/val/aardvarks/1.jpg");
  const CliResult later = dtrain_.Run({"predict", uuid, "a.jpg", "--json"});
  EXPECT_EQ(later.Json()["classes"], names);
  EXPECT_THAT(later.err,
              HasSubstr("classes differ from those of the training"));
}

TEST_F(PredictImagesTest, NamesWhatItCannotRead) {
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

TEST_F(PredictImagesTest, RefusesWhatIsNotThere) {
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

TEST_F(PredictImagesTest, SaysThatATrialTakesNone) {
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
