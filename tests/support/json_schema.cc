#include "tests/support/json_schema.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "engine/base/text.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<std::string_view, 13> kKeywords = {
    "$defs",    "$id",         "$ref", "$schema", "additionalProperties",
    "anyOf",    "description", "enum", "items",   "properties",
    "required", "title",       "type"};

// Resolves a reference such as "#/$defs/best" in `root`.
const json& Resolve(const json& root, const std::string& reference) {
  const json::json_pointer place(
      reference.starts_with("#") ? reference.substr(1) : "/no such file");
  if (root.contains(place)) return root.at(place);
  throw std::invalid_argument("$ref: no '" + reference + "'");
}

void CheckSchema(const json& root, const json& schema) {
  if (schema.is_boolean()) return;
  for (const auto& [keyword, value] : schema.items()) {
    if (std::ranges::find(kKeywords, keyword) == kKeywords.end()) {
      throw std::invalid_argument("unknown keyword '" + keyword + "'");
    }
    if (keyword == "$ref") Resolve(root, value);
    if (keyword == "items" || keyword == "additionalProperties") {
      CheckSchema(root, value);
    } else if (keyword == "$defs" || keyword == "properties" ||
               keyword == "anyOf") {
      for (const json& part : value) CheckSchema(root, part);
    }
  }
  const json none = json::object();
  for (const json& name : schema.value("required", json::array())) {
    if (schema.value("properties", none).contains(name)) continue;
    throw std::invalid_argument("required '" + name.get<std::string>() +
                                "' is not a property");
  }
}

bool IsOfType(const json& document, const std::string& type) {
  if (type == "integer") return document.is_number_integer();
  if (type == "number") return document.is_number();
  return document.type_name() == type;
}

// Collects the errors of a document and its parts.
class Checking {
 public:
  explicit Checking(const json& root) : root_(root) {}

  void Check(const json& schema, const json& document,
             const std::string& place) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) Add(place, "should not be there");
      return;
    }
    if (schema.contains("$ref")) {
      return Check(Resolve(root_, schema["$ref"]), document, place);
    }
    CheckType(schema, document, place);
    CheckEnum(schema, document, place);
    CheckAnyOf(schema, document, place);
    if (document.is_object()) CheckObject(schema, document, place);
    if (document.is_array() && schema.contains("items")) {
      for (std::size_t i = 0; i < document.size(); ++i) {
        Check(schema["items"], document[i], place + "/" + std::to_string(i));
      }
    }
  }

  std::vector<std::string> findings() && { return std::move(findings_); }

 private:
  void Add(const std::string& place, const std::string& what) {
    findings_.push_back((place.empty() ? "/" : place) + ": " + what);
  }

  void CheckType(const json& schema, const json& document,
                 const std::string& place) {
    if (!schema.contains("type")) return;
    const json& type = schema["type"];
    const auto types = type.is_array() ? type.get<std::vector<std::string>>()
                                       : std::vector{type.get<std::string>()};
    const bool known = std::ranges::any_of(
        types, [&](const auto& name) { return IsOfType(document, name); });
    if (known) return;
    Add(place,
        document.dump().substr(0, 80) + " is not of type " + Join(types, ", "));
  }

  void CheckEnum(const json& schema, const json& document,
                 const std::string& place) {
    if (!schema.contains("enum")) return;
    const json& values = schema["enum"];
    if (std::ranges::find(values, document) != values.end()) return;
    Add(place, document.dump() + " is none of " + values.dump());
  }

  void CheckAnyOf(const json& schema, const json& document,
                  const std::string& place) {
    if (!schema.contains("anyOf")) return;
    std::string all;
    for (const json& choice : schema["anyOf"]) {
      Checking checking(root_);
      checking.Check(choice, document, place);
      if (checking.findings_.empty()) return;
      all += (all.empty() ? "" : " or ") + checking.findings_.front();
    }
    Add(place, "matches no alternative: " + all);
  }

  void CheckObject(const json& schema, const json& document,
                   const std::string& place) {
    for (const json& name : schema.value("required", json::array())) {
      if (document.contains(name)) continue;
      Add(place, "lacks '" + name.get<std::string>() + "'");
    }
    const json properties = schema.value("properties", json::object());
    const json other = schema.value("additionalProperties", json(true));
    for (const auto& [name, value] : document.items()) {
      const bool known = properties.contains(name);
      Check(known ? properties[name] : other, value, place + "/" + name);
    }
  }

  const json& root_;
  std::vector<std::string> findings_;
};

// The call of `dtrain` in argv.
struct Asked {
  std::string command;  // "checkpoint show"
  bool json = false;
  bool jsonl = false;
};

bool IsProgram(const std::string& word) {
  return fs::path(word).filename() == "dtrain";
}

// Returns the words of argv, including those of a shell command in it.
std::vector<std::string> ShellWords(const std::vector<std::string>& argv) {
  if (argv.empty() || IsProgram(argv.front())) return argv;
  std::vector<std::string> words;
  for (const std::string& argument : argv) {
    std::string text = argument;
    for (const char c : {'\n', ';', '\'', '"'}) {
      std::ranges::replace(text, c, ' ');
    }
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
  }
  return words;
}

