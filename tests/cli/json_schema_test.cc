// The validator of the documents that the program prints, and its use by
// CliRunner. The schemas themselves are in docs/schemas.

#include "tests/support/json_schema.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A keyword, a document that it allows, and one that it does not.
struct Keyword {
  std::string schema;
  std::string good;
  std::string bad;
  std::string finding;
};

class KeywordTest : public testing::TestWithParam<Keyword> {};

TEST_P(KeywordTest, RefusesAWrongDocument) {
  const auto& [text, good, bad, finding] = GetParam();
  const JsonSchema schema(json::parse(text));
  EXPECT_THAT(schema.Check(json::parse(good)), IsEmpty());
  EXPECT_THAT(schema.Check(json::parse(bad)), ElementsAre(finding));
}

INSTANTIATE_TEST_SUITE_P(
    All, KeywordTest,
    testing::Values(
        Keyword{R"({"type": "string"})", R"("x")", "1",
                "/: 1 is not of type string"},
        Keyword{R"({"type": "integer"})", "-1", "1.5",
                "/: 1.5 is not of type integer"},
        Keyword{R"({"type": "number"})", "1.5", R"("1")",
                R"(/: "1" is not of type number)"},
        Keyword{R"({"type": "boolean"})", "true", "0",
                "/: 0 is not of type boolean"},
        Keyword{R"({"type": "object"})", "{}", "[]",
                "/: [] is not of type object"},
        Keyword{R"({"type": "array"})", "[1]", "{}",
                "/: {} is not of type array"},
        Keyword{R"({"type": ["integer", "null"]})", "null", "false",
                "/: false is not of type integer, null"},
        Keyword{R"({"properties": {"a": {"type": "null"}}})",
                R"({"a": null, "b": 1})", R"({"a": 1})",
                "/a: 1 is not of type null"},
        Keyword{R"({"properties": {"a": {}}, "required": ["a"]})",
                R"({"a": 1})", R"({"b": 1})", "/: lacks 'a'"},
        Keyword{R"({"properties": {"a": {}}, "additionalProperties": false})",
                R"({"a": 1})", R"({"a": 1, "b": 2})",
                "/b: should not be there"},
        Keyword{R"({"additionalProperties": {"type": "integer"}})",
                R"({"a": 1})", R"({"a": "x"})",
                R"(/a: "x" is not of type integer)"},
        Keyword{R"({"items": {"type": "integer"}})", "[1, 2]", "[1, null]",
                "/1: null is not of type integer"},
        Keyword{R"({"enum": ["a", null]})", "null", R"("b")",
                R"(/: "b" is none of ["a",null])"},
        Keyword{
            R"({"anyOf": [{"type": "null"}, {"enum": [1]}]})", "1", "2",
            "/: matches no alternative: /: 2 is not of type null or /: 2 is "
            "none of [1]"},
        Keyword{R"({"items": {"$ref": "#/$defs/n"},
                    "$defs": {"n": {"type": "null"}}})",
                "[null]", "[0]", "/0: 0 is not of type null"}));

TEST(JsonSchemaTest, RefusesUnsupportedKeywords) {
  const auto read = [](const std::string& schema) {
    return JsonSchema(json::parse(schema));
  };
  EXPECT_THROW(read(R"({"minimum": 1})"), std::invalid_argument);
  EXPECT_THROW(read(R"({"items": {"pattern": "x"}})"), std::invalid_argument);
  EXPECT_THROW(read(R"({"$ref": "#/$defs/none"})"), std::invalid_argument);
  EXPECT_THROW(read(R"({"required": ["a"]})"), std::invalid_argument);
}

// "Owned": the object has properties, and so no others.
void ExpectOwned(const json& schema, const std::string& file) {
  if (schema.is_object() && schema.contains("properties") &&
      schema["properties"].is_object()) {
    EXPECT_EQ(schema.value("additionalProperties", json()), false) << file;
  }
  for (const json& part : schema) {
    if (part.is_structured()) ExpectOwned(part, file);
  }
}

// An object with `batches`, which may count epochs, says what it counts. The
// phases of a profile are of batches.
void ExpectUnit(const json& schema, const std::string& file) {
  const json fields = schema.is_object()
                          ? schema.value("properties", json::object())
                          : json::object();
  const bool is_count = fields.contains("batches") &&
                        !fields.contains("epochs") &&
                        !fields.contains("samples");
  if (is_count) {
    EXPECT_TRUE(fields.contains("length") && fields.contains("unit"))
        << file << ": " << fields;
  }
  for (const json& part : schema) {
    if (part.is_structured()) ExpectUnit(part, file);
  }
}

TEST(JsonSchemaTest, EverySchemaIsValidAndNamesAllFields) {
  int schemas = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(DTRAIN_SOURCE_DIR) /
                                                  "docs" / "schemas")) {
    const fs::path& file = entry.path();
    EXPECT_NO_THROW(JsonSchema::Read(file)) << file;
    const json schema = json::parse(std::ifstream(file));
    // The number is that of the schema's version.
    EXPECT_THAT(schema.value("$id", ""),
                testing::MatchesRegex("dtrain/[12]/" + file.stem().string()));
    EXPECT_NE(schema.value("title", ""), "") << file;
    ExpectOwned(schema, file);
    ExpectUnit(schema, file);
    ++schemas;
  }
  EXPECT_GE(schemas, 56);
}

