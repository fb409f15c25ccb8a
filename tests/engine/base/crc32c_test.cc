#include "engine/base/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32cTest, IsThatOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c(""), 0U);
}

// As computed by google_crc32c's and TensorFlow's formula.
TEST(Crc32cTest, IsMaskedForRecords) {
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8U);
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xC78AB0E5U);
}

}  // namespace
}  // namespace dtrain
