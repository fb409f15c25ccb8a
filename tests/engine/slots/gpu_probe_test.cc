#include "engine/slots/gpu_probe.h"

#include <chrono>

#include <gtest/gtest.h>

#include "engine/slots/slots.h"

namespace dtrain {
namespace {

TEST(FindGpusTest, AnswersOnAnyMachine) {
  std::string problem;
  const std::vector<Gpu> gpus = FindGpus(std::chrono::seconds(20), &problem);
  EXPECT_TRUE(gpus.empty() || !gpus[0].name.empty());
}

}  // namespace
}  // namespace dtrain
