#include "engine/store/hparam_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

using nlohmann::json;

// The values and their types, as the reader returns them and as a parser does.
class HparamReaderTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string Shown(const json& value) {
    if (value.is_discarded()) return "missing";
    return value.dump() + " " + std::to_string(static_cast<int>(value.type()));
  }

  std::vector<std::string> Read(std::string_view text) {
    std::vector<std::string> shown;
    for (const json& value : reader_.Read(text)) shown.push_back(Shown(value));
    return shown;
  }

  std::vector<std::string> Parsed(std::string_view text) {
    const json hparams = json::parse(text);
    std::vector<std::string> shown;
    for (const std::string& name : names_) {
      const json* value = FindMember(hparams, name);
      shown.push_back(value == nullptr ? "missing" : Shown(*value));
    }
    return shown;
  }

  const std::vector<std::string> names_ = {"a", "b",   "b.c", "b.c.d",
                                           "z", "p.q", ""};
  HparamReader reader_{names_};
};

TEST_P(HparamReaderTest, ReadsWhatAParserReads) {
  EXPECT_EQ(Read(GetParam()), Parsed(GetParam()));
}

// The reader remembers the names of the text before.
TEST_P(HparamReaderTest, ReadsATextAfterAnother) {
  (void)Read(R"({"a":1,"b":{"c":{"d":2},"e":3},"x":4,"z":5})");
  EXPECT_EQ(Read(GetParam()), Parsed(GetParam()));
  EXPECT_EQ(Read(GetParam()), Parsed(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HparamReaderTest,
    testing::Values(
        R"({})", R"({"a":1})", R"({"a":-1,"z":0.1})", R"({"a":1e-3,"z":2E+5})",
        R"({"a":0.30000000000000004,"z":5e-324,"b":1e-400})",
        R"({"a":18446744073709551615,"b":-9223372036854775808})",
        R"({"a":18446744073709551616,"b":-0,"z":-0.0})",
        R"({"a":true,"b":false,"z":null})", R"({"a":"text","b":""})",
        R"({"a":"quo\"te","b":"back\\slash","z":"\u00e4"})",
        R"({"a":"größe","größe":1})", R"({"b":{"c":1}})",
        R"({"b":{"c":{"d":1}},"z":2})", R"({"x":{"b":1,"c":{"d":2}},"z":3})",
        R"({"b":{"c":1},"b.c":2})", R"({"p.q":2,"p":{"q":1}})", R"({"b.c":2})",
        R"({"b":{"c.d":7}})", R"({"b":{}})", R"({"x":{},"a":1})",
        R"({"a":[1,2],"z":3})", R"({"x":[{"a":1}],"z":3})", R"({"":4,"a":5})",
        R"({"a":1,"a":2})", R"( { "a" : 1 , "z" : 2 } )", R"(null)", R"([1])",
        R"({"z":1,"x":2,"a":3})"));

TEST(HparamReaderNamesTest, ReadsANameThatIsAskedTwice) {
  HparamReader reader({"a", "a"});
  EXPECT_THAT(reader.Read(R"({"a":3})"), testing::ElementsAre(3, 3));
}

class DamagedHparamsTest : public testing::TestWithParam<const char*> {};

TEST_P(DamagedHparamsTest, AreAnError) {
  HparamReader reader({"a"});
  EXPECT_THROW((void)reader.Read(GetParam()), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, DamagedHparamsTest,
    testing::Values("", "{", R"({"a")", R"({"a":)", R"({"a":1)", R"({"a":1,)",
                    R"({"a":1}})", R"({"a":1,})", R"({"a":01})", R"({"a":1.})",
                    R"({"a":.5})", R"({"a":+1})", R"({"a":1e})", R"({"a":--1})",
                    R"({"a":1.e5})", R"({"a":nul})", R"({"a":1e999})",
                    R"({"a" 1})", R"({a:1})", R"({"a":"x)", R"({"x":01})",
                    "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}"));

TEST(DamagedHparamsTest, OfManyLevelsAreAnError) {
  std::string text;
  for (int i = 0; i < (kSanitized ? 100'000 : 1'000'000); ++i)
    text += R"({"a":)";
  HparamReader reader({"b"});
  EXPECT_THROW((void)reader.Read(text), Error);
}

}  // namespace
}  // namespace dtrain
