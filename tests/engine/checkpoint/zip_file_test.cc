#include "engine/checkpoint/zip_file.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> ZipBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string ToText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns `value` as little-endian bytes.
std::string Little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i) & 0xFF);
  }
  return text;
}

std::string Zeros(std::size_t count) { return std::string(count, '\0'); }

struct ZipOptions {
  int method = 0;
  int flags = 0;
  bool zip64 = false;
  std::uint64_t offset = 0;  // where the directory says the entry lies
  std::uint64_t size = 2;
  std::uint64_t entries = 1;
  std::uint32_t checksum = 0;
  std::string local_name = "a/b";
};

// Returns an archive with one entry, "a/b" with the contents "hi".
std::string Zip(const ZipOptions& o) {
  const std::string local = "PK\3\4" + Little(0, 2) + Little(o.flags, 2) +
                            Little(o.method, 2) + Zeros(16) + Little(3, 2) +
                            Little(4, 2) + o.local_name + "pad!hi";
  const auto number = [&](std::uint64_t value) {
    return Little(o.zip64 ? 0xFFFFFFFF : value, 4);
  };
  const std::string extra =
      o.zip64
          ? Little(7, 2) + Little(1, 2) + "x" + Little(1, 2) + Little(24, 2) +
                Little(o.size, 8) + Little(o.size, 8) + Little(o.offset, 8)
          : "";
  const std::string directory =
      "PK\1\2" + Little(0, 4) + Little(o.flags, 2) + Little(o.method, 2) +
      Little(0, 4) + Little(o.checksum, 4) + number(o.size) + number(o.size) +
      Little(3, 2) + Little(extra.size(), 2) + Little(1, 2) + Little(0, 8) +
      number(o.offset) + "a/b" + extra + "c";
  std::string end64;
  if (o.zip64) {
    end64 = "PK\6\6" + Little(44, 8) + Zeros(12) + Little(o.entries, 8) +
            Little(o.entries, 8) + Little(directory.size(), 8) +
            Little(local.size(), 8) + "PK\6\7" + Little(0, 4) +
            Little(local.size() + directory.size(), 8) + Little(1, 4);
  }
  return local + directory + end64 + "PK\5\6" + Little(0, 4) +
         Little(o.entries, 2) + Little(o.zip64 ? 0xFFFF : o.entries, 2) +
         number(directory.size()) + number(local.size()) + Little(5, 2) +
         "notes";
}

// Returns the error of reading it, or the contents of its "a/b".
std::string ZipOutcome(const std::string& file) {
  try {
    const ZipFile zip(ZipBytes(file), "x.zip");
    return ToText(zip.Find("a/b").value());
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ZipFileTest, FindsStoredEntriesByName) {
  const std::string file = Zip({});
  const ZipFile zip(ZipBytes(file), "x.zip");
  EXPECT_EQ(ToText(zip.Find("a/b").value()), "hi");
  EXPECT_FALSE(zip.Find("b"));
  EXPECT_THAT(zip.Names("a/"), ElementsAre("a/b"));
  EXPECT_THAT(zip.Names("b"), ElementsAre());
}

TEST(ZipFileTest, ReadsZip64) {
  EXPECT_EQ(ZipOutcome(Zip({.zip64 = true})), "hi");
}

TEST(ZipFileTest, ComparesTheChecksum) {
  EXPECT_EQ(ZipOutcome(Zip({.checksum = 0xD8932AAC})), "hi");
  EXPECT_THAT(ZipOutcome(Zip({.checksum = 0xD8932AAD})),
              HasSubstr("its entry 'a/b' does not match its CRC-32"));
}

struct BadZip {
  const char* name;
  std::string file;
  const char* fault;
};

class BadZipTest : public testing::TestWithParam<BadZip> {};

TEST_P(BadZipTest, IsRefusedWithTheReason) {
  EXPECT_THAT(ZipOutcome(GetParam().file), HasSubstr(GetParam().fault));
}

INSTANTIATE_TEST_SUITE_P(
    Format, BadZipTest,
    testing::Values(
        BadZip{"Empty", "", "its end is missing"},
        BadZip{"NoArchive", std::string(99, 'x'), "its end is missing"},
        BadZip{"Cut", Zip({}).substr(0, 60), "its end is missing"},
        BadZip{"Deflated", Zip({.method = 8}), "'a/b' is compressed"},
        BadZip{"Encrypted", Zip({.flags = 1}), "'a/b' is compressed or encr"},
        BadZip{"Beyond", Zip({.size = 2000}), "'a/b' goes beyond its end"},
        BadZip{"Huge", Zip({.zip64 = true, .size = ~std::uint64_t{0}}),
               "'a/b' goes beyond its end"},
        BadZip{"FarAway", Zip({.zip64 = true, .offset = ~std::uint64_t{7}}),
               "goes beyond its end"},
        BadZip{"Elsewhere", Zip({.offset = 1}), "not where the directory says"},
        BadZip{"OtherName", Zip({.local_name = "a/c"}), "not where the direct"},
        BadZip{"MoreEntries", Zip({.entries = 2}), "directory is damaged"},
        BadZip{"EndlessEntries",
               Zip({.zip64 = true, .entries = ~std::uint64_t{0}}),
               "directory is damaged"},
        BadZip{"FewerEntries", Zip({.entries = 0}),
               "not have the recorded size"}),
    [](const auto& info) { return info.param.name; });

// An archive that is written into memory.
class ZipWriterTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& text) {
    writer_.Add(name, std::as_bytes(std::span(text)));
  }
  ZipFile Read() { return ZipFile(std::as_bytes(std::span(archive_)), "x"); }
  static std::string ToText(const ZipFile& zip, const std::string& name) {
    const auto bytes = zip.Find(name).value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <typename T>
  T NumberAt(std::size_t position) const {
    T number{};
    std::memcpy(&number, archive_.data() + position, sizeof number);
    return number;
  }

  std::string archive_;
  ZipWriter writer_{[this](std::span<const std::byte> bytes) {
    archive_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }};
};

