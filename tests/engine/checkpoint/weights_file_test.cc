#include "engine/checkpoint/weights_file.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/zip_file.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Shape = std::vector<std::int64_t>;

const std::filesystem::path kGolden = DTRAIN_GOLDEN_DIR "/state_dicts";

class WeightsFileTest : public testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name,
                              const std::string& bytes) {
    std::ofstream(directory_.path() / name, std::ios::binary) << bytes;
    return directory_.path() / name;
  }

  TemporaryDirectory directory_;
};

std::string Fault(const std::filesystem::path& path) {
  try {
    (void)OpenWeights(path);
    return "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    return error.what();
  }
}

TEST_F(WeightsFileTest, ReadsEachFormatByItsContent) {
  EXPECT_EQ(OpenWeights(kGolden / "safetensors.weights").tensors().size(), 1u);
  EXPECT_EQ(OpenWeights(kGolden / "network.weights").tensors().size(), 9u);
  EXPECT_EQ(OpenWeights(kGolden / "network_old.weights").tensors().size(), 9u);
}

TEST_F(WeightsFileTest, KeepsItsTensorsWhenItMoves) {
  WeightsFile first = OpenWeights(kGolden / "views.weights");
  WeightsFile second = OpenWeights(kGolden / "safetensors.weights");
  second = std::move(first);
  ASSERT_EQ(second.tensors().size(), 11u);
  EXPECT_EQ(second.tensors()[4].bytes.size(), 4u * 2 * sizeof(float));
  float number = 0;
  std::memcpy(&number, second.tensors()[4].bytes.data(), sizeof number);
  EXPECT_EQ(number, 2.0F);
}

std::vector<TensorBytes> Named(const std::vector<std::string>& names) {
  std::vector<TensorBytes> tensors;
  for (const std::string& name : names) tensors.push_back({.name = name});
  return tensors;
}

TEST(TakeOffPrefixesTest, RemovesAPrefixOfAllNames) {
  auto tensors = Named({"module._orig_mod.a", "module._orig_mod.model.b"});
  EXPECT_EQ(StripPrefixes(tensors), "module._orig_mod.");
  EXPECT_EQ(tensors[1].name, "model.b");
  auto mixed = Named({"module.a", "b"});
  EXPECT_EQ(StripPrefixes(mixed), "");
  EXPECT_EQ(mixed[0].name, "module.a");
}

TEST(TakeOffPrefixesTest, KeepsPrefixesThatTheModelHas) {
  auto tensors = Named({"module.model.a", "module.model.b"});
  EXPECT_EQ(StripPrefixes(tensors, {"model.a", "model.b"}), "module.");
  EXPECT_EQ(tensors[0].name, "model.a");
  auto others = Named({"module.c", "module.d"});
  EXPECT_EQ(StripPrefixes(others, {"a"}), "");
}

TEST_F(WeightsFileTest, ErrorsNameTheFileAndWhatToDo) {
  EXPECT_THAT(Fault(directory_.path() / "none.pth"),
              EndsWith("none.pth: No such file or directory"));
  EXPECT_THAT(Fault(directory_.path()), EndsWith("not a regular file"));
  EXPECT_THAT(Fault(Write("empty", "")), EndsWith("empty; download it again"));
  EXPECT_THAT(Fault(Write("page.pth", "<!DOCTYPE html>")),
              HasSubstr("page.pth: neither safetensors nor a file of torch."));
  EXPECT_THAT(Fault(Write("cut.pth", "PK\3\4")),
              HasSubstr("cut.pth: not a valid"));
  EXPECT_THAT(Fault(Write("a\x1b[2J", "x")),
              HasSubstr("/a\\x1b[2J: neither safetensors"));
}

const std::string kDirectory = DTRAIN_GOLDEN_DIR "/state_dicts/";

