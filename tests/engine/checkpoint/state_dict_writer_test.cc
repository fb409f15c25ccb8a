#include "engine/checkpoint/state_dict_writer.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/checkpoint/state_dict_file.h"
#include "engine/checkpoint/zip_file.h"

namespace dtrain {
namespace {

using testing::HasSubstr;

using Shape = std::vector<std::int64_t>;

// 64 bytes that differ, for tensors of any type.
const std::string& SomeBytes() {
  static const std::string bytes =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,";
  return bytes;
}

TensorBytes TensorOf(const std::string& name, const std::string& dtype,
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

// "name dtype [shape] bytes" of each tensor.
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
      TensorOf("k", "F64", {2, 3}), TensorOf("j", "F32", {2, 3}),
      TensorOf("i", "F16", {2, 3}), TensorOf("h", "BF16", {2, 3}),
      TensorOf("g", "I64", {2, 3}), TensorOf("f", "I32", {2, 3}),
      TensorOf("e", "I16", {2, 3}), TensorOf("d", "I8", {2, 3}),
      TensorOf("c", "U8", {2, 3}),  TensorOf("b", "BOOL", {2, 3})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, ScalarsAndEmptyTensorsKeepTheirShape) {
  const std::vector<TensorBytes> tensors = {
      TensorOf("scalar", "I64", {}), TensorOf("none", "F32", {0}),
      TensorOf("rows", "F32", {4, 0, 3}), TensorOf("ones", "F32", {1, 1, 1, 1}),
      TensorOf("huge", "U8", {0, std::numeric_limits<std::int64_t>::max(), 9})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, NamesAreKeptToTheByte) {
  const std::vector<TensorBytes> tensors = {
      TensorOf("layer1.0.bn1.running_mean", "F32", {2}),
      TensorOf("größe.重み", "F32", {2}),
      TensorOf("a b/c\\d'e\"f\n", "F32", {2}), TensorOf("", "F32", {2}),
      TensorOf(std::string(300, 'n'), "F32", {2})};
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
      TensorOf("wide", "U8", {0, std::int64_t{1} << 40})};
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, StoragesBeginAtMultiplesOf64) {
  const std::string file =
      WrittenStateDict({TensorOf("a", "U8", {1}), TensorOf("b", "F64", {8})});
  const ZipFile zip(std::as_bytes(std::span(file)), "x");
  const auto* start = reinterpret_cast<const std::byte*>(file.data());
  EXPECT_EQ((zip.Find("archive/data/0")->data() - start) % 64, 0);
  EXPECT_EQ((zip.Find("archive/data/1")->data() - start) % 64, 0);
}

TEST(StateDictWriterTest, TiedTensorsShareTheirStorage) {
  const std::vector<TensorBytes> tensors = {
      TensorOf("encoder.weight", "F32", {2, 3}),
      TensorOf("decoder.weight", "F32", {2, 3})};
  const std::string file = WrittenStateDict(tensors);
  const ZipFile zip(std::as_bytes(std::span(file)), "x");
  EXPECT_EQ(zip.Names("archive/data/").size(), 1u);
  EXPECT_EQ(FactsReadBack(tensors), Facts(tensors));
}

TEST(StateDictWriterTest, TypesThatPyTorchHasNoStorageForAreRefused) {
  bool wrote = false;
  try {
    WriteStateDict(std::vector{TensorOf("t", "F8_E4M3", {2})},
                   [&](std::span<const std::byte>) { wrote = true; });
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 't' is of the type F8_E4M3"));
    EXPECT_THAT(error.what(), HasSubstr("write safetensors"));
  }
  EXPECT_FALSE(wrote);
}

}  // namespace
}  // namespace dtrain
