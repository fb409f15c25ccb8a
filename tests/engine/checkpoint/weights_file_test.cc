#include "engine/checkpoint/weights_file.h"

#include <cstring>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

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

TEST(TakeOffPrefixesTest, RemovesWhatEveryNameHas) {
  auto tensors = Named({"module._orig_mod.a", "module._orig_mod.model.b"});
  EXPECT_EQ(TakeOffPrefixes(tensors), "module._orig_mod.");
  EXPECT_EQ(tensors[1].name, "model.b");
  auto mixed = Named({"module.a", "b"});
  EXPECT_EQ(TakeOffPrefixes(mixed), "");
  EXPECT_EQ(mixed[0].name, "module.a");
}

TEST(TakeOffPrefixesTest, KeepsPrefixesThatTheModelHas) {
  auto tensors = Named({"module.model.a", "module.model.b"});
  EXPECT_EQ(TakeOffPrefixes(tensors, {"model.a", "model.b"}), "module.");
  EXPECT_EQ(tensors[0].name, "model.a");
  auto others = Named({"module.c", "module.d"});
  EXPECT_EQ(TakeOffPrefixes(others, {"a"}), "");
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

}  // namespace
}  // namespace dtrain
