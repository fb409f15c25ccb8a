#include <csignal>

#include <gtest/gtest.h>

#include "engine/plugin/model_library.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

class RunProgramsTest : public testing::Test {
 protected:
  ProgramRun Shell(const std::string& script) {
    return {.argv = {"sh", "-c", script},
            .output = directory_.path() / std::to_string(count_++)};
  }

  TemporaryDirectory directory_;
  int count_ = 0;
};

TEST_F(RunProgramsTest, GivesEndsInTheOrderOfTheRuns) {
  const auto ends = RunPrograms({Shell("sleep 0.2; echo out; echo err >&2"),
                                 Shell("exit 3"), Shell("kill -9 $$")},
                                /*at_once=*/2);

  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].output, "out\nerr\n");
  EXPECT_TRUE(ends[0].success());
  EXPECT_EQ(ends[1].exit_code, 3);
  EXPECT_FALSE(ends[1].success());
  EXPECT_EQ(ends[2].signal, SIGKILL);
  EXPECT_FALSE(ends[2].success());
}

TEST_F(RunProgramsTest, SaysWhyOneCannotBeStarted) {
  const auto ends = RunPrograms(
      {{.argv = {"/nowhere/compiler"}, .output = directory_.path() / "x"}}, 1);

  EXPECT_EQ(ends[0].not_started, "No such file or directory");
  EXPECT_FALSE(ends[0].success());
}

TEST_F(RunProgramsTest, CutsWhatIsTooLong) {
  const auto ends =
      RunPrograms({Shell("head -c 3000000 /dev/zero | tr '\\0' x")}, 1);

  EXPECT_EQ(ends[0].output.size(), std::size_t{1} << 20);
}

TEST_F(RunProgramsTest, GivesNoInput) {
  const auto ends = RunPrograms({Shell("cat; echo end")}, 1);

  EXPECT_EQ(ends[0].output, "end\n");
}

}  // namespace
}  // namespace dtrain
