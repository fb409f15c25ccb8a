#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

std::span<const std::byte> ToBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Returns a file with this header and data.
std::string File(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

// Returns the error of ReadSafetensors, or "valid".
std::string Fault(const std::string& file) {
  try {
    (void)ReadSafetensors(ToBytes(file), "x.safetensors");
    return "valid";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(SafetensorsTest, RoundTrips) {
  const std::string floats(8, 'f');
  const std::string bytes(3, 'b');
  const std::vector<TensorBytes> tensors = {
      {.name = "weight",
       .dtype = "F32",
       .shape = {2, 1},
       .bytes = ToBytes(floats)},
      {.name = "a", .dtype = "U8", .shape = {3}, .bytes = ToBytes(bytes)},
      {.name = "none", .dtype = "I64", .shape = {0, 4}, .bytes = {}}};
  const std::string file = SafetensorsHeader(tensors) + floats + bytes;
  const auto read = ReadSafetensors(ToBytes(file), "x");
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].name, "weight");
  EXPECT_EQ(read[0].dtype, "F32");
  EXPECT_EQ(read[0].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(read[1].name, "a");
  EXPECT_EQ(std::memcmp(read[1].bytes.data(), "bbb", 3), 0);
  EXPECT_EQ(read[2].name, "none");
}

TEST(SafetensorsTest, HeaderIsAlignedAndWithoutTensorsValid) {
  const std::string file = SafetensorsHeader({});
  EXPECT_EQ(file.size() % 8, 0u);
  EXPECT_TRUE(ReadSafetensors(ToBytes(file), "x").empty());
}

TEST(SafetensorsTest, AnEmptyTensorMayBeAtTheStartOfAnother) {
  for (const char* empty : {"a", "z"}) {
    const std::string name = std::string(empty) == "a" ? "z" : "a";
    EXPECT_EQ(Fault(File("{\"" + name +
                             "\":{\"dtype\":\"U8\",\"shape\":[3],"
                             "\"data_offsets\":[0,3]},\"" +
                             empty +
                             "\":{\"dtype\":\"U8\",\"shape\":[0],"
                             "\"data_offsets\":[0,0]}}",
                         "abc")),
              "valid")
        << empty;
  }
}

TEST(SafetensorsTest, HeaderPutsEachTensorWhereItsTypeNeedsIt) {
  const std::string bytes(8, 'x');
  for (std::size_t length = 1; length <= 9; ++length) {
    const TensorBytes tensor{.name = std::string(length, 'n'),
                             .dtype = "F64",
                             .shape = {1},
                             .bytes = ToBytes(bytes)};
    const std::string header = SafetensorsHeader(std::span(&tensor, 1));
    EXPECT_EQ(header.size() % 8, 0u) << length;
  }
}

TEST(SafetensorsTest, SkipsMetadata) {
  EXPECT_EQ(Fault(File(R"({"__metadata__":{"format":"pt"}})", "")), "valid");
}

TEST(SafetensorsTest, MetadataMayHaveTheKeysOfATensor) {
  EXPECT_EQ(Fault(File(R"({"__metadata__":{"dtype":"pt","a":""},)"
                       R"("a":{"dtype":"U8","shape":[0],)"
                       R"("data_offsets":[0,0]},)"
                       R"("b":{"dtype":"U8","shape":[0],)"
                       R"("data_offsets":[0,0]}})",
                       "")),
            "valid");
}

// Returns the CPU time, the shortest of three, to read a header that begins
// with `header`, an open object with at least one key, and describes many empty
// tensors.
double SecondsToRead(std::string header, int tensors) {
  for (int i = 0; i < tensors; ++i) {
    header += ",\"" + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string file = File(header + "}", "");
  std::chrono::duration<double> shortest = std::chrono::hours(1);
  for (int i = 0; i < 3; ++i) {
    const auto begin = CpuTime();
    EXPECT_EQ(Fault(file), "valid");
    shortest =
        std::min<std::chrono::duration<double>>(shortest, CpuTime() - begin);
  }
  return shortest.count();
}

// Clearing the set of keys for each object must not cost as much as the largest
// object.
TEST(SafetensorsTest, TakesNoLongerForTheTensorsBelowMuchMetadata) {
  const auto seconds = [](int metadata, int tensors) {
    std::string header = R"({"__metadata__":{"x":"")";
    for (int i = 0; i < metadata; ++i) {
      header += ",\"" + std::to_string(i) + R"(":"")";
    }
    return SecondsToRead(header + "}", tensors);
  };
  constexpr int kMetadata = kSanitized ? 10'000 : 100'000;
  EXPECT_LT(seconds(kMetadata, kMetadata / 10),
            10 * (seconds(kMetadata, 0) + seconds(0, kMetadata / 10)));
}

// A quarter of a million keys: the time must not be quadratic.
TEST(SafetensorsTest, TakesTimeInProportionToTheTensors) {
  const std::string no_metadata = R"({"__metadata__":{})";
  constexpr int kTensors = kSanitized ? 1'000 : 10'000;
  EXPECT_LT(SecondsToRead(no_metadata, 25 * kTensors),
            100 * SecondsToRead(no_metadata, kTensors));
}

struct BadFile {
  const char* name;
  std::string file;
  const char* fault;
};

class BadSafetensorsTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensorsTest, IsRefusedWithTheReason) {
  EXPECT_THAT(Fault(GetParam().file), HasSubstr(GetParam().fault));
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string Tensor(const std::string& rest, const std::string& data) {
  return File(R"({"t":{"dtype":"F32","shape":)" + rest + "}}", data);
}

INSTANTIATE_TEST_SUITE_P(
    Format, BadSafetensorsTest,
    testing::Values(
        BadFile{"Empty", "", "too short"},
        BadFile{"HugeHeader", std::string(8, '\x7f'), "above 16 MB"},
        BadFile{"CutHeader", File("{}", "").substr(0, 9), "beyond its end"},
        BadFile{"NoJson", File("[}", ""), "not a JSON object"},
        BadFile{"Array", File("[]", ""), "not a JSON object"},
        BadFile{"Deep", File(std::string(100'000, '['), ""),
                "not a JSON object"},
        BadFile{"NoObject", File(R"({"t":1})", ""), "is not an object"},
        BadFile{"NameThatATerminalObeys", File(R"({"a\u001b[2J\nb":1})", ""),
                R"(tensor 'a\x1b[2J\x0ab' is not an object)"},
        BadFile{"NoShape", File(R"({"t":{"dtype":"F32"}})", ""), "no shape"},
        BadFile{"NoType", File(R"({"t":{"shape":[]}})", ""), "has no type"},
        BadFile{"OtherType", File(R"({"t":{"dtype":"Q4","shape":[]}})", ""),
                "unknown type"},
        BadFile{"NegativeShape", Tensor("[-1]", ""), "impossible shape"},
        BadFile{"NoOffsets", Tensor("[1]", ""), "no data_offsets"},
        BadFile{"Outside", Tensor(R"([1],"data_offsets":[0,4])", "abc"),
                "outside of the file"},
        BadFile{"Backwards", Tensor(R"([1],"data_offsets":[4,0])", "abcd"),
                "outside of the file"},
        BadFile{"WrongSize", Tensor(R"([2],"data_offsets":[0,4])", "abcd"),
                "another size"},
        BadFile{"Overflow",
                Tensor("[4611686018427387904,4],\"data_offsets\":[0,0]", ""),
                "another size"},
        BadFile{"Dimensions",
                Tensor("[1" + Repeated(",1", 64) + "],\"data_offsets\":[0,4]",
                       "abcd"),
                "more than 64 dimensions"},
        BadFile{"Duplicate",
                File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                     "abc"),
                "tensor 'a' occurs twice"},
        BadFile{"DuplicateMetadata",
                File(R"({"__metadata__":{},"__metadata__":{}})", ""),
                "tensor '__metadata__' occurs twice"},
        BadFile{"DuplicateKeyOfATensor",
                File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("b":{"dtype":"U8","shape":[2],"dtype":"I8",)"
                     R"("data_offsets":[1,3]}})",
                     "abc"),
                "tensor 'b' has 'dtype' twice"},
        BadFile{"DuplicateKeyOfTheMetadata",
                File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("__metadata__":{"format":"pt","x":"","format":"np"}})",
                     "a"),
                "its __metadata__ has 'format' twice"},
        BadFile{"Metadata", File(R"({"__metadata__":{"format":1}})", ""),
                "does not map strings to strings"},
        BadFile{"Hole", Tensor(R"([1],"data_offsets":[4,8])", "abcdefgh"),
                "leaves a hole"},
        BadFile{"Rest", Tensor(R"([1],"data_offsets":[0,4])", "abcdefgh"),
                "belong to no tensor"},
        BadFile{"Overlap",
                File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                     "abc"),
                "overlaps"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsTest, GarbageIsRefusedOrReadWithoutACrash) {
  const std::string data(24, 'd');
  const std::vector<TensorBytes> tensors = {{.name = "weight",
                                             .dtype = "F32",
                                             .shape = {2, 3},
                                             .bytes = ToBytes(data)}};
  const std::string good = SafetensorsHeader(tensors) + data;
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(bad.size() - random() % 3);
    refused += Fault(bad) != "valid";
  }
  EXPECT_GT(refused, 3'000);
}

}  // namespace
}  // namespace dtrain
