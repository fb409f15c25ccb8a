#include "engine/base/rng.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

// The expected numbers are those of numpy.random.RandomState(seed).
TEST(RngTest, DrawsTheDoublesOfNumpy) {
  Rng rng(42);

  EXPECT_DOUBLE_EQ(rng.Uniform(), 0.3745401188473625);
  EXPECT_DOUBLE_EQ(rng.Uniform(), 0.9507143064099162);
}

TEST(RngTest, ScalesToTheInterval) {
  Rng rng(42);

  EXPECT_DOUBLE_EQ(rng.Uniform(0.1, 0.9), 0.1 + 0.3745401188473625 * 0.8);
}

TEST(RngTest, DrawsTheIntegersOfNumpy) {
  Rng rng(0);

  EXPECT_EQ(rng.Below(10), 5u);
  EXPECT_EQ(rng.Below(10), 0u);
  EXPECT_EQ(rng.Below(10), 3u);
}

TEST(RngTest, DrawsNothingForOneChoice) {
  Rng drawn(7);
  Rng untouched(7);

  EXPECT_EQ(drawn.Below(1), 0u);

  EXPECT_EQ(drawn.Save(), untouched.Save());
}

TEST(RngTest, MakesVersion4Uuids) {
  Rng rng(1);

  const std::string uuid = rng.Uuid();

  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
}

TEST(RngTest, ContinuesFromASavedState) {
  Rng rng(3);
  (void)rng.Uniform();
  const std::string state = rng.Save();
  const double next = rng.Uniform();
  Rng other(99);

  other.Load(state);

  EXPECT_EQ(other.Uniform(), next);
}

TEST(RngTest, RefusesADamagedState) {
  Rng rng(3);

  EXPECT_THROW(rng.Load("12 oops"), std::invalid_argument);
}

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
