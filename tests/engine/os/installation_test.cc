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
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
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
  Write("lib/dtrain/libtorch",
        "2.11.0\nlib/a/torch\nlib/b/torch\nlib/c/torch\n");
  Write("lib/a/torch/lib/README");
  Write("lib/b/torch/lib/libtorch_cpu.so");
  Write("lib/c/torch/lib/libtorch_cpu.so");
  EXPECT_EQ(FindLibTorch(prefix_.path()), prefix_.path() / "lib/b/torch");
}

TEST_F(LibTorchTest, NamesTheCommandThatInstallsIt) {
  Write("lib/dtrain/libtorch", "2.11.0\nlib/a/torch\n");
  EXPECT_THAT(Failure(), HasSubstr(": LibTorch is not installed"));
  EXPECT_THAT(Failure(), HasSubstr("pip install \"./dtrain-….whl[models]\""));

  Write("bin/dtrain-fetch-libtorch");
  EXPECT_THAT(Failure(), HasSubstr("run " + prefix_.path().string() +
                                   "/bin/dtrain-fetch-libtorch (a download"));
}

// Any build of the right torch serves, those of CPUs and forks included.
TEST_F(LibTorchTest, IsTheUsersOwnTorchIfItIsTheRightOne) {
  Write("lib/dtrain/libtorch", "2.11.0\nlib/a/torch\n");
  Write("lib/a/torch/lib/libtorch_cpu.so");
  struct Row {
    const char* version;  // of version.py; empty: no such file
    bool serves;
  };
  for (const Row& row :
       {Row{"", true}, Row{"2.11.0", true}, Row{"2.11.0+cpu", true},
        Row{"2.11.1+cu130", true}, Row{"2.1.0", false}, Row{"2.6.0", false},
        Row{"2.12.0+cpu", false}, Row{"2.110.0", false}}) {
    SCOPED_TRACE(row.version);
    if (*row.version != '\0') {
      Write("lib/a/torch/version.py",
            "from typing import Optional\n__version__ = '" +
                std::string(row.version) + "'\ndebug = False\n");
    }
    const std::string failure = Failure();
    EXPECT_EQ(failure.empty(), row.serves) << failure;
    if (row.serves) continue;
    EXPECT_THAT(failure, HasSubstr("is torch " + std::string(row.version)));
    EXPECT_THAT(failure, HasSubstr("need torch 2.11.*"));
    EXPECT_THAT(failure, HasSubstr("programs run with any torch"));
  }
}

TEST(RequireLibcTest, NamesBothVersions) {
  for (const char* enough : {"2.99", "3.0", ::gnu_get_libc_version()}) {
    EXPECT_NO_THROW(RequireLibc("models", enough)) << enough;
  }
  for (const std::string old : {"2.4", "2.28", "2.31", "1.99"}) {
    SCOPED_TRACE(old);
    try {
      RequireLibc("models", old);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResources);
      EXPECT_THAT(error.what(), HasSubstr("this system has " + old));
    }
  }
}

}  // namespace
}  // namespace dtrain
