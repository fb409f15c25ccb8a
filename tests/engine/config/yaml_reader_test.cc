#include "engine/config/yaml_reader.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/config/bad_config.h"
#include "tests/support/patience.h"

namespace dtrain {
namespace {

class BadYamlTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadYamlTest, IsRefusedWithItsPlace) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Text, BadYamlTest,
    testing::Values(
        BadConfig{"Empty", "", 0, 0, "", "is empty"},
        BadConfig{"OnlyComments", "# nothing\n\n", 0, 0, "", "is empty"},
        BadConfig{"OnlyDocumentMark", "---\n", 0, 0, "", "is empty"},
        BadConfig{"ByteOrderMark", "\xEF\xBB\xBF" + kValid, 1, 1, "",
                  "byte order mark"},
        BadConfig{"Utf16", "\xFF\xFEn\0a\0", 1, 1, "", "UTF-16"},
        BadConfig{"InvalidUtf8", kValid + "name: \xFF\n", 3, 1, "", "UTF-8"},
        BadConfig{"OverlongUtf8", kValid + "name: \xC0\xAF\n", 3, 1, "",
                  "UTF-8"},
        BadConfig{"Nul", kValid + std::string("name: a\0b\n", 10), 3, 8, "",
                  "control character"},
        BadConfig{"Escape", kValid + "name: \x1b[2J\n", 3, 7, "",
                  "control character"},
        BadConfig{"C1Control", kValid + "name: \xC2\x9B\n", 3, 7, "",
                  "control character"},
        BadConfig{"EscapeCutShort", "name: \"a\\U0001F6", 1, 17, "",
                  "bad character"},
        BadConfig{"EscapedNul", kValid + "name: \"a\\0b\"\n", 3, 7, "name",
                  "NUL"},
        BadConfig{"TooLarge", kValid + "name: " + std::string(1'048'576, 'x'),
                  0, 0, "", "at most 1048576"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Syntax, BadYamlTest,
    testing::Values(
        BadConfig{"ScalarDocument", "just text\n", 1, 1, "", "a map of keys"},
        BadConfig{"ListDocument", "- a\n- b\n", 1, 1, "", "a map of keys"},
        BadConfig{"SecondDocument", kValid + "---\nname: b\n", 3, 1, "",
                  "second document"},
        BadConfig{"OutdentedKey", "  name: a\nlabels: []\n", 2, 1, "",
                  "indent all"},
        BadConfig{"TabIndent", "searcher:\n\tname: single\n", 2, 6, "",
                  "indent with spaces"},
        BadConfig{"TabAfterSpaces", "searcher:\n  name: single\n\tmetric: a\n",
                  3, 1, "", "indent with spaces"},
        BadConfig{"BadIndent", "searcher:\n    name: a\n  metric: b\n", 3, 3,
                  "", "unexpected indentation"},
        BadConfig{"ColonInValue", "name: a: b\n", 1, 8, "", "quote the value"},
        BadConfig{"OpenBracket", "labels: [a, b\n", 2, 1, "", "invalid YAML"},
        BadConfig{"StrayBracket", "labels: ]\n", 1, 9, "", "invalid YAML"},
        BadConfig{"OpenQuote", kValid + "name: \"abc\nlabels: []\n", 3, 7,
                  "name", "unclosed quote"},
        BadConfig{"OpenSingleQuote", kValid + "name: 'it''s\n", 3, 7, "name",
                  "unclosed quote"},
        BadConfig{"OpenTaggedQuote", kValid + "name: !!str &a \"abc\n", 3, 7,
                  "name", "unclosed quote"},
        BadConfig{"ReservedCharacter", "name: @home\n", 1, 7, "", "quote it"},
        BadConfig{"UnknownAlias", "name: *nobody\n", 1, 7, "", "anchor"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Structure, BadYamlTest,
    testing::Values(
        BadConfig{"DuplicateKey", kValid + "max_restarts: 1\nmax_restarts: 2\n",
                  4, 1, "max_restarts", "duplicate key, first on line 3"},
        BadConfig{"NestedDuplicateKey",
                  kValid + "hyperparameters:\n  lr: 0.1\n  lr: 0.2\n", 5, 3,
                  "hyperparameters.lr", "duplicate key"},
        BadConfig{"DuplicateInQuotes", kValid + "name: a\n'name': b\n", 4, 1,
                  "name", "duplicate key"},
        BadConfig{"CyclicAlias", kValid + "data: &a {b: [1, *a]}\n", 3, 18,
                  "data.b[1]", "inside its own value"},
        BadConfig{"MergedText", kValid + "data:\n  <<: abc\n", 4, 7, "data.<<",
                  "expected a map or a list of maps, got the string 'abc'"},
        BadConfig{"MergedNull", kValid + "data: {a: 1, <<: }\n", 3, 14,
                  "data.<<", "expected a map or a list of maps, got nothing"},
        BadConfig{"MergedListOfTexts", kValid + "data:\n  <<: [{a: 1}, b]\n", 4,
                  16, "data.<<", "got the string 'b'"},
        BadConfig{"MergedListInList", kValid + "data:\n  <<: [[{a: 1}]]\n", 4,
                  8, "data.<<", "got a list"},
        BadConfig{"TwoMergeKeys",
                  kValid + "data:\n  <<: {a: 1}\n  <<: {b: 1}\n", 5, 3,
                  "data.<<", "duplicate key, first on line 4; write one list"},
        BadConfig{"CyclicMerge", kValid + "data: &a {b: 1, <<: *a}\n", 3, 21,
                  "data.<<", "inside its own value"},
        BadConfig{"UnknownKeyMerged",
                  kValid + "data: {x: &a {lr: 1}}\nresources: {<<: *a}\n", 3,
                  15, "resources.lr", "unknown key"},
        BadConfig{"WrongValueMerged",
                  kValid + "data: {x: &a {max_slots: many}}\n"
                           "resources: {<<: *a}\n",
                  3, 26, "resources.max_slots", "expected an integer"},
        BadConfig{"PythonTag",
                  kValid + "data: {a: !!python/name:os.system x}\n", 3, 11,
                  "data.a", "!!python/name:os.system"},
        BadConfig{"PythonObject", kValid + "data: !!python/object:a.B {}\n", 3,
                  7, "data", "is not supported"},
        BadConfig{"LocalTag", kValid + "name: !mine x\n", 3, 7, "name",
                  "'!mine'"},
        BadConfig{"WrongCoreTag", kValid + "max_restarts: !!int x\n", 3, 15,
                  "max_restarts", "!!int"},
        BadConfig{"MapAsKey", kValid + "? {a: 1}\n: 2\n", 3, 3, "", "as key"},
        BadConfig{"NamelessKey", kValid + "data: {~: 1}\n", 3, 8, "data",
                  "empty key"}),
    CaseName);

// Nine aliases of nine aliases of …: 9^9 values.
std::string BillionLaughs() {
  return "a: &a [x, x, x, x, x, x, x, x, x]\n"
         "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
         "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
         "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
         "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
         "f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
         "g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n"
         "h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g]\n"
         "i: [*h, *h, *h, *h, *h, *h, *h, *h, *h]\n";
}

std::string Repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

class YamlReaderTest : public testing::Test {
 protected:
  // The one error about `text`, which must cost no more than two seconds; a
  // sanitizer takes ten times as long.
  std::string ReadError(const std::string& text) {
    const auto start = CpuTime();
    const Diagnostics errors = ReadFindings(text, Severity::kError);
    EXPECT_LT(CpuTime() - start, std::chrono::seconds(kSanitized ? 20 : 2));
    return errors.empty() ? "" : errors[0].ToString();
  }

  Findings findings_{"f.yaml", {}};
};

TEST_F(YamlReaderTest, RefusesBillionLaughs) {
  EXPECT_THAT(ReadError(BillionLaughs()),
              testing::HasSubstr("more than 100000 keys and values"));
}

TEST_F(YamlReaderTest, RefusesManyAliasesOfALongText) {
  const std::string text = "a: &a " + std::string(500'000, 'x') + "\nb: [" +
                           Repeated("*a, ", 50'000) + "]\n";

  EXPECT_THAT(ReadError(text), testing::HasSubstr("bytes of text"));
}

TEST_F(YamlReaderTest, RefusesDeepBrackets) {
  EXPECT_THAT(ReadError(std::string(1'000'000, '[')),
              testing::HasSubstr("more than 100000 brackets"));
}

TEST_F(YamlReaderTest, RefusesMoreThan64Levels) {
  const std::string text =
      kValid + "data: " + std::string(64, '[') + std::string(64, ']') + "\n";

  EXPECT_THAT(ReadError(text),
              testing::StartsWith("bad.yaml:3:70: data[0][0]"));
  EXPECT_THAT(ReadError(text), testing::HasSubstr("deeper than 64 levels"));
}

TEST_F(YamlReaderTest, RefusesChainsOfAliases) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) {
    const std::string n = std::to_string(i);
    text += "a" + n + ": &a" + n + " [*a" + std::to_string(i - 1) + "]\n";
  }

  EXPECT_THAT(ReadError(text), testing::HasSubstr("64 levels"));
}

TEST_F(YamlReaderTest, RefusesFarTooManyKeysAtOnce) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k" + std::to_string(i) + ": \n";

  EXPECT_THAT(ReadError(text), testing::HasSubstr("more than 100000"));
}

TEST_F(YamlReaderTest, ShowsAHundredErrorsOfManyMore) {
  std::string text = kValid;
  for (int i = 0; i < 20'000; ++i) text += "k" + std::to_string(i) + ": 1\n";

  const Diagnostics errors = ReadFindings(text, Severity::kError);

  ASSERT_EQ(errors.size(), 101u);
  EXPECT_THAT(errors[100].ToString(),
              testing::StartsWith("bad.yaml: 19900 more errors"));
}

TEST_F(YamlReaderTest, ExpandsAliases) {
  const auto root = ReadYaml("a: &x {b: 1}\nc: *x\n", {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(ToJson(*root),
            nlohmann::json::parse(R"({"a": {"b": 1}, "c": {"b": 1}})"));
}

TEST_F(YamlReaderTest, PrefersKeysOfTheMapToMergedKeys) {
  const auto root = ReadYaml(
      "a: &a {x: 1, y: {p: 1, q: 1}}\n"
      "before: {x: 2, <<: *a}\n"
      "after: {<<: *a, y: {p: 2}}\n",
      {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(findings_.errors(), 0);
  EXPECT_EQ(ToJson(*root->Find("before")),
            nlohmann::json::parse(R"({"x": 2, "y": {"p": 1, "q": 1}})"));
  EXPECT_EQ(ToJson(*root->Find("after")),
            nlohmann::json::parse(R"({"x": 1, "y": {"p": 2}})"));
}

TEST_F(YamlReaderTest, PrefersTheEarlierOfMergedMaps) {
  const auto root = ReadYaml(
      "a: &a {x: 1, y: 1}\n"
      "b: &b {y: 2, z: 2}\n"
      "c: &c {<<: [*a, *b], w: 3}\n"
      "d:\n"
      "  - {<<: [*b, *a]}\n"
      "  - {<<: *c, x: 4}\n",
      {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(findings_.errors(), 0);
  EXPECT_EQ(ToJson(*root->Find("c")),
            nlohmann::json::parse(R"({"x": 1, "y": 1, "z": 2, "w": 3})"));
  EXPECT_EQ(ToJson(*root->Find("d")),
            nlohmann::json::parse(R"([{"x": 1, "y": 2, "z": 2},
                                      {"x": 4, "y": 1, "z": 2, "w": 3}])"));
}

TEST_F(YamlReaderTest, TakesAQuotedMergeKeyAsAKey) {
  const auto root = ReadYaml("a: {\"<<\": 1, <<: {b: 2}}\n", {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(findings_.errors(), 0);
  EXPECT_EQ(ToJson(*root->Find("a")),
            nlohmann::json::parse(R"({"<<": 1, "b": 2})"));
}

TEST_F(YamlReaderTest, LimitsMergedMaps) {
  std::string text = "a0: &a0 {k: [" + Repeated("x, ", 1000) + "]}\n";
  for (int i = 1; i < 200; ++i) {
    const std::string n = std::to_string(i);
    text += "a" + n + ": &a" + n + " {<<: *a" + std::to_string(i - 1) + "}\n";
  }

  EXPECT_THAT(ReadError(text), testing::HasSubstr("more than 100000"));
}

TEST_F(YamlReaderTest, GivesValuesBelowTheirKeyThePlaceOfTheKey) {
  const auto root = ReadYaml("a: 1\nb:\n  c:\n    - 2\n", {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(root->Find("a")->mark.column, 4);
  EXPECT_EQ(root->Find("b")->mark.line, 2);
  EXPECT_EQ(root->Find("b")->Find("c")->mark.line, 3);
}

TEST_F(YamlReaderTest, ReadsWindowsLines) {
  const auto root = ReadYaml("a: 1\r\nb: x\r\n", {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(ToJson(*root), nlohmann::json::parse(R"({"a": 1, "b": "x"})"));
}

TEST_F(YamlReaderTest, TakesCoreTagsAndBlockTexts) {
  const auto root =
      ReadYaml("a: !!str 5\nb: !!float 5\nc: |\n  x\n  \"y\n", {}, findings_);

  ASSERT_TRUE(root);
  EXPECT_EQ(root->Find("a")->kind, Node::Kind::kString);
  EXPECT_EQ(root->Find("b")->kind, Node::Kind::kDouble);
  EXPECT_EQ(root->Find("c")->text, "x\n\"y\n");
  EXPECT_EQ(findings_.errors(), 0);
}

}  // namespace
}  // namespace dtrain
