#include "engine/base/tfevents.h"

#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string Scalar(const std::string& tag, std::int64_t step, double value) {
  std::string bytes;
  AppendScalar(bytes, tag, step, 1, value);
  return bytes;
}

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

// A field with bytes in a protocol buffer.
std::string Field(int field, const std::string& bytes) {
  return Bytes({field << 3 | 2, static_cast<int>(bytes.size())}) + bytes;
}

// An Event of step 3 whose summary has the tag "t" and this tensor.
std::string TensorEvent(const std::string& tensor) {
  return Bytes({0x10, 3}) +
         Field(5, Field(1, Field(1, "t") + Field(8, tensor)));
}

// RFC 3720, appendix B.4, masked by the formula of TensorFlow.
TEST(Crc32cTest, IsThatOfTheStandardMasked) {
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\0')), 0x0FD7FFFAU);
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\xFF')), 0xF909B029U);
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xC78AB0E5U);
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8U);
}

// Recorded from the RecordWriter of tensorboard 2.21.
TEST(EventFileTest, RecordsEqualThoseOfTensorboard) {
  std::string version;
  AppendFileVersion(version, 1'700'000'000.25);
  EXPECT_EQ(ToHex(std::as_bytes(std::span(version))),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e"
            "743a32338d2fe9");
  std::string scalar;
  AppendScalar(scalar, "validation/loss", 300, 1'700'000'000.25, 0.125);
  EXPECT_EQ(ToHex(std::as_bytes(std::span(scalar))),
            "2600000000000000734fe3000900001040fc54d94110ac022a180a160a0f76616c"
            "69646174696f6e2f6c6f7373150000003e9486bc9c");
}

TEST(EventFileTest, IntegersThatNoDoubleHoldsAreTexts) {
  for (const nlohmann::json& number : std::vector<nlohmann::json>{
           9'007'199'254'740'993, -9'007'199'254'740'993,
           18'446'744'073'709'551'615U}) {
    std::string start;
    AppendTrialStart(start, 0, {{"seed", number}});
    EXPECT_NE(start.find(number.dump()), std::string::npos) << number;
  }
}

TEST(EventFileTest, InvalidTextIsMadeValid) {
  std::string record;
  AppendScalar(record, "a\xFF", 1, 0, 0);
  EXPECT_NE(record.find("a\xEF\xBF\xBD"), std::string::npos);
}

TEST(EventRecordsTest, SplitsAFileThatGrows) {
  const std::string file = Scalar("a", 1, 0.5) + Scalar("b", 2, 1.5);
  EventRecords records;
  std::vector<std::string> tags;
  for (const char byte : file) {
    records.Append({&byte, 1});
    while (const auto record = records.Next()) {
      const EventScalars event = ParseEvent(*record);
      tags.push_back(event.values.at(0).first + std::to_string(event.step));
    }
  }
  EXPECT_THAT(tags, ElementsAre("a1", "b2"));
}

TEST(EventRecordsTest, RefusesWrongChecksums) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{15}}) {
    std::string file = Scalar("a", 1, 0.5);
    file[at] ^= 1;
    EventRecords records;
    records.Append(file);
    EXPECT_THROW((void)records.Next(), Error);
  }
}

TEST(ParseEventTest, ReadsSimpleValues) {
  std::string file = Scalar("val/acc", 7, 0.25);
  EventRecords records;
  records.Append(file);
  const EventScalars event = ParseEvent(*records.Next());
  EXPECT_EQ(event.step, 7);
  EXPECT_THAT(event.values, ElementsAre(Pair("val/acc", 0.25)));
}

// As torch.utils.tensorboard writes them with new_style=True, and TensorFlow.
TEST(ParseEventTest, ReadsTensorsOfOneNumber) {
  const auto value = [](const std::string& tensor) {
    const EventScalars event = ParseEvent(TensorEvent(tensor));
    return event.values.empty() ? -1 : event.values[0].second;
  };
  EXPECT_EQ(value(Bytes({8, 1, 0x2D, 0, 0, 0x40, 0x3F})), 0.75)
      << "float_val, not packed";
  EXPECT_EQ(value(Bytes({8, 1, 0x2A, 4, 0, 0, 0x40, 0x3F})), 0.75)
      << "float_val, packed";
  EXPECT_EQ(value(Bytes({8, 1, 0x22, 4, 0, 0, 0x40, 0x3F})), 0.75)
      << "tensor_content";
  EXPECT_EQ(value(Bytes({8, 2, 0x22, 8, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F})), 1.5);
  EXPECT_EQ(value(Bytes({8, 9, 0x52, 2, 0xAC, 0x02})), 300) << "int64_val";
  EXPECT_EQ(value(Bytes({8, 3, 0x38, 5})), 5) << "int_val, not packed";
  EXPECT_EQ(value(Bytes({8, 19, 0x6A, 2, 0x80, 0x78})), 1) << "half_val";
  EXPECT_EQ(value(Bytes({8, 1, 0x22, 8, 0, 0, 0, 0, 0, 0, 0, 0})), -1)
      << "two numbers";
}

TEST(ParseEventTest, RefusesWhatIsNoEvent) {
  for (const std::string& bytes :
       {Bytes({0x10}), Bytes({0x2A, 5, 1}), Bytes({0x13}),
        Bytes({0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
               0xFF})}) {
    EXPECT_THROW(ParseEvent(bytes), Error);
  }
}

}  // namespace
}  // namespace dtrain
