#include "engine/data/dataset_readers.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two images of 1×3: magic, three dimensions, six bytes.
const std::string kImages(
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03\x01\x02\x03\xFD\xFE\xFF", 22);

class IdxReaderTest : public ::testing::Test {
 protected:
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  void WriteGzip(const std::string& bytes) const {
    gzFile file = gzopen(path_.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Whether reading fails with a message that names the file and says `what`.
  void ExpectRefused(const std::string& what) const {
    EXPECT_THAT([this] { ReadIdx(path_, 3); },
                testing::ThrowsMessage<Error>(
                    AllOf(HasSubstr(path_.string()), HasSubstr(what))));
  }

  const TemporaryDirectory directory_;
  const fs::path path_ = directory_.path() / "set-idx3-ubyte";
};

TEST_F(IdxReaderTest, ReadsAPlainFile) {
  Write(kImages);
  const IdxArray array = ReadIdx(path_, 3);
  EXPECT_THAT(array.shape, ElementsAre(2, 1, 3));
  EXPECT_THAT(array.values, ElementsAre(1, 2, 3, 253, 254, 255));
}

TEST_F(IdxReaderTest, ReadsAGzippedFile) {
  WriteGzip(kImages);
  EXPECT_THAT(ReadIdx(path_, 3).values, ElementsAre(1, 2, 3, 253, 254, 255));
}

TEST_F(IdxReaderTest, RefusesAMissingFile) {
  ExpectRefused("cannot be opened: No such file or directory");
}

TEST_F(IdxReaderTest, RefusesADirectory) {
  fs::create_directory(path_);
  EXPECT_THROW(ReadIdx(path_, 3), Error);
}

TEST_F(IdxReaderTest, RefusesAnEmptyFile) {
  Write("");
  ExpectRefused("the file ends within its header");
}

TEST_F(IdxReaderTest, RefusesAnotherFormat) {
  Write("\x89PNG and so on");
  ExpectRefused("not an IDX file");
}

TEST_F(IdxReaderTest, RefusesAnotherElementType) {
  std::string bytes = kImages;
  bytes[2] = '\x0D';
  Write(bytes);
  ExpectRefused("of type 13, but 8 (unsigned bytes) is expected");
}

TEST_F(IdxReaderTest, RefusesAnotherNumberOfDimensions) {
  Write(std::string("\0\0\x08\x01\0\0\0\x01\x07", 9));
  ExpectRefused("of 1 dimensions, but 3 are expected");
}

TEST_F(IdxReaderTest, RefusesAHeaderThatIsCutShort) {
  Write(kImages.substr(0, 11));
  ExpectRefused("the file ends within its header");
}

TEST_F(IdxReaderTest, RefusesFewerBytesThanTheHeaderSays) {
  Write(kImages.substr(0, 21));
  ExpectRefused("the header says 6 bytes, but the file has only 5");
}

TEST_F(IdxReaderTest, RefusesMoreBytesThanTheHeaderSays) {
  Write(kImages + "x");
  ExpectRefused("longer than the 6 bytes its header says");
}

TEST_F(IdxReaderTest, RefusesAHeaderOfZeroImages) {
  std::string bytes = kImages;
  bytes[7] = '\0';
  Write(bytes);
  ExpectRefused("the header says it is empty");
}

TEST_F(IdxReaderTest, RefusesAFalseHeaderBeforeItAllocates) {
  std::string bytes = kImages;
  bytes[4] = bytes[8] = bytes[12] = '\xFF';
  Write(bytes);
  ExpectRefused("more than 8 GiB");
}

TEST_F(IdxReaderTest, AllocatesNoMoreThanTheFileHolds) {
  std::string bytes = kImages;
  bytes[4] = '\x10';  // 268,435,458 images of three bytes
  Write(bytes);
  ExpectRefused("the header says 805306374 bytes, but the file has only 6");
}

TEST_F(IdxReaderTest, RefusesATruncatedGzipFile) {
  WriteGzip(kImages);
  const std::string bytes = Bytes();
  Write(bytes.substr(0, bytes.size() - 9));
  ExpectRefused("gzip data");
}

TEST_F(IdxReaderTest, RefusesADamagedGzipFile) {
  WriteGzip(kImages);
  std::string bytes = Bytes();
  bytes[bytes.size() - 6] ^= 0x01;  // in the checksum
  Write(bytes);
  ExpectRefused("damaged gzip data");
}

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
  ExpectRefused("0 bytes, which is not a whole number of records of 3073");
}

TEST_F(Cifar10ReaderTest, RefusesATruncatedFile) {
  Write(TwoRecords().substr(0, 6145));
  ExpectRefused("6145 bytes");
}

TEST_F(Cifar10ReaderTest, RefusesAnInvalidClass) {
  std::string bytes = TwoRecords();
  bytes[3073] = '\12';
  Write(bytes);
  ExpectRefused("record 1 is of class 10, but 0 to 9 exist");
}

}  // namespace

}  // namespace dtrain
