#include "engine/os/sha256.h"

#include <span>
#include <string>

#include <gtest/gtest.h>

namespace dtrain {
namespace {

// The values of FIPS 180-4's examples.
TEST(Sha256Test, MatchesTheStandard) {
  const std::string abc = "abc";
  EXPECT_EQ(ComputeSha256(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ComputeSha256({}),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, TakesBytesInPieces) {
  const std::string text(100'000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  Sha256 sha;
  sha.Update(bytes.first(1));
  sha.Update(bytes.subspan(1));
  EXPECT_EQ(sha.Finish(), ComputeSha256(bytes));
}

TEST(HmacTest, MatchesRfc4231) {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const unsigned char byte : bytes) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  };
  EXPECT_EQ(hex(HmacSha256("Jefe", {"what do ya want ", "for nothing?"})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A key that is longer than a block.
  EXPECT_EQ(hex(HmacSha256(
                std::string(131, '\xaa'),
                {"Test Using Larger Than Block-Size Key - Hash Key First"})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(ConstantTimeTest, ComparesCorrectly) {
  EXPECT_TRUE(AreEqualInConstantTime("", ""));
  EXPECT_TRUE(AreEqualInConstantTime("ab", "ab"));
  EXPECT_FALSE(AreEqualInConstantTime("ab", "ac"));
  EXPECT_FALSE(AreEqualInConstantTime("ab", "abc"));
}

}  // namespace
}  // namespace dtrain
