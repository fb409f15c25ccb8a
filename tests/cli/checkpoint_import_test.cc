// checkpoint import: of files that PyTorch wrote, and of what we exported.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/weights_file.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A file that torch.save wrote.
std::string Recorded(const std::string& name) {
  return std::string(DTRAIN_GOLDEN_DIR) + "/state_dicts/" + name + ".weights";
}

class CheckpointImportTest : public testing::Test {
 protected:
  CliResult Import(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"checkpoint", "import"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return dtrain_.Run(all);
  }

  const CliRunner dtrain_;
};

TEST_F(CheckpointImportTest, ConvertsWhatPyTorchWrote) {
  const CliResult result =
      Import({Recorded("network"), "--out", "net.safetensors", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const WeightsFile from = OpenWeights(Recorded("network"));
  const WeightsFile to = OpenWeights(dtrain_.directory() / "net.safetensors");
  ASSERT_EQ(from.tensors().size(), to.tensors().size());
  EXPECT_EQ(result.Json()["tensors"], to.tensors().size());
  for (std::size_t i = 0; i < to.tensors().size(); ++i) {
    EXPECT_EQ(to.tensors()[i].name, from.tensors()[i].name);
    EXPECT_TRUE(
        std::ranges::equal(to.tensors()[i].bytes, from.tensors()[i].bytes));
  }

  // By default beside nothing: in the working directory, under its name.
  EXPECT_EQ(Import({Recorded("network_old")}).code, 0);
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "network_old.safetensors"));
  const CliResult again = Import({Recorded("network_old")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("network_old.safetensors"));
  EXPECT_EQ(Import({Recorded("network_old"), "--force"}).code, 0);
}

TEST_F(CheckpointImportTest, RunsNothingAndRefusesTheRest) {
  for (const char* name : {"malice", "malice_old", "script"}) {
    const CliResult result = Import({Recorded(name)});
    EXPECT_EQ(result.code, 1) << name;
    EXPECT_FALSE(
        fs::exists(dtrain_.directory() / (std::string(name) + ".safetensors")));
  }
  const CliResult missing = Import({"none.pth"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.pth"));
  dtrain_.Write("text.pth", "no weights");
  EXPECT_EQ(Import({"text.pth"}).code, 1);
}

TEST_F(CheckpointImportTest, RefusesFlagsThatDoNotGoTogether) {
  dtrain_.Write("c.yaml", "x");
  const CliResult result =
      Import({Recorded("network"), "c.yaml", "--out", "x.safetensors"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("give one of them"));
}

#ifdef DTRAIN_HAS_TRIALS

constexpr const char* kDigits =
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters: {dataset: strokes, global_batch_size: 16, lr: 0.1}\n"
    "searcher: {name: single, metric: val_loss, max_length: 5}\n"
    "resources: {slots: cpu}\n";

class CheckpointImportRunTest : public CheckpointImportTest {
 protected:
  // The weights of a trained model, as PyTorch would write them.
  std::string Train() const {
    dtrain_.Write("digits.yaml", kDigits);
    EXPECT_EQ(dtrain_.Run({"create", "digits.yaml"}).code, 0);
    const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                                 .Json()["checkpoints"][0]["uuid"];
    EXPECT_EQ(dtrain_
                  .Run({"checkpoint", "export", uuid, "--to", "state_dict",
                        "--out", "digits.pth"})
                  .code,
              0);
    return uuid;
  }
};

TEST_F(CheckpointImportRunTest, MeasuresAsTheModelThatWasExported) {
  const std::string uuid = Train();
  const CliResult result = Import({"digits.pth", "digits.yaml", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["trial"], "2.1");
  const std::string imported = result.Json()["checkpoint"];

  const auto before = dtrain_.Run({"evaluate", uuid, "--json"}).Json();
  const auto after = dtrain_.Run({"evaluate", imported, "--json"}).Json();
  EXPECT_EQ(after["metrics"], before["metrics"]);
  EXPECT_EQ(dtrain_.Run({"checkpoint", "verify", imported}).code, 0);
  const auto row = dtrain_.Run({"list", "--json"}).Json()["experiments"];
  EXPECT_EQ(row[1]["state"], "COMPLETED");

  const CliResult continued = dtrain_.Run({"continue", imported});
  EXPECT_EQ(continued.code, 0) << continued.err;
  EXPECT_EQ(dtrain_.Run({"doctor"}).code, 0);
}

TEST_F(CheckpointImportRunTest, RefusesWeightsOfAnotherModel) {
  dtrain_.Write("digits.yaml", kDigits);
  const CliResult result = Import({Recorded("network"), "digits.yaml"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("has no tensor '"));
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(CheckpointImportRunTest, WantsAllHyperparametersAsConstants) {
  Train();
  dtrain_.Write("search.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {dataset: strokes, global_batch_size: 16,\n"
                "  lr: {type: double, minval: 0.1, maxval: 0.2}}\n"
                "searcher: {name: random, metric: val_loss, max_length: 5,\n"
                "  max_trials: 5}\n");
  const CliResult searched = Import({"digits.pth", "search.yaml"});
  EXPECT_EQ(searched.code, 2);
  EXPECT_THAT(searched.err, HasSubstr("--set hyperparameters.lr=VALUE"));
  const CliResult set =
      Import({"digits.pth", "search.yaml", "--set", "hyperparameters.lr=0.15"});
  EXPECT_EQ(set.code, 0) << set.err;
  EXPECT_THAT(set.err, HasSubstr("imported "));

  dtrain_.Write("command.yaml",
                "entrypoint: [sh, -c, 'true']\n"
                "searcher: {name: single, metric: loss, max_length: 5}\n");
  const CliResult command = Import({"digits.pth", "command.yaml"});
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.err, HasSubstr("is a command"));
}

#endif

}  // namespace
}  // namespace dtrain
