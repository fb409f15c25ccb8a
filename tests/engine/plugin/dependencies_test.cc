#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plugin/model_library.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ParseDependenciesTest, ReadsWhatGccWrites) {
  EXPECT_THAT(ParseDependencies("x.o: a.cpp b/c.h \\\n d.h\n"),
              ElementsAre("a.cpp", "b/c.h", "d.h"));
  EXPECT_THAT(ParseDependencies("/a b/x.o: my\\ dir/a.cpp co$$t.h ha\\#h.h\n"),
              ElementsAre("my dir/a.cpp", "co$t.h", "ha#h.h"));
  EXPECT_THAT(ParseDependencies("no rule"), IsEmpty());
  EXPECT_THAT(ParseDependencies(""), IsEmpty());
}

TEST(FirstOutsideTest, FindsWhatIsNotKept) {
  const TemporaryDirectory directory;
  const fs::path rule = directory.path() / "rule";
  const fs::path inside = directory.path() / "a.h";
  std::ofstream(inside) << "";
  const auto find = [&](const std::string& files) {
    std::ofstream(rule, std::ios::trunc) << "x.o: " + files + "\n";
    return FirstOutside(rule, {fs::canonical(inside)}, "/pch.h");
  };

  EXPECT_EQ(find(inside.string()), "");
  EXPECT_EQ(find((directory.path() / "b/../a.h").string()), "");
  EXPECT_EQ(find("/pch.h " + inside.string()), "");
  EXPECT_EQ(find(inside.string() + " /other/net.h"), "/other/net.h");
}

}  // namespace
}  // namespace dtrain
