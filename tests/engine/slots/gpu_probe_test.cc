#include "engine/slots/gpu_probe.h"

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "engine/os/unique_fd.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(20);

TEST(AskInChildTest, GivesTheAnswer) {
  std::string problem;
  const auto ask = [] { return std::string(200'000, 'x'); };
  EXPECT_EQ(AskInChild(ask, kLong, &problem), std::string(200'000, 'x'));
  EXPECT_EQ(problem, "");
}

TEST(AskInChildTest, CrashIsAProblem) {
  std::string problem;
  const auto ask = []() -> std::string {
    std::raise(SIGKILL);
    return "";
  };
  EXPECT_EQ(AskInChild(ask, kLong, &problem), "");
  EXPECT_THAT(problem, HasSubstr("crashed"));
}

TEST(AskInChildTest, TakesNoLongerThanTheLimit) {
  std::string problem;
  const auto ask = []() -> std::string {
    while (true) ::pause();
  };
  EXPECT_EQ(AskInChild(ask, std::chrono::milliseconds(50), &problem), "");
  EXPECT_THAT(problem, HasSubstr("took longer than"));
}

TEST(AskInChildTest, ChildHasNoDescriptorsOfOurs) {
  static const UniqueFd ours(::fcntl(STDIN_FILENO, F_DUPFD, 100));
  ASSERT_GE(ours.get(), 100);
  std::string problem;
  const auto ask = [] {
    return std::string(::fcntl(ours.get(), F_GETFD) < 0 ? "closed" : "open");
  };
  EXPECT_EQ(AskInChild(ask, kLong, &problem), "closed");
}

TEST(FindGpusTest, AnswersOnAnyMachine) {
  std::string problem;
  const std::vector<Gpu> gpus = FindGpus(kLong, &problem);
  EXPECT_TRUE(gpus.empty() || !gpus[0].name.empty());
}

}  // namespace
}  // namespace dtrain
