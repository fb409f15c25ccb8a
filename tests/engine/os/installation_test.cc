#include "engine/os/installation.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

TEST(InstallPrefixTest, IsTheDirectoryAboveThoseOfPrograms) {
  EXPECT_EQ(InstallPrefix("/opt/x/bin/dtrain"), "/opt/x");
  EXPECT_EQ(InstallPrefix("/opt/x/libexec/dtrain/command-host"), "/opt/x");
  EXPECT_EQ(InstallPrefix("/opt/dtrain/bin/dtrain"), "/opt/dtrain");
}

TEST(InstallPrefixTest, IsThatOfTheRunningProgram) {
  EXPECT_EQ(InstallPrefix(),
            fs::read_symlink("/proc/self/exe").parent_path().parent_path());
}

class LibTorchTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text = "") {
    const fs::path path = prefix_.path() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string Failure() {
    try {
      (void)FindLibTorch(prefix_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFailed);
      return error.what();
    }
    return "";
  }

  TemporaryDirectory prefix_;
};

TEST_F(LibTorchTest, IsUnlistedInABuildTree) {
  EXPECT_EQ(FindLibTorch(prefix_.path()), "");
}

TEST_F(LibTorchTest, IsTheFirstCandidateWithLibraries) {
  Write("lib/dtrain/libtorch", "lib/a/torch\nlib/b/torch\nlib/c/torch\n");
  Write("lib/a/torch/lib/README");
  Write("lib/b/torch/lib/libtorch_cpu.so");
  Write("lib/c/torch/lib/libtorch_cpu.so");
  EXPECT_EQ(FindLibTorch(prefix_.path()), prefix_.path() / "lib/b/torch");
}

TEST_F(LibTorchTest, NamesTheCommandThatInstallsIt) {
  Write("lib/dtrain/libtorch", "lib/a/torch\n");
  EXPECT_THAT(Failure(), HasSubstr(": LibTorch is not installed"));
  EXPECT_THAT(Failure(), HasSubstr("pip install 'torch==2.11.*'"));

  Write("bin/dtrain-fetch-libtorch");
  EXPECT_THAT(Failure(), HasSubstr("run " + prefix_.path().string() +
                                   "/bin/dtrain-fetch-libtorch (a download"));
}

}  // namespace
}  // namespace dtrain
