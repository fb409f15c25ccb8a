#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/slots/slots.h"
#include "engine/wire/trial_spec.h"

namespace dtrain {
namespace {

TEST(CpuPrecisionTest, RecognizesInstructionsByName) {
  const char* zen3 = "flags\t\t: fpu avx2 f16c\nbogomips: 1\n";
  const char* sapphire_rapids = "flags : avx512_bf16 avx512_fp16 amx_bf16\n";
  const char* graviton = "Features : fp asimd asimdhp\n";
  EXPECT_FALSE(CpuComputesIn("bf16", zen3));
  EXPECT_FALSE(CpuComputesIn("fp16", zen3));  // f16c converts only
  EXPECT_TRUE(CpuComputesIn("bf16", sapphire_rapids));
  EXPECT_TRUE(CpuComputesIn("fp16", sapphire_rapids));
  EXPECT_FALSE(CpuComputesIn("bf16", graviton));
  EXPECT_TRUE(CpuComputesIn("fp16", graviton));
  EXPECT_FALSE(CpuComputesIn("bf16", ""));
}

TEST(CpuPrecisionTest, AcceptsFullPrecision) { RequireCpuPrecision({}); }

TEST(CpuPrecisionTest, SuggestsAnAlternative) {
  TrainerSettings settings;
  settings.mixed_precision = "fp8";  // of no CPU
  try {
    RequireCpuPrecision(settings);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(), testing::HasSubstr("set it to none"));
  }
}

TEST(CpuPrecisionTest, RejectsTf32WhichOnlyGpusHave) {
  TrainerSettings settings;
  settings.mixed_precision = "tf32";
  try {
    RequireCpuPrecision(settings);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(), testing::HasSubstr("only GPUs compute in tf32"));
  }
}

}  // namespace
}  // namespace dtrain