TEST_F(ZipWriterTest, RoundTrips) {
  Add("a", "first");
  Add("folder/b", std::string(1000, 'b'));
  Add("empty", "");
  writer_.Finish();
  const ZipFile zip = Read();
  EXPECT_EQ(zip.Names().size(), 3u);
  EXPECT_EQ(ToText(zip, "a"), "first");
  EXPECT_EQ(ToText(zip, "folder/b"), std::string(1000, 'b'));
  EXPECT_EQ(ToText(zip, "empty"), "");
}

TEST_F(ZipWriterTest, EmptyArchiveIsValid) {
  writer_.Finish();
  EXPECT_EQ(archive_.size(), 22u);
  EXPECT_TRUE(Read().Names().empty());
}

TEST_F(ZipWriterTest, ChecksumMatchesZip) {
  Add("a", "123456789");
  writer_.Finish();
  constexpr std::uint32_t kKnown = 0xcbf43926;  // CRC-32's check value
  EXPECT_EQ(NumberAt<std::uint32_t>(14), kKnown);
  EXPECT_EQ(NumberAt<std::uint32_t>(archive_.find("PK\1\2") + 16), kKnown);
}

TEST_F(ZipWriterTest, EntriesBeginAtMultiplesOf64) {
  Add("a", "x");
  Add("four and twenty and more", "y");
  Add(std::string(31, 'n'), "z");
  writer_.Finish();
  EXPECT_EQ(archive_.find("xPK") % 64, 0u);
  EXPECT_EQ(archive_.find("yPK") % 64, 0u);
  EXPECT_EQ(archive_.find("zPK") % 64, 0u);
}

TEST_F(ZipWriterTest, SameEntriesGiveTheSameArchive) {
  Add("a", "x");
  writer_.Finish();
  const std::string first = std::exchange(archive_, "");
  ZipWriter other([this](std::span<const std::byte> bytes) {
    archive_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  other.Add("a", std::as_bytes(std::span("x", 1)));
  other.Finish();
  EXPECT_EQ(archive_, first);
}

TEST_F(ZipWriterTest, MoreEntriesThanTheOldFieldHoldsTakeZip64) {
  for (int i = 0; i < 65'535; ++i) Add(std::to_string(i), "");
  EXPECT_EQ(archive_.find("PK\6\6"), archive_.npos);
  writer_.Finish();
  EXPECT_NE(archive_.find("PK\6\6"), archive_.npos);
  EXPECT_EQ(Read().Names().size(), 65'535u);
}

}  // namespace

}  // namespace dtrain
