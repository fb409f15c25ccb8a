#include "engine/config/schema.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {
namespace {

// Returns the rows of docs/yaml.md about keys of the schema.
std::vector<std::string> DocumentedRows() {
  std::ifstream file(DTRAIN_SOURCE_DIR "/docs/yaml.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    const bool key_row = line.substr(0, 3) == "| `" &&
                         std::count(line.begin(), line.end(), '|') == 6;
    if (key_row) rows.push_back(line);
  }
  return rows;
}

// A failure prints the rows to add to docs/yaml.md, or to replace there.
TEST(SchemaTest, IsDocumentedKeyByKey) {
  const std::vector<std::string> documented = DocumentedRows();
  for (const KeySpec& key : Schema()) {
    const std::string row = MarkdownRow(key);
    EXPECT_EQ(std::ranges::count(documented, row), 1) << row;
  }
  EXPECT_EQ(documented.size(), Schema().size());
}

TEST(SchemaTest, HasEveryKeyOnce) {
  std::set<std::string_view> paths;
  for (const KeySpec& key : Schema()) paths.insert(key.path);

  EXPECT_EQ(paths.size(), Schema().size());
}

TEST(SchemaTest, HasASectionForEveryKey) {
  for (const KeySpec& key : Schema()) {
    const KeySpec* section = FindKey(key.section());
    EXPECT_TRUE(
        key.section().empty() ||
        (section != nullptr && (section->type == KeyType::kSection ||
                                section->type == KeyType::kOptionalSection)))
        << key.path;
  }
}

TEST(SchemaTest, CanRunEveryDefault) {
  for (const KeySpec& key : Schema()) {
    EXPECT_TRUE(key.required || IsReady(key, key.Default())) << key.path;
  }
}

TEST(SchemaTest, KnowsPartsOfAPath) {
  const KeySpec* key = FindKey("optimizations.clip_gradients.norm");

  ASSERT_NE(key, nullptr);
  EXPECT_EQ(key->name(), "norm");
  EXPECT_EQ(key->section(), "optimizations.clip_gradients");
  EXPECT_EQ(FindKey("no.such.key"), nullptr);
}

TEST(SchemaTest, ListsUnsupportedKeys) {
  const KeySpec& name = *FindKey("searcher.name");
  const KeySpec& entrypoint = *FindKey("entrypoint");

  EXPECT_TRUE(IsReady(name, "adaptive_asha"));
  EXPECT_TRUE(IsReady(entrypoint, "digits:LeNetTrial"));
  EXPECT_TRUE(IsReady(entrypoint, nlohmann::json({"sh", "-c", "true"})));
}

}  // namespace
}  // namespace dtrain
