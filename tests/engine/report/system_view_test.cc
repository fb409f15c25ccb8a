#include "engine/report/system_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

const SystemUse kUse{.seconds = 100,
                     .cpu_seconds = 124,
                     .memory_bytes = 2'100'000'000,
                     .pss_bytes = 1'900'000'000,
                     .read_bytes = 3'200'000,
                     .written_bytes = 12'000};

SystemUse OnGpu() {
  SystemUse use = kUse;
  use.gpu_percent = 31.4;
  use.gpu_watts = 250.4;
  use.gpu_memory_bytes = 9'300'000'000;
  use.gpu_celsius = 61;
  return use;
}

// A trial that waits for its data so many of 20 seconds.
ProfileReport WaitingForData(double seconds) {
  return {.trained = 1, .seconds = {seconds, 20 - seconds}};
}

struct UseCase {
  std::string name;
  SystemUse use;
  UseContext context;
  std::string summary;
};

class SummarizeUseTest : public testing::TestWithParam<UseCase> {};

TEST_P(SummarizeUseTest, SaysWhatWasUsedAndIdle) {
  EXPECT_EQ(SummarizeUse(GetParam().use, GetParam().context),
            GetParam().summary);
}

INSTANTIATE_TEST_SUITE_P(
    Uses, SummarizeUseTest,
    testing::Values(
        UseCase{"cpu", kUse, {.cores = 2}, "CPU 1.2 of 2 cores"},
        UseCase{"one_core", {.seconds = 10}, {.cores = 1}, "CPU 0.0 of 1 core"},
        UseCase{"no_time", {.cpu_seconds = 1}, {}, "CPU 0.0 cores"},
        UseCase{"gpu", OnGpu(), {}, "GPU 31% busy, CPU 1.2 cores"},
        UseCase{"profiled",
                OnGpu(),
                {.profile = WaitingForData(9)},
                "GPU 31% busy, waiting for data 45% of the time, CPU 1.2 "
                "cores"},
        UseCase{"data_is_no_matter",
                OnGpu(),
                {.profile = WaitingForData(1.9)},
                "GPU 31% busy, CPU 1.2 cores"},
        UseCase{"search",
                kUse,
                {.cores = 2, .slots = 0.623},
                "slots 62% in use, CPU 1.2 of 2 cores"}),
    [](const auto& info) { return info.param.name; });

TEST(SystemViewTest, JsonHasAllValues) {
  EXPECT_EQ(SystemUseJson(std::nullopt, {}), nullptr);
  const nlohmann::json object = SystemUseJson(OnGpu(), {});
  EXPECT_EQ(object["summary"], "GPU 31% busy, CPU 1.2 cores");
  EXPECT_EQ(object["seconds"], 100);
  EXPECT_EQ(object["cores"], 1.24);
  EXPECT_EQ(object["gpu_celsius"], 61);
  EXPECT_EQ(SystemUseJson(SystemUse{}, {})["read_bytes"], nullptr);
}

TEST(SystemViewTest, FactsLeaveOutWhatIsUnknown) {
  EXPECT_THAT(SystemFacts({.memory_bytes = 1'000}),
              ElementsAre(Pair("memory", "at most 1.0 kB")));
  EXPECT_THAT(
      SystemFacts(OnGpu()),
      ElementsAre(Pair("memory",
                       "at most 2.1 GB; without shared pages at most 1.9 GB, "
                       "read once a minute"),
                  Pair("storage", "read 3.2 MB, wrote 12.0 kB"),
                  Pair("GPU", "at most 9.3 GB each, 250 W, up to 61 degrees")));
}

}  // namespace
}  // namespace dtrain
