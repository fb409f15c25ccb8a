#include "engine/data/cifar10_reader.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two records: all values of the first image are 7, of the second 9.
std::string TwoRecords() {
  return '\3' + std::string(kCifar10Values, '\7') + '\1' +
         std::string(kCifar10Values, '\11');
}

class Cifar10ReaderTest : public ::testing::Test {
 protected:
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  void ExpectRefused(const std::string& what) const {
    EXPECT_THAT([this] { ReadCifar10(path_); },
                testing::ThrowsMessage<Error>(
                    AllOf(HasSubstr(path_.string()), HasSubstr(what),
                          HasSubstr("fetch it again"))));
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "data_batch_1.bin";
};

TEST_F(Cifar10ReaderTest, ReadsLabelsAndImages) {
  Write(TwoRecords());
  const Cifar10Batch batch = ReadCifar10(path_);
  EXPECT_THAT(batch.labels, ElementsAre(3, 1));
  ASSERT_EQ(batch.images.size(), 2 * kCifar10Values);
  EXPECT_EQ(batch.images[0], 7);
  EXPECT_EQ(batch.images[kCifar10Values - 1], 7);
  EXPECT_EQ(batch.images[kCifar10Values], 9);
}

TEST_F(Cifar10ReaderTest, ReadsAGzippedFile) {
  const std::string bytes = TwoRecords();
  gzFile file = gzopen(path_.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_THAT(ReadCifar10(path_).labels, ElementsAre(3, 1));
}

TEST_F(Cifar10ReaderTest, RefusesAMissingFile) {
  EXPECT_THAT([this] { ReadCifar10(path_); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr(path_.string()), HasSubstr("No such file"))));
}

TEST_F(Cifar10ReaderTest, RefusesAnEmptyFile) {
  Write("");
  ExpectRefused("0 bytes, which is no whole number of records of 3073");
}

TEST_F(Cifar10ReaderTest, RefusesACutFile) {
  Write(TwoRecords().substr(0, 6145));
  ExpectRefused("6145 bytes");
}

TEST_F(Cifar10ReaderTest, RefusesAClassThatIsNone) {
  std::string bytes = TwoRecords();
  bytes[3073] = '\12';
  Write(bytes);
  ExpectRefused("record 1 is of class 10, but 0 to 9 exist");
}

}  // namespace
}  // namespace dtrain
