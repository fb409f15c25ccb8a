#include "engine/report/event_file.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/hex.h"

namespace dtrain {
namespace {

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

}  // namespace
}  // namespace dtrain
