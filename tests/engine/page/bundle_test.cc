#include "engine/page/bundle.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace dtrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::StartsWith;

// The bytes of a column, of the bundle it is in.
std::string ColumnBytes(const std::string& bundle, const json& column,
                        std::size_t size) {
  std::uint32_t length = 0;
  for (int i = 3; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(bundle.at(4 + i));
  }
  return bundle.substr(8 + length + column.at("at").get<std::size_t>(),
                       column.at("n").get<std::size_t>() * size);
}

// Decodes a column as the page does: number i has byte b at b·n + i.
template <typename Number>
std::vector<Number> Decode(const Bundle& bundle, const json& column) {
  const std::string bytes =
      ColumnBytes(bundle.Finish(json::object()), column, sizeof(Number));
  const std::size_t n = column.at("n");
  std::vector<Number> numbers(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t b = 0; b < sizeof(Number); ++b) {
      numbers[i] |=
          static_cast<Number>(static_cast<unsigned char>(bytes.at(b * n + i)))
          << (8 * b);
    }
  }
  return numbers;
}

TEST(BundleTest, BeginsWithItsNameAndDocument) {
  Bundle bundle;
  const std::string bytes = bundle.Finish({{"a", 1}});
  EXPECT_EQ(bytes, std::string("DTRN\x07\0\0\0{\"a\":1}", 15));
}

TEST(BundleTest, ReplacesInvalidUtf8InTheDocument) {
  const std::string bytes = Bundle().Finish({{"a", "\xFF"}});
  EXPECT_EQ(bytes.substr(8), "{\"a\":\"\xEF\xBF\xBD\"}");
}

TEST(BundleTest, SeparatesTheBytesOfNumbers) {
  Bundle bundle;
  const json first = bundle.Integers(std::vector<std::int64_t>{7});
  const json column = bundle.Integers(std::vector<std::int64_t>{258, 3});
  EXPECT_EQ(column, json({{"at", 4}, {"n", 2}, {"as", "u32"}}));
  EXPECT_EQ(ColumnBytes(bundle.Finish(json::object()), column, 4),
            std::string("\2\3\1\0\0\0\0\0", 8));
  EXPECT_THAT(Decode<std::uint32_t>(bundle, first), ElementsAre(7));
}

TEST(BundleTest, DeltasAreDifferencesModulo2To32) {
  Bundle bundle;
  const json column = bundle.Deltas(std::vector<std::int64_t>{10, 20, 15});
  EXPECT_EQ(column.at("delta"), true);
  EXPECT_THAT(Decode<std::uint32_t>(bundle, column),
              ElementsAre(10, 10, 0xFFFFFFFBU));
}

TEST(BundleTest, LargeAndNegativeNumbersAreDoubles) {
  for (const std::int64_t number : {std::int64_t{1} << 32, std::int64_t{-1}}) {
    Bundle bundle;
    const json column = bundle.Deltas(std::vector<std::int64_t>{1, number});
    EXPECT_EQ(column.at("as"), "f64");
    EXPECT_FALSE(column.contains("delta"));
    EXPECT_EQ(
        std::bit_cast<double>(Decode<std::uint64_t>(bundle, column).at(1)),
        static_cast<double>(number));
  }
}

TEST(BundleTest, FloatsKeepNanAndInfinities) {
  Bundle bundle;
  const double inf = std::numeric_limits<double>::infinity();
  const json column =
      bundle.Floats(std::vector<double>{0.1, std::nan(""), -inf});
  const auto words = Decode<std::uint32_t>(bundle, column);
  EXPECT_EQ(std::bit_cast<float>(words.at(0)), 0.1F);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(words.at(1))));
  EXPECT_EQ(std::bit_cast<float>(words.at(2)), static_cast<float>(-inf));
}

TEST(GzipTest, IsInflatedToTheSameBytes) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += static_cast<char>(i * i);
  const std::string packed = Gzip(bytes);
  ASSERT_THAT(packed, StartsWith("\x1F\x8B"));
  EXPECT_LT(packed.size(), bytes.size() / 10);
  std::string inflated(bytes.size() + 1, '\0');
  z_stream stream{};
  ASSERT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(inflated.data());
  stream.avail_out = static_cast<uInt>(inflated.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  inflated.resize(stream.total_out);
  inflateEnd(&stream);
  EXPECT_EQ(inflated, bytes);
}

// Examples of RFC 4648, section 10.
TEST(Base64Test, PadsTheLastGroup) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xFB\xFF"), "+/8=");
}

TEST(ExactIntegersTest, WritesIntegersThatJavaScriptRoundsAsTexts) {
  EXPECT_EQ(ExactIntegers(9007199254740992), json(9007199254740992));
  EXPECT_EQ(ExactIntegers(9007199254740993), json("9007199254740993"));
  EXPECT_EQ(ExactIntegers(-9007199254740993), json("-9007199254740993"));
  EXPECT_EQ(ExactIntegers(18446744073709551615U), json("18446744073709551615"));
  EXPECT_EQ(ExactIntegers(1e300), json(1e300));
  EXPECT_EQ(ExactIntegers("adam"), json("adam"));
  EXPECT_EQ(ExactIntegers({1, 9007199254740993, "a"}),
            json({1, "9007199254740993", "a"}));
}

}  // namespace
}  // namespace dtrain
