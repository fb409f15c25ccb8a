#include "engine/plugin/model_sources.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class ModelSourcesTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text = "") {
    const fs::path path = directory_.path() / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::trunc) << text;
  }
  std::string Hash() { return ContentHash(Find()); }
  ModelSources Find() { return FindModelSources(directory_.path()); }

  TemporaryDirectory directory_;
};

TEST_F(ModelSourcesTest, FindsAUserModelOfThatModuleOnly) {
  EXPECT_FALSE(HasOwnModel("model_def:MyTrial", directory_.path()));
  Write("model_def.cpp");
  EXPECT_TRUE(HasOwnModel("model_def:MyTrial", directory_.path()));
  EXPECT_FALSE(HasOwnModel("digits:LeNetTrial", directory_.path()));
  EXPECT_FALSE(HasOwnModel("model_def", directory_.path()));
}

TEST_F(ModelSourcesTest, FindsSourcesBesideAndHeadersBelow) {
  for (const char* file :
       {"model_def.cpp", "net.cc", "net.h", "nets/deep.hpp", "nets/other.cpp",
        "net_test.cc", "notes.txt", "old/ignored.h", ".git/x.h"}) {
    Write(file);
  }
  Write(".gitignore", "old/\n");
  const ModelSources found = Find();

  EXPECT_THAT(found.sources, ElementsAre("model_def.cpp", "net.cc"));
  EXPECT_THAT(found.headers, ElementsAre("net.h", "nets/deep.hpp"));
  EXPECT_EQ(found.real_paths.size(), 4u);
}

TEST_F(ModelSourcesTest, HashChangesWithNamesAndContentsOnly) {
  Write("model_def.cpp", "a");
  Write("net.h", "b");
  const std::string before = Hash();

  Write("notes.txt", "c");
  EXPECT_EQ(Hash(), before);
  Write("net.h", "bb");
  EXPECT_NE(Hash(), before);
  Write("net.h", "b");
  EXPECT_EQ(Hash(), before);
  Write("model_def.cpp", "ab");
  Write("net.h", "");
  EXPECT_NE(Hash(), before);
  fs::remove(directory_.path() / "net.h");
  Write("model_def.cpp", "a");
  Write("nat.h", "b");
  EXPECT_NE(Hash(), before);
}

}  // namespace
}  // namespace dtrain
