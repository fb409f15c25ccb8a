#include "engine/checkpoint/state_dict_file.h"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/hex.h"
#include "engine/checkpoint/weights_file.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kDirectory = DTRAIN_GOLDEN_DIR "/state_dicts/";

std::string FileOf(const std::string& name) {
  std::ifstream file(kDirectory + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tensors as make_state_dicts.py describes them.
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
  // In memory of exactly its size, so that a sanitizer sees a byte too far.
  const std::vector<char> exact(file.begin(), file.end());
  const StateDictFile read(std::as_bytes(std::span(exact)), "x.pth");
  return Described(read.tensors());
}

// Why it is refused, or "read".
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

TEST_P(StateDictFileTest, GivesWhatPyTorchReads) {
  std::ifstream golden(kDirectory + "expected.json");
  const json expected = json::parse(golden).at(GetParam());
  const std::string file = FileOf(GetParam());
  const StateDictFile read(std::as_bytes(std::span(file)), "x.pth");
  std::vector<TensorBytes> tensors = read.tensors();
  TakeOffPrefixes(tensors);
  EXPECT_EQ(Described(tensors), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, StateDictFileTest,
    testing::Values("network.weights", "network_old.weights",
                    "protocol4.weights", "protocol5_old.weights",
                    "types.weights", "types_old.weights", "views.weights",
                    "views_old.weights", "wrapped.weights",
                    "wrapped_old.weights"),
    [](const auto& info) {
      const std::string name = info.param;
      return name.substr(0, name.find('.'));
    });

TEST(StateDictFileTest, TensorsStayWhereTheyAreWhenItMoves) {
  const std::string file = FileOf("views.weights");
  StateDictFile first(std::as_bytes(std::span(file)), "x.pth");
  const json before = Described(first.tensors());
  const StateDictFile second = std::move(first);
  EXPECT_EQ(Described(second.tensors()), before);
}

TEST(StateDictFileTest, RefusesWhatIsNoStateDict) {
  EXPECT_THAT(StateDictFault(FileOf("module.weights")),
              HasSubstr("save model.state_dict() instead"));
  EXPECT_THAT(StateDictFault(FileOf("script.weights")),
              HasSubstr("TorchScript"));
  EXPECT_THAT(StateDictFault(FileOf("numbers.weights")),
              HasSubstr("no state dict, but 'epoch', 'rate'; save"));
  EXPECT_THAT(StateDictFault(FileOf("complex.weights")),
              HasSubstr("tensor 'c' is of"));
}

TEST(StateDictFileTest, RefusesMaliceByName) {
  EXPECT_THAT(StateDictFault(FileOf("malice.weights")),
              HasSubstr("posix.system"));
  EXPECT_THAT(StateDictFault(FileOf("malice_old.weights")),
              HasSubstr("posix.system"));
}

class BrokenStateDictTest : public testing::TestWithParam<const char*> {};

TEST_P(BrokenStateDictTest, IsRefusedWhereverItIsCut) {
  const std::string file = FileOf(GetParam());
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(StateDictFault(file.substr(0, length)), "read") << length;
  }
}

TEST_P(BrokenStateDictTest, IsRefusedOrReadWhicheverByteIsFlipped) {
  std::string file = FileOf(GetParam());
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

}  // namespace
}  // namespace dtrain
