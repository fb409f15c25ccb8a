// Manual pages, which the build writes with `dtrain __share`.

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ManPagesTest : public testing::Test {
 protected:
  ManPagesTest() {
    const CliResult result =
        dtrain_.Run({"__share", dtrain_.directory() / "share", "2026-11-25"});
    EXPECT_EQ(result.code, 0) << result.err;
    for (const auto& file : fs::directory_iterator(Directory())) {
      std::ostringstream text;
      text << std::ifstream(file.path()).rdbuf();
      pages_[file.path().filename()] = text.str();
    }
  }

  fs::path Directory() const { return dtrain_.directory() / "share/man/man1"; }

  const CliRunner dtrain_;
  std::map<std::string, std::string> pages_;
};

TEST_F(ManPagesTest, DescribeEveryCommand) {
  const std::string& program = pages_.at("dtrain.1");
  for (const auto& command : CommandsInHelp(dtrain_.Run({"--help"}).out)) {
    EXPECT_TRUE(pages_.contains("dtrain-" + command + ".1")) << command;
  }
  EXPECT_THAT(program, HasSubstr(".BR dtrain\\-preview\\-search (1)\n"
                                 "Show the trials that a search would run\n"));
  EXPECT_THAT(program, HasSubstr("\\fB\\-\\-store\\fR \\fIDIR\\fR\n"));
  EXPECT_TRUE(pages_.contains("dtrain-checkpoint-export.1"));
}

TEST_F(ManPagesTest, HaveOptionsExitCodesAndExamples) {
  const std::string& page = pages_.at("dtrain-list.1");
  EXPECT_THAT(page, HasSubstr("\\fB\\-n\\fR, \\fB\\-\\-limit\\fR \\fIN\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n\\fB0\\fR\nsuccess\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n"));
  EXPECT_THAT(pages_.at("dtrain-resume.1"), HasSubstr("activate"));
}

TEST_F(ManPagesTest, ReadFlagsOfEveryCommandFromTheTable) {
  for (const auto& [name, page] : pages_) {
    EXPECT_THAT(page, HasSubstr("\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n")) << name;
  }
}

TEST_F(ManPagesTest, AreCleanForMandoc) {
  if (dtrain_.RunProgram({"sh", "-c", "command -v mandoc"}).code != 0) {
    GTEST_SKIP() << "mandoc is not installed";
  }
  const CliResult result = dtrain_.RunProgram(
      {"sh", "-c", "mandoc -Tlint " + Directory().string() + "/*.1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace dtrain
