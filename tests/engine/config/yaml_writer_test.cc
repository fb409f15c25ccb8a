#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"

namespace dtrain {
namespace {

class YamlWriterTest : public testing::Test {
 protected:
  // `json` as a free map, written and read again.
  nlohmann::json Again(const nlohmann::json& data) {
    nlohmann::json effective = ReadConfig(kValid, {}).config->effective;
    effective["data"] = data;
    const auto again = ReadConfig(ToYaml(effective), {});
    return again.config ? again.config->data : nlohmann::json("not read");
  }
};

TEST_F(YamlWriterTest, KeepsTheOrderOfTheReference) {
  const std::string yaml = ToYaml(ReadConfig(kValid, {}).config->effective);

  EXPECT_LT(yaml.find("name:"), yaml.find("entrypoint:"));
  EXPECT_LT(yaml.find("entrypoint:"), yaml.find("hyperparameters:"));
  EXPECT_THAT(yaml, testing::HasSubstr("max_length:\n    batches: 100\n"));
}

TEST_F(YamlWriterTest, QuotesStringsThatLookLikeOtherTypes) {
  const nlohmann::json data = {
      {"a", "5"},      {"b", "true"},  {"c", "null"}, {"d", ""},
      {"e", "1e-4"},   {"f", "~"},     {"g", "yes"},  {"h", "0x10"},
      {"i", "60_000"}, {"j", ".inf"},  {"k", "- x"},  {"l", "a: b"},
      {"m", "a #b"},   {"n", "[x"},    {"o", "*x"},   {"p", " x "},
      {"q", "x:"},     {"r", "it's"},  {"s", "@x"},   {"t", "\"x"},
      {"u", "a\\b"},   {"v", "a: #b"}, {"w", "a::b"}, {"x", "<<"}};

  EXPECT_EQ(Again(data), data);
}

TEST_F(YamlWriterTest, EscapesCharactersThatTextCannotHave) {
  const nlohmann::json data = {{"a", "x\ny\tz\r"},
                               {"b", "\x1b[2J\x7f"},
                               {"c", "\xC2\x85\xC2\x9B"},
                               {"d", "\xE2\x80\xA8\xEF\xBB\xBF"},
                               {"e", "Ünïcode 試験 😀"}};

  EXPECT_EQ(Again(data), data);
}

TEST_F(YamlWriterTest, KeepsNumbersOfTheirType) {
  const nlohmann::json again =
      Again({{"a", 1}, {"b", 1.0}, {"c", 1e300}, {"d", 1e-7}, {"e", -0.5}});

  EXPECT_EQ(again.dump(), R"({"a":1,"b":1.0,"c":1e+300,"d":1e-07,"e":-0.5})");
}

TEST_F(YamlWriterTest, WritesNestedListsAndOddKeys) {
  const nlohmann::json data = nlohmann::json::parse(
      R"({"<<": 1, "5": 2, "a b": [[1, 2], {"c: d": [null, {}]}, []],
          "": {}, "true": "x"})");
  nlohmann::json named = data;
  named.erase("");

  EXPECT_EQ(Again(named), named);
}

}  // namespace
}  // namespace dtrain
