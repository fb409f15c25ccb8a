// Every row of docs/yaml.md has a value that the binary refuses, or is ignored
// as it says.

#include "tests/cli/yaml_page.h"

#include <algorithm>
#include <fstream>
#include <ostream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/text.h"

namespace dtrain {

static void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.key << ' ' << refusal.message;
}

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// --- Its tables ---

/// A row of a table: its cells, without blanks around.
using Cells = std::vector<std::string>;

struct Table {
  Cells head;
  std::vector<Cells> rows;
};

Cells CellsOf(const std::string& line) {
  Cells cells;
  for (const std::string& text : Split(line.substr(1), '|')) {
    const std::size_t begin = text.find_first_not_of(' ');
    const std::size_t end = text.find_last_not_of(' ');
    cells.push_back(begin == text.npos ? ""
                                       : text.substr(begin, end - begin + 1));
  }
  if (!cells.empty() && cells.back().empty()) cells.pop_back();
  return cells;
}

std::vector<Table> TablesOfPage() {
  std::vector<Table> tables;
  std::ifstream page(DTRAIN_SOURCE_DIR "/docs/yaml.md");
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    const bool is_row = line.starts_with("|");
    if (is_row && !inside) {
      tables.push_back({.head = CellsOf(line)});
    } else if (is_row && !line.starts_with("|---")) {
      tables.back().rows.push_back(CellsOf(line));
    }
    inside = is_row;
  }
  return tables;
}

struct KeyRow {
  std::string key;
  std::string doc;
  std::string status;  // of the column `runs`
};

// The tables of keys.
std::vector<KeyRow> KeyRows() {
  std::vector<KeyRow> rows;
  for (const Table& table : TablesOfPage()) {
    if (table.head != Cells{"key", "type", "default", "what it does", "runs"}) {
      continue;
    }
    for (const Cells& cells : table.rows) {
      rows.push_back({.key = cells.at(0).substr(1, cells.at(0).size() - 2),
                      .doc = cells.at(3),
                      .status = cells.at(4)});
    }
  }
  return rows;
}

// "searcher grid", "type log": what the page has beside keys.
std::vector<std::string> OtherRows() {
  std::vector<std::string> names;
  for (const Table& table : TablesOfPage()) {
    const std::string& kind = table.head.at(0);
    if (kind != "type" && kind != "searcher") continue;
    for (const Cells& cells : table.rows) {
      names.push_back(kind + ' ' + cells.at(0));
    }
  }
  return names;
}

std::string TestName(const std::string& key, const std::string& variant) {
  std::string name = key + (variant.empty() ? "" : "_" + variant);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

// --- What is refused ---

class YamlRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(YamlRefusalTest, NamesThePlaceAndTheKey) {
  const Refusal& refusal = GetParam();
  const Settings settings = ProgramSettings() + refusal.set;
  PageRun run;
  const CliResult result = run.Create(settings, "validate $until 1\n");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_FALSE(run.HasStore());
  std::string message = refusal.message;
  if (const std::size_t at = message.find('@'); at != message.npos) {
    message.replace(at, 1, run.directory().string());
  }
  const PageYaml yaml(settings);
  const std::string place =
      yaml.PlaceOf(refusal.set.back().first, refusal.column);
  EXPECT_THAT(result.err, HasSubstr("page/page.yaml:" + place + ": " + message))
      << yaml.text();
  // What this version cannot run is valid all the same.
  const bool is_valid = message.find(": not yet: ") != message.npos;
  EXPECT_EQ(run.Run({"validate", "page/page.yaml", "--here"}).code,
            is_valid ? 0 : 2);
}

INSTANTIATE_TEST_SUITE_P(Page, YamlRefusalTest, testing::ValuesIn(Refusals()),
                         [](const testing::TestParamInfo<Refusal>& info) {
                           return TestName(info.param.key,
                                           std::to_string(info.index));
                         });

// --- The page ---

class YamlPageTest : public testing::Test {
 protected:
  static std::set<std::string> KeysThat(const std::string& status) {
    std::set<std::string> keys;
    for (const KeyRow& row : KeyRows()) {
      if (row.status == status) keys.insert(row.key);
    }
    return keys;
  }
};

TEST_F(YamlPageTest, EveryRowHasItsRefusal) {
  std::set<std::string> rows;
  for (const KeyRow& row : KeyRows()) {
    if (row.status != "ignored") rows.insert(row.key);
  }
  for (const std::string& row : OtherRows()) {
    if (row.starts_with("type ")) rows.insert(row);
  }
  std::set<std::string> refused;
  for (const Refusal& refusal : Refusals()) refused.insert(refusal.key);
  EXPECT_THAT(refused, UnorderedElementsAreArray(rows));
}

TEST_F(YamlPageTest, IgnoredKeysGiveOneNoteEachAndNothingElse) {
  Settings settings = ProgramSettings();
  std::vector<std::string> notes;
  for (const KeyRow& row : KeyRows()) {
    if (row.status == "ignored") settings.emplace_back(row.key, "{a: [1, b]}");
  }
  const PageYaml yaml(settings);
  for (const KeyRow& row : KeyRows()) {
    if (row.status != "ignored") continue;
    const auto name = static_cast<int>(Split(row.key, '.').back().size());
    notes.push_back("page/page.yaml:" + yaml.PlaceOf(row.key, -name - 2) +
                    ": " + row.key + ": note: ignored: " + row.doc);
  }
  ASSERT_GT(notes.size(), 30u);
  PageRun run;
  const CliResult result = run.Create(settings, "validate $until 1\n");
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> told;
  for (const std::string& line : Split(result.err, '\n')) {
    if (line.find(": note: ") != line.npos) told.push_back(line);
  }
  EXPECT_THAT(told, UnorderedElementsAreArray(notes));
  EXPECT_EQ(run.OfTrials("/state"), json({"COMPLETED"}));
}

}  // namespace
}  // namespace dtrain
