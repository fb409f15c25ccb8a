// checkpoint export.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/weights_file.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A file of weights: two models' tensors, all of them the letter m.
std::string SampleWeights() {
  static const std::string data(100, 'm');
  const auto bytes = std::as_bytes(std::span(data));
  const std::vector<TensorBytes> tensors = {{.name = "conv.weight",
                                             .dtype = "F32",
                                             .shape = {2, 3},
                                             .bytes = bytes.first(24)},
                                            {.name = "bn.num_batches_tracked",
                                             .dtype = "I64",
                                             .shape = {},
                                             .bytes = bytes.first(8)},
                                            {.name = "critic.weight",
                                             .dtype = "F32",
                                             .shape = {4},
                                             .bytes = bytes.first(16)}};
  return SafetensorsHeader(tensors) + data.substr(0, 24 + 8 + 16);
}

class CheckpointExportTest : public testing::Test {
 protected:
  CheckpointExportTest() {
    FillSampleStore(dtrain_.store());
    AddCheckpoint(layout_, {1, 2}, 100, 'c', SampleWeights());
  }
  CliResult Export(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"checkpoint", "export"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return dtrain_.Run(all);
  }
  // Exports a checkpoint; a shell runs `command` after the manifest was read
  // and before the weights are.
  CliResult ExportWhile(const std::string& command) const {
    return dtrain_.Run(
        {"checkpoint", "export", "cccc", "--to", "safetensors"},
        {.environment = {{"LD_PRELOAD", DTRAIN_PRELOAD},
                         {"BEFORE_OPEN_NAME", "model.safetensors"},
                         {"BEFORE_OPEN_COMMAND", command},
                         // The library is loaded before the sanitizer.
                         {"ASAN_OPTIONS", "verify_asan_link_order=0"}}});
  }
  std::vector<std::string> NamesIn(const std::string& file) const {
    const WeightsFile weights = OpenWeights(dtrain_.directory() / file);
    std::vector<std::string> names;
    for (const TensorBytes& tensor : weights.tensors()) {
      names.push_back(tensor.name);
    }
    return names;
  }
  std::string ReadText(const fs::path& file) const {
    std::ifstream stream(dtrain_.directory() / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // Files that were begun in the working directory.
  std::ptrdiff_t Leftovers() const {
    return std::ranges::count_if(
        fs::directory_iterator(dtrain_.directory()),
        [](const auto& entry) { return entry.path().extension() == ".tmp"; });
  }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(CheckpointExportTest, ExportsTheBestOrLatestOfATrial) {
  AddCheckpoint(layout_, {1, 2}, 200, 'd', SampleWeights());
  EXPECT_EQ(Export({"1.2", "--to", "state_dict"}).code, 0);
  EXPECT_EQ(Export({"last.2", "--to", "state_dict"}).code, 3);
  EXPECT_EQ(Export({"alpha.2", "--latest", "--to", "state_dict"}).code, 0);
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "cccccccc.pth"));
  EXPECT_TRUE(fs::exists(dtrain_.directory() / "dddddddd.pth"));
}

TEST_F(CheckpointExportTest, WritesAStateDict) {
  const CliResult result = Export({"cccc", "--to", "state_dict"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("wrote cccccccc.pth: 3 tensors, "));
  EXPECT_THAT(ReadText("cccccccc.pth"), StartsWith("PK\3\4"));
  EXPECT_THAT(
      NamesIn("cccccccc.pth"),
      ElementsAre("conv.weight", "bn.num_batches_tracked", "critic.weight"));
  EXPECT_EQ(Leftovers(), 0);
}

TEST_F(CheckpointExportTest, WritesSafetensors) {
  EXPECT_EQ(Export({"cccc", "--to", "safetensors"}).code, 0);
  EXPECT_EQ(ReadText("cccccccc.safetensors"), SampleWeights());
}

TEST_F(CheckpointExportTest, PrintsJson) {
  const json document =
      Export({"cccc", "--to", "state_dict", "--out", "a.pth", "--json"}).Json();
  const fs::path file = dtrain_.directory() / "a.pth";
  EXPECT_EQ(document["file"], file.string());
  EXPECT_EQ(document["tensors"], 3);
  EXPECT_EQ(document["bytes"], fs::file_size(file));
  EXPECT_EQ(document["format"], "state_dict");
  EXPECT_EQ(document["checkpoint"], "cccccccc-0000-4000-8000-000000000000");
}

TEST_F(CheckpointExportTest, TakesOneModelOfSeveral) {
  EXPECT_EQ(Export({"cccc", "--to", "state_dict", "--model", "critic"}).code,
            0);
  EXPECT_THAT(NamesIn("cccccccc.pth"), ElementsAre("weight"));
  const CliResult other =
      Export({"cccc", "--to", "safetensors", "--model", "actor"});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("begin with bn, conv, critic; omit"));
}

TEST_F(CheckpointExportTest, WritesTiedTensorsUnderEachName) {
  AddCheckpoint(layout_, {1, 2}, 200, 'd', SampleWeights(),
                R"({"ties": {"head.weight": "conv.weight"}})");
  EXPECT_EQ(Export({"dddd", "--to", "state_dict"}).code, 0);
  EXPECT_EQ(Export({"dddd", "--to", "safetensors"}).code, 0);
  EXPECT_EQ(NamesIn("dddddddd.pth").back(), "head.weight");
  EXPECT_EQ(NamesIn("dddddddd.safetensors").back(), "head.weight");
}

TEST_F(CheckpointExportTest, OverwritesOnlyFilesAndOnlyWithForce) {
  dtrain_.Write("a.pth", "mine");
  const CliResult refused =
      Export({"cccc", "--to", "state_dict", "--out", "a.pth"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--out: 'a.pth' already exists; choose "));
  EXPECT_EQ(ReadText("a.pth"), "mine");

  const CliResult forced =
      Export({"cccc", "--to", "state_dict", "--out", "a.pth", "--force"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(NamesIn("a.pth").size(), 3u);
  fs::create_directory(dtrain_.directory() / "b.pth");
  EXPECT_EQ(
      Export({"cccc", "--to", "state_dict", "--out", "b.pth", "--force"}).code,
      2);
}

TEST_F(CheckpointExportTest, WritesNoFileForADamagedCheckpoint) {
  const fs::path path =
      layout_.Checkpoint({1, 2}, "cccccccc-0000-4000-8000-000000000000");
  std::ofstream(path / "model.safetensors", std::ios::app) << "x";
  dtrain_.Write("a.pth", "mine");

  const CliResult result =
      Export({"cccc", "--to", "state_dict", "--out", "a.pth", "--force"});

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("'model.safetensors' has"));
  EXPECT_THAT(result.err, HasSubstr("the checkpoint is damaged"));
  EXPECT_EQ(ReadText("a.pth"), "mine");
  EXPECT_EQ(Leftovers(), 0);
}

// A running experiment, or another command, may delete it at any time.
TEST_F(CheckpointExportTest, ReportsACheckpointDeletedWhileItIsRead) {
  const CliResult result = ExportWhile("dtrain checkpoint delete cccc");

  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("cccccccc-0000-4000-8000-000000000000 is deleted"));
  EXPECT_EQ(Leftovers(), 0);
}

TEST_F(CheckpointExportTest, FilesThatVanishWhileTheyAreReadAreDamage) {
  const CliResult result = ExportWhile("rm -r store/experiments/1");

  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("the checkpoint is damaged"));
}

TEST_F(CheckpointExportTest, RefusesAnUnknownOrDeletedCheckpoint) {
  const CliResult unknown = Export({"eeee", "--to", "state_dict"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("checkpoint 'eeee' is not in store"));
  EXPECT_EQ(Export({"ccc", "--to", "state_dict"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"checkpoint", "delete", "cccc"}).code, 0);
  const CliResult deleted = Export({"cccc", "--to", "state_dict"});
  EXPECT_EQ(deleted.code, 3);
  EXPECT_THAT(deleted.err, HasSubstr("is deleted; 'dtrain checkpoints 1'"));
}

TEST_F(CheckpointExportTest, RefusesFormatsAndPlacesThatItCannotWrite) {
  const CliResult format = Export({"cccc", "--to", "statedict"});
  EXPECT_EQ(format.code, 2);
  EXPECT_THAT(format.err,
              HasSubstr("--to: expected safetensors, state_dict or files, got "
                        "'statedict'; did you mean 'state_dict'?\n"));
  EXPECT_EQ(Export({"cccc"}).code, 2);
  const CliResult place =
      Export({"cccc", "--to", "state_dict", "--out", "no/a.pth"});
  EXPECT_EQ(place.code, 1);
  EXPECT_THAT(place.err, HasSubstr("--out: cannot write 'no/a.pth': No such"));
  EXPECT_THAT(place.err, HasSubstr("; choose a file in a"));
}

TEST_F(CheckpointExportTest, RefusesACheckpointWithoutWeights) {
  AddCheckpoint(layout_, {1, 2}, 200, 'd', "no tensors at all");
  const CliResult result = Export({"dddd", "--to", "state_dict"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("model.safetensors: not a valid"));
}

}  // namespace
}  // namespace dtrain
