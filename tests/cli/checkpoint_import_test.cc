// checkpoint import: of files that PyTorch wrote, and of what we exported.

#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/weights_file.h"
#include "engine/checkpoint/zip_file.h"
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

TEST_F(CheckpointImportTest, ConvertsPyTorchFiles) {
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

// A safetensors file in parts that a test may change.
struct WeightsParts {
  std::vector<TensorBytes> tensors;
  std::deque<std::vector<std::byte>> kept;  // bytes of new tensors
};

// Writes the weights in `from` to `to`, changed by `change`.
void Rewrite(const fs::path& from, const fs::path& to,
             const std::function<void(WeightsParts&)>& change) {
  const WeightsFile file = OpenWeights(from);
  WeightsParts parts{.tensors = file.tensors()};
  change(parts);
  std::ofstream out(to, std::ios::binary);
  out << SafetensorsHeader(parts.tensors);
  for (const TensorBytes& tensor : parts.tensors) {
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  }
}

// Puts `prefix` in front of every name.
std::function<void(WeightsParts&)> Prefixed(const std::string& prefix) {
  return [prefix](WeightsParts& parts) {
    for (TensorBytes& tensor : parts.tensors) tensor.name.insert(0, prefix);
  };
}

TEST_F(CheckpointImportTest, ConvertingRemovesThePrefixesOfWrappers) {
  Rewrite(Recorded("network"), dtrain_.directory() / "wrapped.safetensors",
          Prefixed("module._orig_mod.model."));
  const CliResult result =
      Import({"wrapped.safetensors", "--out", "net.safetensors", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["removed_prefix"], "module._orig_mod.model.");
  EXPECT_EQ(OpenWeights(dtrain_.directory() / "net.safetensors")
                .tensors()
                .front()
                .name,
            OpenWeights(Recorded("network")).tensors().front().name);
}

struct SelectionCase {
  std::vector<std::string> arguments;
  std::string message;   // empty: converted
  std::string first;     // name of the first tensor
  std::size_t left_out;  // tensors
};

TEST_F(CheckpointImportTest, TakesTheWeightsOfAKeyAndAPrefix) {
  const std::string nested = Recorded("nested");
  const SelectionCase cases[] = {
      {{nested}, "it holds its tensors under 'net'; 'dtrain checkpoint imp"},
      {{nested, "--key", "net"}, "", "0.weight", 0},
      {{nested, "--key", "ema.module.net"}, "", "0.weight", 0},
      {{nested, "--key", "net", "--prefix", "1."}, "", "weight", 4},
      {{nested, "--key", "net", "--prefix", "1"}, "", "weight", 4},
      {{nested, "--key", "net", "--prefix", "0.weight"},
       "no tensor's name begins with '0.weight.'; the first is '0.weight'"},
      {{nested, "--key", "net", "--prefix", "0.w"},
       "no tensor's name begins with '0.w.'; the first is '0.weight'"},
      {{nested, "--key", "ema"},
       "'ema' is not a dict of tensors, but one of 'mod"},
      {{nested, "--key", "nets"}, "it holds no dict 'nets', but 'net', 'ema'"},
      {{nested, "--key", "net", "--prefix", "9."},
       "no tensor's name begins with '9.'; the first is '0.weight'"},
      {{Recorded("safetensors"), "--key", "net"}, "has no keys; leave out"},
      {{Recorded("objects"), "--key", "state_dict_ema"}, "", "w", 0},
  };
  for (const SelectionCase& one : cases) {
    std::vector<std::string> arguments = one.arguments;
    arguments.insert(arguments.end(),
                     {"--out", "out.safetensors", "--force", "--json"});
    const CliResult result = Import(arguments);
    SCOPED_TRACE(testing::PrintToString(arguments));
    EXPECT_EQ(result.code, one.message.empty() ? 0 : 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.message));
    if (result.code != 0) continue;
    const WeightsFile out =
        OpenWeights(dtrain_.directory() / "out.safetensors");
    EXPECT_EQ(out.tensors().front().name, one.first);
    EXPECT_EQ(result.Json()["left_out"], one.left_out);
  }
}

TEST_F(CheckpointImportTest, NamesTheOtherWeightsOfAFile) {
  const CliResult text =
      Import({Recorded("objects"), "--out", "a.safetensors"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("also has weights under optimizer, "
                                  "state_dict_ema (--key)"));
  const CliResult json =
      Import({Recorded("objects"), "--out", "b.safetensors", "--json"});
  EXPECT_EQ(json.Json()["other_keys"],
            nlohmann::json({"optimizer", "state_dict_ema"}));
}

TEST_F(CheckpointImportTest, RefusesAChangedByte) {
  std::ifstream in(Recorded("network"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const ZipFile zip(std::as_bytes(std::span(bytes)), "network");
  const auto weights = zip.Find("network/data/0").value();
  char& first = bytes[static_cast<std::size_t>(
      weights.data() - std::as_bytes(std::span(bytes)).data())];
  first = static_cast<char>(first ^ 1);
  dtrain_.Write("changed.pth", bytes);
  const CliResult result = Import({"changed.pth"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("changed.pth: not a valid ZIP archive"));
  EXPECT_THAT(result.err, HasSubstr("does not match its CRC-32"));
}

TEST_F(CheckpointImportTest, RefusesMaliciousAndInvalidFiles) {
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

TEST_F(CheckpointImportTest, RefusesConflictingFlags) {
  dtrain_.Write("c.yaml", "x");
  const CliResult result =
      Import({Recorded("network"), "c.yaml", "--out", "x.safetensors"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("cannot be combined with CONFIG"));
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

TEST_F(CheckpointImportRunTest, EvaluatesLikeTheExportedModel) {
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
  // The file that the user gave, and what differs on both sides.
  EXPECT_THAT(result.err, HasSubstr(Recorded("network") + ": has '0.weight'"));
  EXPECT_THAT(result.err, HasSubstr("' and 8 more tensors, which the model "
                                    "lacks, and lacks '"));
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(CheckpointImportRunTest, RefusesTensorsThatAreLeftOver) {
  Train();
  Rewrite(dtrain_.directory() / "digits.pth",
          dtrain_.directory() / "larger.safetensors", [](WeightsParts& parts) {
            for (const char* name : {"layer9.bias", "layer9.weight"}) {
              parts.tensors.push_back(parts.tensors.back());
              parts.tensors.back().name = name;
            }
          });
  const CliResult result = Import({"larger.safetensors", "digits.yaml"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("larger.safetensors: has 'layer9.bias' and "
                                    "1 more tensor, which the model lacks"));
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"].size(), 1u);
}

TEST_F(CheckpointImportRunTest, RefusesLeftOverTensorsOfACheckpointToo) {
  dtrain_.Write("large.yaml",
                "entrypoint: model_def:ImageNetTrial\n"
                "hyperparameters: {dataset: fake, fake_samples: 4, arch: "
                "resnet34, num_classes: 4, crop_size: 32, global_batch_size: "
                "2}\n"
                "searcher: {name: single, metric: val_loss, max_length: 1}\n"
                "resources: {slots: cpu}\n");
  ASSERT_EQ(dtrain_.Run({"create", "large.yaml"}).code, 0);
  const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                               .Json()["checkpoints"][0]["uuid"];
  const CliResult result = dtrain_.Run(
      {"create", "large.yaml", "--set", "hyperparameters.arch=resnet18",
       "--set", "searcher.source_checkpoint_uuid=" + uuid, "--set",
       "max_restarts=0"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err + result.out,
              HasSubstr(uuid + ": has 'layer1.2.bn1.bias' and 95 more "
                               "tensors, which the model lacks"));
}

TEST_F(CheckpointImportRunTest, TakesTheTensorsWithAPrefix) {
  Train();
  Rewrite(dtrain_.directory() / "digits.pth",
          dtrain_.directory() / "both.safetensors", [](WeightsParts& parts) {
            const std::vector<TensorBytes> all = parts.tensors;
            for (TensorBytes& tensor : parts.tensors) {
              tensor.name.insert(0, "encoder_q.");
            }
            for (TensorBytes tensor : all) {
              tensor.name.insert(0, "encoder_k.");
              parts.tensors.push_back(tensor);
            }
          });
  const CliResult result = Import(
      {"both.safetensors", "digits.yaml", "--prefix", "encoder_q.", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["left_out"], result.Json()["tensors"]);
  const CliResult wrong =
      Import({"both.safetensors", "digits.yaml", "--prefix", "encoder_"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("has 'q.conv1.weight' and 19 more tensors"));
}

TEST_F(CheckpointImportRunTest, RemovesThePrefixesOfWrappers) {
  Train();
  for (const char* prefix : {"module.", "_orig_mod.", "model."}) {
    Rewrite(dtrain_.directory() / "digits.pth",
            dtrain_.directory() / "wrapped.safetensors", Prefixed(prefix));
    const CliResult result = Import({"wrapped.safetensors", "digits.yaml"});
    EXPECT_EQ(result.code, 0) << prefix << result.err;
  }
}

// The tensors of float32 as `dtype`, each number converted by `convert`.
template <typename To>
std::function<void(WeightsParts&)> AsType(const std::string& dtype,
                                          To (*convert)(float)) {
  return [=](WeightsParts& parts) {
    for (TensorBytes& tensor : parts.tensors) {
      if (tensor.dtype != "F32") continue;
      std::vector<float> from(tensor.bytes.size() / sizeof(float));
      std::memcpy(from.data(), tensor.bytes.data(), tensor.bytes.size());
      auto& bytes = parts.kept.emplace_back(from.size() * sizeof(To));
      for (std::size_t i = 0; i < from.size(); ++i) {
        const To value = convert(from[i]);
        std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
      }
      tensor.dtype = dtype;
      tensor.bytes = bytes;
    }
  };
}

TEST_F(CheckpointImportRunTest, CastsWeightsOfOtherPrecision) {
  const std::string uuid = Train();
  const fs::path from = dtrain_.directory() / "digits.pth";
  Rewrite(from, dtrain_.directory() / "double.safetensors",
          AsType<double>("F64", [](float value) { return double{value}; }));
  Rewrite(from, dtrain_.directory() / "brain.safetensors",
          AsType<std::uint16_t>("BF16", [](float value) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, &value, sizeof bits);
            return static_cast<std::uint16_t>(bits >> 16);
          }));
  const CliResult wide =
      Import({"double.safetensors", "digits.yaml", "--json"});
  ASSERT_EQ(wide.code, 0) << wide.err;
  EXPECT_EQ(wide.Json()["cast_from"], nlohmann::json({"F64"}));
  const auto metrics = [&](const std::string& checkpoint) {
    return dtrain_.Run({"evaluate", checkpoint, "--json"}).Json()["metrics"];
  };
  EXPECT_EQ(metrics(wide.Json()["checkpoint"]), metrics(uuid));
  const CliResult narrow = Import({"brain.safetensors", "digits.yaml"});
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  EXPECT_THAT(narrow.err, HasSubstr("(cast from BF16 to the model's types)"));
}

TEST_F(CheckpointImportRunTest, RequiresConstantHyperparameters) {
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
  EXPECT_THAT(command.err, HasSubstr("a command writes and reads"));
}

#endif

}  // namespace
}  // namespace dtrain
