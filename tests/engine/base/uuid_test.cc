#include "engine/base/uuid.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(UuidTest, HasTheVersionAndTheVariant) {
  std::array<std::byte, 16> bytes{};
  EXPECT_EQ(FormatUuid(bytes), "00000000-0000-4000-8000-000000000000");
  bytes.fill(std::byte{0xff});
  EXPECT_EQ(FormatUuid(bytes), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

TEST(UuidTest, IsRandom) {
  const std::string uuid = RandomUuid();
  EXPECT_TRUE(IsUuid(uuid)) << uuid;
  EXPECT_NE(RandomUuid(), uuid);
}

TEST(UuidTest, RecognizesItsForm) {
  EXPECT_TRUE(IsUuid("01234567-89ab-cdef-0123-456789abcdef"));
  EXPECT_FALSE(IsUuid(""));
  EXPECT_FALSE(IsUuid("01234567-89ab-cdef-0123-456789abcde"));
  EXPECT_FALSE(IsUuid("01234567-89ab-cdef-0123-456789abcdef0"));
  EXPECT_FALSE(IsUuid("01234567-89AB-cdef-0123-456789abcdef"));
  EXPECT_FALSE(IsUuid("01234567089ab-cdef-0123-456789abcdef"));
  EXPECT_FALSE(IsUuid("../34567-89ab-cdef-0123-456789abcdef"));
}

}  // namespace
}  // namespace dtrain