const std::vector<std::string> kNote = {"/bin/dtrain", "note", "1", "x",
                                        "--json"};

TEST(UndocumentedJsonTest, IsARenamedMissingOrNewField) {
  EXPECT_THAT(FindUndocumentedJson(kNote, R"({"experiment":1,"note":""})"),
              IsEmpty());
  EXPECT_THAT(FindUndocumentedJson(kNote, R"({"experiment":1})"),
              ElementsAre("docs/schemas/note.json: /: lacks 'note'"));
  EXPECT_THAT(
      FindUndocumentedJson(kNote, R"({"experiment":1,"note":"","x":1})"),
      ElementsAre("docs/schemas/note.json: /x: should not be there"));
  EXPECT_THAT(FindUndocumentedJson(kNote, R"({"experiment":1,"notes":""})"),
              testing::SizeIs(2));
  EXPECT_THAT(FindUndocumentedJson(kNote, "1 note"),
              ElementsAre("the output is not a JSON document"));
}

TEST(UndocumentedJsonTest, IsOutputOfACommandWithoutASchema) {
  EXPECT_THAT(FindUndocumentedJson({"dtrain", "dance", "--json"}, "{}"),
              ElementsAre(HasSubstr("dance.json: no such schema")));
}

TEST(UndocumentedJsonTest, IsSoughtInEveryLine) {
  const std::vector<std::string> create = {"dtrain", "create", "--jsonl", "x"};
  const std::string notice =
      R"({"event":"notice","time":"","level":"info","text":""})"
      "\n";
  EXPECT_THAT(FindUndocumentedJson(create, notice + notice), IsEmpty());
  EXPECT_THAT(FindUndocumentedJson(create, notice + R"({"event":"dinner"})"),
              ElementsAre(HasSubstr("event-dinner.json: no such schema")));
  EXPECT_THAT(FindUndocumentedJson(create, notice + "dinner"),
              ElementsAre("no JSON: dinner"));
  EXPECT_THAT(FindUndocumentedJson({"dtrain", "logs", "1", "--jsonl"}, "{}"),
              testing::SizeIs(7));
}

TEST(UndocumentedJsonTest, IsSoughtOnlyInTheProgramsOutput) {
  EXPECT_THAT(FindUndocumentedJson({"dtrain", "note", "1", "x"}, "done"),
              IsEmpty());
  EXPECT_THAT(FindUndocumentedJson({"dtrain", "note", "--", "--json"}, "done"),
              IsEmpty());
  EXPECT_THAT(FindUndocumentedJson({"python3", "a.py", "--json"}, "{}"),
              IsEmpty());
  EXPECT_THAT(FindUndocumentedJson(
                  {"sh", "-c", "cd x; dtrain --store s note 1 --json"}, "{}"),
              testing::SizeIs(2));
  EXPECT_THAT(FindUndocumentedJson(
                  {"sh", "-c", "dtrain --store='a b' note 1 --json"}, "{}"),
              testing::SizeIs(2));
}

// Prints a document of another command.
TEST(UndocumentedJsonTest, FailsTheTestThatRanIt) {
  static const CliRunner* dtrain = nullptr;
  const CliRunner runner;
  dtrain = &runner;
  fs::create_directories(runner.directory() / "bin");
  runner.Write("bin/dtrain", "echo '{\"experiment\": 1}'\n");
  EXPECT_NONFATAL_FAILURE(
      static_cast<void>(
          dtrain->RunProgram({"sh", "bin/dtrain", "note", "1", "--json"})
              .Json()),
      "docs/schemas/note.json: /: lacks 'note'");
}

}  // namespace
}  // namespace dtrain
