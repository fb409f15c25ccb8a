#include "engine/plugin/model_build.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelBuildTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    const fs::path path = prefix_.path() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void WriteBuild() {
    Write("lib/dtrain/model_build.json",
          R"({"compiler": "/usr/bin/true", "flags": ["-O2"],
              "include": ["include", "/torch/include"],
              "precompiled": "pch.h", "link_flags": ["-Wl,--as-needed"],
              "libraries": ["lib/libdtrain_trial.so", "/torch/lib/c10.so"]})");
    Write("include/dtrain/abi.h", "abi");
  }
  std::string Failure() {
    try {
      (void)ReadModelBuild(prefix_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory prefix_;
};

TEST_F(ModelBuildTest, KnowsItsPlaceWhereverItWasMovedTo) {
  WriteBuild();
  const ModelBuild build = ReadModelBuild(prefix_.path());

  const std::string prefix = prefix_.path().string();
  EXPECT_THAT(build.flags, ElementsAre("-O2", "-isystem", prefix + "/include",
                                       "-isystem", "/torch/include"));
  EXPECT_THAT(build.link_flags,
              ElementsAre("-Wl,--as-needed", prefix + "/lib/libdtrain_trial.so",
                          "/torch/lib/c10.so"));
  EXPECT_EQ(build.abi, "abi");
  EXPECT_EQ(build.precompiled, "");
}

TEST_F(ModelBuildTest, TakesThePrecompiledHeaderWhereThereIsOne) {
  WriteBuild();
  Write("pch.h.gch", "");
  EXPECT_EQ(ReadModelBuild(prefix_.path()).precompiled,
            prefix_.path() / "pch.h");
}

TEST_F(ModelBuildTest, SaysWhatIsMissingOrDamaged) {
  EXPECT_THAT(Failure(), HasSubstr("lib/dtrain/model_build.json: what compiles "
                                   "models is missing; build or install"));
  Write("lib/dtrain/model_build.json", "{");
  EXPECT_THAT(Failure(), HasSubstr("is damaged"));
  Write("lib/dtrain/model_build.json", R"({"compiler": 5})");
  EXPECT_THAT(Failure(), HasSubstr("is damaged"));
}

TEST(FindCompilerTest, TakesTheRecordedOneElseOneInPath) {
  const TemporaryDirectory directory;
  const fs::path other = directory.path() / "c++";
  std::ofstream(other) << "#!/bin/sh\n";
  EXPECT_EQ(FindCompiler({.compiler = "/bin/sh"}), "/bin/sh");

  const std::string path = std::getenv("PATH");
  ::setenv("PATH", directory.path().c_str(), 1);
  EXPECT_THROW((void)FindCompiler({.compiler = "/nowhere"}), Error);
  fs::permissions(other, fs::perms::owner_all);
  EXPECT_EQ(FindCompiler({.compiler = "/nowhere"}), other);
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace dtrain
