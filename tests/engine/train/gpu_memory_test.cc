#include "engine/train/gpu_memory.h"

#include <gmock/gmock.h>

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kGB = 1'000'000'000;

TEST(GpuMemoryTest, ThatIsFullSaysWhoHasItAndWhatHelps) {
  EXPECT_THAT(
      OutOfMemoryMessage({.total = 140 * kGB,
                          .free = kGB,
                          .reserved = 138 * kGB,
                          .allocated = 120 * kGB}),
      AllOf(HasSubstr("of 140.0 GB"), HasSubstr("this trial has 138.0 GB"),
            HasSubstr("tensors 120.0 GB"), HasSubstr("driver 1.0 GB"),
            HasSubstr("1.0 GB are free"), HasSubstr("lower global_batch_size"),
            HasSubstr("mixed_precision"), Not(HasSubstr("nvidia-smi")),
            Not(HasSubstr("share"))));
}

TEST(GpuMemoryTest, ThatOthersHaveIsLookedForThere) {
  EXPECT_THAT(OutOfMemoryMessage({.total = 140 * kGB,
                                  .free = kGB,
                                  .reserved = 10 * kGB,
                                  .allocated = 9 * kGB}),
              AllOf(HasSubstr("driver 129.0 GB"), HasSubstr("`nvidia-smi`")));
}

TEST(GpuMemoryTest, OfAShareNamesTheShare) {
  EXPECT_THAT(OutOfMemoryMessage({.total = 140 * kGB,
                                  .free = 70 * kGB,
                                  .reserved = 34 * kGB,
                                  .allocated = 30 * kGB,
                                  .limit = 35 * kGB}),
              AllOf(HasSubstr("of the 35.0 GB of its share"),
                    Not(HasSubstr("nvidia-smi"))));
}

}  // namespace
}  // namespace dtrain
