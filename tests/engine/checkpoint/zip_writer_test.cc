#include "engine/checkpoint/zip_writer.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/checkpoint/zip_file.h"

namespace dtrain {
namespace {

// An archive that is written into memory.
class ZipWriterTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& text) {
    writer_.Add(name, std::as_bytes(std::span(text)));
  }
  ZipFile Read() { return ZipFile(std::as_bytes(std::span(archive_)), "x"); }
  static std::string TextOf(const ZipFile& zip, const std::string& name) {
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

TEST_F(ZipWriterTest, WritesWhatIsReadBack) {
  Add("a", "first");
  Add("folder/b", std::string(1000, 'b'));
  Add("empty", "");
  writer_.Finish();
  const ZipFile zip = Read();
  EXPECT_EQ(zip.Names().size(), 3u);
  EXPECT_EQ(TextOf(zip, "a"), "first");
  EXPECT_EQ(TextOf(zip, "folder/b"), std::string(1000, 'b'));
  EXPECT_EQ(TextOf(zip, "empty"), "");
}

TEST_F(ZipWriterTest, ArchiveOfNothingIsValid) {
  writer_.Finish();
  EXPECT_EQ(archive_.size(), 22u);
  EXPECT_TRUE(Read().Names().empty());
}

TEST_F(ZipWriterTest, ChecksumIsThatOfZip) {
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
