#include "engine/slots/gpus.h"

#include <chrono>

#include <gmock/gmock.h>

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class VisibleGpusTest : public ::testing::Test {
 protected:
  static std::vector<std::int64_t> Visible(std::string_view variable) {
    const std::vector<Gpu> all = {{.index = 0, .uuid = "GPU-aa11"},
                                  {.index = 1, .uuid = "GPU-bb22"},
                                  {.index = 2, .uuid = "GPU-cc33"}};
    std::vector<std::int64_t> indexes;
    for (const Gpu& gpu : VisibleGpus(all, variable)) {
      indexes.push_back(gpu.index);
    }
    return indexes;
  }
};

TEST_F(VisibleGpusTest, SelectsByNumber) {
  EXPECT_THAT(Visible("2,0"), ElementsAre(2, 0));
}

TEST_F(VisibleGpusTest, SelectsByUuidPrefix) {
  EXPECT_THAT(Visible("GPU-bb,GPU-aa11"), ElementsAre(1, 0));
}

TEST_F(VisibleGpusTest, UnknownGpuEndsTheList) {
  EXPECT_THAT(Visible("1,-1,0"), ElementsAre(1));
}

TEST_F(VisibleGpusTest, EmptyHidesAll) { EXPECT_THAT(Visible(""), IsEmpty()); }

TEST(FindGpusTest, AnswersOnAnyMachine) {
  std::string problem;
  const std::vector<Gpu> gpus = FindGpus(std::chrono::seconds(20), &problem);
  EXPECT_TRUE(gpus.empty() || !gpus[0].name.empty());
}

}  // namespace
}  // namespace dtrain
