#include "engine/wire/system_sample.h"

#include <gtest/gtest.h>

#include "engine/wire/json_codec.h"

namespace dtrain {
namespace {

const SystemSample kFirst{.seconds = 5,
                          .cpu_seconds = 10,
                          .processes = 3,
                          .memory_bytes = 700,
                          .pss_bytes = 500,
                          .read_bytes = 40,
                          .gpus = {{.gpu = 2,
                                    .percent = 30,
                                    .memory_bytes = 9,
                                    .watts = 100,
                                    .celsius = 61}}};
const SystemSample kSecond{
    .samples = 2,
    .seconds = 15,
    .cpu_seconds = 1,
    .processes = 2,
    .memory_bytes = 800,
    .read_bytes = 2,
    .written_bytes = 6,
    .gpus = {{.gpu = 2, .percent = 70, .celsius = 50}, {.gpu = 3, .watts = 7}}};

TEST(SystemSampleTest, MergesIntervals) {
  SystemSample sample = kFirst;
  sample.Merge(kSecond);

  EXPECT_EQ(sample.samples, 3);
  EXPECT_EQ(sample.seconds, 20);
  EXPECT_EQ(sample.cpu_seconds, 11);
  EXPECT_EQ(sample.processes, 3);
  EXPECT_EQ(sample.memory_bytes, 800);
  EXPECT_EQ(sample.pss_bytes, 500);
  EXPECT_EQ(sample.read_bytes, 42);
  EXPECT_EQ(sample.written_bytes, 6);
  ASSERT_EQ(sample.gpus.size(), 2U);
  EXPECT_EQ(sample.gpus[0].percent, 60);
  EXPECT_EQ(sample.gpus[0].watts, 100);
  EXPECT_EQ(sample.gpus[0].memory_bytes, 9);
  EXPECT_EQ(sample.gpus[0].celsius, 61);
  EXPECT_EQ(sample.gpus[1].watts, 7);
}

TEST(SystemSampleTest, RoundTrips) {
  const std::string line =
      EncodeLine(SystemSampled{.trial = {3, 7}, .sample = kSecond});

  const auto back = DecodeLine<SystemSampled>(line, "sample", true);

  EXPECT_EQ(EncodeLine(back), line);
  EXPECT_EQ(back.trial, (TrialId{3, 7}));
  EXPECT_EQ(back.sample.pss_bytes, std::nullopt);
  ASSERT_EQ(back.sample.gpus.size(), 2U);
  EXPECT_EQ(back.sample.gpus[0].percent, 70);
}

}  // namespace
}  // namespace dtrain