std::string WeightsPath(const std::string& name) {
  std::ifstream file(kDirectory + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the tensors in the form of make_state_dicts.py.
json Described(const std::vector<TensorBytes>& tensors) {
  json described = json::array();
  for (const TensorBytes& tensor : tensors) {
    described.push_back({{"name", tensor.name},
                         {"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"hex", ToHex(tensor.bytes)}});
  }
  return described;
}

json Read(const std::string& file) {
  // In memory of exactly its size, so that a sanitizer detects a read beyond
  // it.
  const std::vector<char> exact(file.begin(), file.end());
  const StateDictFile read(std::as_bytes(std::span(exact)), "x.pth");
  return Described(read.tensors());
}

// Returns the error of reading it, or "read".
std::string StateDictFault(const std::string& file) {
  try {
    Read(file);
    return "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailed);
    return error.what();
  }
}

class StateDictFileTest : public testing::TestWithParam<const char*> {};

TEST_P(StateDictFileTest, MatchesPyTorch) {
  std::ifstream golden(kDirectory + "expected.json");
  const json expected = json::parse(golden).at(GetParam());
  const std::string file = WeightsPath(GetParam());
  const StateDictFile read(std::as_bytes(std::span(file)), "x.pth");
  std::vector<TensorBytes> tensors = read.tensors();
  StripPrefixes(tensors);
  EXPECT_EQ(Described(tensors), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, StateDictFileTest,
    testing::Values("network.weights", "network_old.weights",
                    "protocol4.weights", "protocol5_old.weights",
                    "types.weights", "types_old.weights", "views.weights",
                    "views_old.weights", "objects.weights",
                    "objects_old.weights", "wrapped.weights",
                    "wrapped_old.weights"),
    [](const auto& info) {
      const std::string name = info.param;
      return name.substr(0, name.find('.'));
    });

TEST(StateDictFileTest, TensorsStayValidAfterAMove) {
  const std::string file = WeightsPath("views.weights");
  StateDictFile first(std::as_bytes(std::span(file)), "x.pth");
  const json before = Described(first.tensors());
  const StateDictFile second = std::move(first);
  EXPECT_EQ(Described(second.tensors()), before);
}

TEST(StateDictFileTest, RefusesOtherPickles) {
  EXPECT_THAT(StateDictFault(WeightsPath("module.weights")),
              HasSubstr("a whole object (torch.nn.modules.container."
                        "Sequential), which only its program can load; save "
                        "model.state_dict() instead"));
  EXPECT_THAT(StateDictFault(WeightsPath("module_beside.weights")),
              HasSubstr("no state dict, but 'model' (torch.nn.modules.linear."
                        "Linear), 'epoch'; save"));
  EXPECT_THAT(StateDictFault(WeightsPath("script.weights")),
              HasSubstr("TorchScript"));
  EXPECT_THAT(StateDictFault(WeightsPath("numbers.weights")),
              HasSubstr("no state dict, but 'epoch', 'rate'; save"));
  EXPECT_THAT(StateDictFault(WeightsPath("complex.weights")),
              HasSubstr("tensor 'c' has a type or layout"));
}

TEST(StateDictFileTest, RefusesMaliceByName) {
  EXPECT_THAT(StateDictFault(WeightsPath("malice.weights")),
              HasSubstr("posix.system"));
  EXPECT_THAT(StateDictFault(WeightsPath("malice_old.weights")),
              HasSubstr("posix.system"));
}

using std::string_literals::operator""s;

// Returns the pickled call that rebuilds a tensor. `storage` is the rest of the
// persistent ID of its storage, from the key on; `place` its offset, shape and
// strides.
std::string PickledTensor(const std::string& storage,
                          const std::string& place) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storage"
         "ctorch\nFloatStorage\n" +
         storage + "tQ" + place + "\x89}tR";
}

// Returns a file of the format before PyTorch 1.6 with the tensor "w" and one
// of each storage. Storage "0" has the numbers from 0 to 9, "1" from 100 on.
std::string OldFile(const std::string& tensor) {
  const std::string whole = "cpuK\x0aN"s;
  const std::string all = "K\0(K\x0at(K\x01t"s;
  std::string file =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."  // the magic
      "\x80\x02M\xe9\x03."                                         // 1001
      "\x80\x02}."s;  // nothing of the system
  file += "\x80\x02}U\x01w" + tensor + "sU\x01x" +
          PickledTensor("U\x01\x30U\x03" + whole, all) + "sU\x01y" +
          PickledTensor("U\x01\x31U\x03" + whole, all) + "s.";
  file +=
      "\x80\x02]U\x01\x31"
      "aU\x01\x30"
      "a.";  // the order of the storages
  for (const float first : {100.0F, 0.0F}) {
    const std::uint64_t count = 10;
    file.append(reinterpret_cast<const char*>(&count), sizeof count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const float number = first + static_cast<float>(i);
      file.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
  return file;
}

// Returns the numbers of the first tensor of a file, or the error.
std::string ParseNumbers(const std::string& file) {
  try {
    const StateDictFile read(std::as_bytes(std::span(file)), "x.pth");
    const TensorBytes& tensor = read.tensors().front();
    std::string text;
    for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(float)) {
      float number = 0;
      std::memcpy(&number, &tensor.bytes[i], sizeof number);
      text += std::to_string(static_cast<int>(number)) + " ";
    }
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

// A storage of the old format may be a view: a part of another storage.
TEST(StateDictFileTest, TensorsOfOldViewsAreThoseOfTheirPart) {
  struct Row {
    std::string storage;
    std::string place;
    std::string numbers;
  };
  const std::string first =
      "U\x01\x30U\x03"
      "cpuK\x0a"s;
  const std::string second =
      "U\x01\x31U\x03"
      "cpuK\x0a"s;
  const auto view = [](const std::string& offset, const std::string& size) {
    return "(U\x01vK" + offset + "K" + size + "t";
  };
  const std::string two = "(K\x02t(K\x01t";
  const Row rows[] = {
      {first + "N", "K\0"s + two, "0 1 "},
      {first, "K\0"s + two, "0 1 "},
      {first + "N", "K\x03" + two, "3 4 "},
      {second + "N", "K\x03" + two, "103 104 "},
      {first + view("\x04", "\x06"), "K\0"s + two, "4 5 "},
      {first + view("\x04", "\x06"), "K\x01" + two, "5 6 "},
      {second + view("\x04", "\x06"), "K\x04" + two, "108 109 "},
      {first + view("\x02", "\x08"), "K\x01(K\x02K\x02t(K\x01K\x03t",
       "3 6 4 7 "},
      {first + view("\x04", "\x06"), "K\x05" + two,
       "x.pth: tensor 'w' lies outside"},
      {first + view("\x08", "\x03"), "K\0"s + two,
       "x.pth: tensor 'w' lies outside"},
      {first + "N", "K\x09" + two, "x.pth: tensor 'w' lies outside"}};
  for (const Row& row : rows) {
    EXPECT_THAT(ParseNumbers(OldFile(PickledTensor(row.storage, row.place))),
                StartsWith(row.numbers))
        << EscapeForTerminal(row.storage + row.place);
  }
}

class BrokenStateDictTest : public testing::TestWithParam<const char*> {};

TEST_P(BrokenStateDictTest, IsRefusedAtEveryLength) {
  const std::string file = WeightsPath(GetParam());
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(StateDictFault(file.substr(0, length)), "read") << length;
  }
}

TEST_P(BrokenStateDictTest, FlippedBytesAreRefusedOrRead) {
  std::string file = WeightsPath(GetParam());
  std::size_t refused = 0;
  for (char& byte : file) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      const char good = byte;
      byte = static_cast<char>(byte ^ flip);
      refused += StateDictFault(file) != "read";
      byte = good;
    }
  }
  EXPECT_GT(refused, file.size() / 4);
}

INSTANTIATE_TEST_SUITE_P(Golden, BrokenStateDictTest,
                         testing::Values("network.weights",
                                         "views_old.weights"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

// Returns 64 different bytes, for tensors of any type.
const std::string& SomeBytes() {
  static const std::string bytes =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,";
  return bytes;
}

TensorBytes MakeTensor(const std::string& name, const std::string& dtype,
                       const Shape& shape) {
  return {.name = name,
          .dtype = dtype,
          .shape = shape,
          .bytes = std::as_bytes(std::span(SomeBytes()))
                       .first(TensorSize(dtype, shape).value())};
}

std::string WrittenStateDict(const std::vector<TensorBytes>& tensors) {
  std::string file;
  WriteStateDict(tensors, [&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return file;
}

// Returns "name dtype [shape] bytes" of each tensor.
std::vector<std::string> Facts(const std::vector<TensorBytes>& tensors) {
  std::vector<std::string> facts;
  for (const TensorBytes& tensor : tensors) {
    std::string fact = tensor.name + " " + tensor.dtype + " [";
    for (const std::int64_t size : tensor.shape) {
      fact += std::to_string(size) + ",";
    }
    fact += "] ";
    fact.append(reinterpret_cast<const char*>(tensor.bytes.data()),
                tensor.bytes.size());
    facts.push_back(std::move(fact));
  }
  return facts;
}

std::vector<std::string> FactsReadBack(
    const std::vector<TensorBytes>& tensors) {
  const std::string file = WrittenStateDict(tensors);
  return Facts(StateDictFile(std::as_bytes(std::span(file)), "x").tensors());
}

TEST(StateDictWriterTest, EveryTypeIsReadBack) {
  const std::vector<TensorBytes> tensors = {
      MakeTensor("k", "F64", {2, 3}), MakeTensor("j", "F32", {2, 3}),
      MakeTensor("i", "F16", {2, 3}), MakeTensor("h", "BF16", {2, 3}),
      MakeTensor("g", "I64", {2, 3}), MakeTensor("f", "I32", {2, 3}),
      MakeTensor("e", "I16", {2, 3}), MakeTensor("d", "I8", {2, 3}),
      MakeTensor("c", "U8", {2, 3}),  MakeTensor("b", "BOOL", {2, 3})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, ScalarsAndEmptyTensorsKeepTheirShape) {
  const std::vector<TensorBytes> tensors = {
      MakeTensor("scalar", "I64", {}), MakeTensor("none", "F32", {0}),
      MakeTensor("rows", "F32", {4, 0, 3}),
      MakeTensor("ones", "F32", {1, 1, 1, 1}),
      MakeTensor("huge", "U8",
                 {0, std::numeric_limits<std::int64_t>::max(), 9})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, NamesAreKeptToTheByte) {
  const std::vector<TensorBytes> tensors = {
      MakeTensor("layer1.0.bn1.running_mean", "F32", {2}),
      MakeTensor("größe.重み", "F32", {2}),
      MakeTensor("a b/c\\d'e\"f\n", "F32", {2}), MakeTensor("", "F32", {2}),
      MakeTensor(std::string(300, 'n'), "F32", {2})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, WithoutTensorsItIsAnEmptyDict) {
  const std::string file = WrittenStateDict({});
  const ZipFile zip(std::as_bytes(std::span(file)), "x");
  const auto pickle = zip.Find("archive/data.pkl").value();
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(pickle.data()), pickle.size()),
      "\x80\x02"
      "ccollections\nOrderedDict\n)R.");
}

TEST(StateDictWriterTest, LargeSizesAreWholeNumbersOfAnyWidth) {
  const std::string many(70'000, 'm');
  const std::vector<TensorBytes> tensors = {
      {.name = "many",
       .dtype = "U8",
       .shape = {2, 35'000},
       .bytes = std::as_bytes(std::span(many))},
      MakeTensor("wide", "U8", {0, std::int64_t{1} << 40})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, StoragesBeginAtMultiplesOf64) {
  const std::string file = WrittenStateDict(
      {MakeTensor("a", "U8", {1}), MakeTensor("b", "F64", {8})});
  const ZipFile zip(std::as_bytes(std::span(file)), "x");
  const auto* start = reinterpret_cast<const std::byte*>(file.data());
  EXPECT_EQ((zip.Find("archive/data/0")->data() - start) % 64, 0);
  EXPECT_EQ((zip.Find("archive/data/1")->data() - start) % 64, 0);
}

TEST(StateDictWriterTest, TiedTensorsShareTheirStorage) {
  const std::vector<TensorBytes> tensors = {
      MakeTensor("encoder.weight", "F32", {2, 3}),
      MakeTensor("decoder.weight", "F32", {2, 3})};
  const std::string file = WrittenStateDict(tensors);
  const ZipFile zip(std::as_bytes(std::span(file)), "x");
  EXPECT_EQ(zip.Names("archive/data/").size(), 1u);
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, TypesThatPyTorchHasNoStorageForAreRefused) {
  bool wrote = false;
  try {
    WriteStateDict(std::vector{MakeTensor("t", "F8_E4M3", {2})},
                   [&](std::span<const std::byte>) { wrote = true; });
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 't' has the type F8_E4M3"));
    EXPECT_THAT(error.what(), HasSubstr("write safetensors"));
  }
  EXPECT_FALSE(wrote);
}

}  // namespace
}  // namespace dtrain