// Schemas of commands without a schema of their own name.
const std::map<std::string, std::vector<std::string>>& SchemasOfCommands() {
  static const std::map<std::string, std::vector<std::string>> kSchemas = {
      {"create", {"run", "created", "dry-run", "test", "refused"}},
      {"resume", {"run", "created", "resume-all", "refused"}},
      {"extend", {"run", "created", "set-max-trials", "refused"}},
      {"activate", {"run", "created", "resume-all", "refused"}},
      {"continue", {"run", "created", "refused"}},
      {"reproduce", {"run", "created", "comparison", "refused"}},
      {"rerun", {"run", "created", "refused"}},
      {"confirm", {"run", "created", "refused"}},
      {"run", {"run", "created", "dry-run", "refused"}},
      {"preview-search", {"preview-search", "simulation"}},
      {"describe", {"describe", "describe-trial"}},
      {"best", {"best", "pareto"}},
      {"compare", {"compare", "compare-group"}},
      {"predict", {"predict", "predict-file"}},
      {"checkpoint import", {"checkpoint-import", "checkpoint-convert"}},
      {"pause", {"request"}},
      {"cancel", {"request"}},
      {"kill", {"request"}},
      {"archive", {"archive"}},
      {"unarchive", {"archive"}}};
  return kSchemas;
}

fs::path SchemaPath(const std::string& schema) {
  return fs::path(DTRAIN_SOURCE_DIR) / "docs" / "schemas" / (schema + ".json");
}

// A word of a shell command may be a part of a quoted name.
bool IsKnown(const std::string& word) {
  return word == "checkpoint" || word == "data" || word == "notify" ||
         word == "set" || SchemasOfCommands().contains(word) ||
         fs::exists(SchemaPath(word));
}

Asked ReadArguments(const std::vector<std::string>& argv) {
  const std::vector<std::string> words = ShellWords(argv);
  auto word = std::ranges::find_if(words, IsProgram);
  const bool is_quoted = words != argv;
  Asked asked;
  if (word == words.end()) return asked;
  while (++word != words.end() && *word != "--" && *word != "|") {
    if (*word == "--store" || *word == "--color") {
      if (++word == words.end()) break;
    } else if (*word == "--json") {
      asked.json = true;
    } else if (*word == "--jsonl") {
      asked.jsonl = true;
    } else if (!word->starts_with("-") && asked.command.empty()) {
      if (!is_quoted || IsKnown(*word)) asked.command = *word;
    } else if (asked.command == "checkpoint" || asked.command == "data" ||
               asked.command == "notify" || asked.command == "set") {
      asked.command += " " + *word;
    }
  }
  return asked;
}

// Returns the errors according to the schema that matches best.
std::vector<std::string> CheckDocument(const json& document,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> least;
  for (const std::string& name : names) {
    if (!fs::exists(SchemaPath(name))) {
      return {SchemaPath(name).string() + ": no such schema"};
    }
    auto findings = JsonSchema::Read(SchemaPath(name)).Check(document);
    if (findings.empty()) return {};
    for (std::string& finding : findings) {
      finding = "docs/schemas/" + name + ".json: " + finding;
    }
    if (least.empty() || findings.size() < least.size()) least = findings;
  }
  return least;
}

std::vector<std::string> CheckLine(const Asked& asked, const json& line) {
  if (asked.command == "logs") return CheckDocument(line, {"log-line"});
  if (!line.is_object() || !line.contains("event")) {
    return {"/: a line of --jsonl without an event"};
  }
  return CheckDocument(line, {"event-" + line["event"].get<std::string>()});
}

}  // namespace

JsonSchema::JsonSchema(json schema) : schema_(std::move(schema)) {
  CheckSchema(schema_, schema_);
}

JsonSchema JsonSchema::Read(const fs::path& file) {
  std::ifstream in(file);
  try {
    return JsonSchema(json::parse(in));
  } catch (const std::exception& error) {
    throw std::invalid_argument(file.string() + ": " + error.what());
  }
}

std::vector<std::string> JsonSchema::Check(const json& document) const {
  Checking checking(schema_);
  checking.Check(schema_, document, "");
  return std::move(checking).findings();
}

std::vector<std::string> FindUndocumentedJson(
    const std::vector<std::string>& argv, const std::string& out) {
  const Asked asked = ReadArguments(argv);
  if ((!asked.json && !asked.jsonl) || out.empty()) return {};
  const json whole = json::parse(out, nullptr, /*allow_exceptions=*/false);
  const bool is_event = whole.is_object() && whole.contains("event");
  if (asked.json ||
      (!whole.is_discarded() && !is_event && asked.command != "logs")) {
    if (whole.is_discarded()) return {"the output is not a JSON document"};
    const auto several = SchemasOfCommands().find(asked.command);
    if (several != SchemasOfCommands().end()) {
      return CheckDocument(whole, several->second);
    }
    std::string name = asked.command;
    std::ranges::replace(name, ' ', '-');
    return CheckDocument(whole, {name});
  }
  std::vector<std::string> findings;
  std::istringstream lines(out);
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto more =
        line.is_discarded()
            ? std::vector<std::string>{"no JSON: " + text.substr(0, 200)}
            : CheckLine(asked, line);
    findings.insert(findings.end(), more.begin(), more.end());
  }
  return findings;
}

}  // namespace dtrain
