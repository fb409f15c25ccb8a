#include "engine/config/schema.h"

#include <algorithm>

#include "engine/base/text.h"

namespace dtrain {
namespace {

std::string Bounds(const KeySpec& key) {
  std::string text = key.above_least ? " > " : " ≥ ";
  text += std::to_string(key.least);
  if (key.most < kMostCount) text += ", ≤ " + std::to_string(key.most);
  return text;
}

// Returns the words of the key separated by commas; aliases with their meaning.
std::string Words(const KeySpec& key) {
  std::vector<std::string> words = Split(key.words, ' ');
  for (std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals != word.npos) word.replace(equals, 1, " (= ") += ')';
  }
  return Join(words, ", ");
}

// Returns the names of types of only one or a few keys.
std::string SpecialTypeName(KeyType type) {
  switch (type) {
    case KeyType::kEntrypoint:
      return "`module:Trial`, command, or list of words";
    case KeyType::kEnvironment:
      return "map or list of `NAME=value`, also one each for `cpu` and `cuda`";
    case KeyType::kHyperparameters:
      return "map, see below";
    case KeyType::kLossScale:
      return "dynamic, or a number > 0";
    case KeyType::kPoints:
      return "list of maps";
    case KeyType::kSlots:
      return "auto, none, cpu, `cpu:N`, `gpu:N`, most_free, GPU number or list "
             "of them";
    case KeyType::kSlotsPerTrial:
      return "int ≥ 0, 0.25, 0.5, 0.75 or all";
    case KeyType::kTrialId:
      return "`EXP.N`";
    case KeyType::kUuid:
      return "UUID or its beginning";
    default:
      return "any";
  }
}

std::string TypeName(const KeySpec& key) {
  switch (key.type) {
    case KeyType::kSection:
    case KeyType::kOptionalSection:
      return "section";
    case KeyType::kBool:
      return "bool";
    case KeyType::kInt:
      return "int" + Bounds(key);
    case KeyType::kNumber:
      return "number" + Bounds(key);
    case KeyType::kText:
      return "string";
    case KeyType::kWord:
      return Words(key);
    case KeyType::kSwitch:
      return "auto, true, false";
    case KeyType::kInts:
      return "list of ints" + Bounds(key);
    case KeyType::kTexts:
      return "list of strings";
    case KeyType::kMap:
      return "free map";
    case KeyType::kLength:
      return "length";
    case KeyType::kPeriod:
      return "length or 0";
    case KeyType::kDuration:
      return "duration";
    default:
      return SpecialTypeName(key.type);
  }
}

std::string StatusText(const KeySpec& key) {
  if (key.ignored()) return "ignored";
  if (key.ready.empty()) return "yes";
  const auto values = nlohmann::json::parse(key.ready);
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += ", ";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  if (text == "null" || text == "[]" || text == "{}") return "not yet";
  return "only " + text + " so far";
}

std::string DefaultText(const KeySpec& key) {
  if (key.ignored() || key.type == KeyType::kSection) return "";
  if (key.required) return "required";
  if (key.type == KeyType::kPeriod) return "0";
  const nlohmann::json value = nlohmann::json::parse(key.fallback);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::string_view KeySpec::name() const {
  return path.substr(path.rfind('.') + 1);
}

std::string_view KeySpec::section() const {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == path.npos ? 0 : dot);
}

nlohmann::json KeySpec::Default() const {
  auto value = nlohmann::json::parse(fallback);
  // Converted like a given value, so that the default is the same after it was
  // written and read again.
  if (type == KeyType::kDuration && value.is_number()) {
    value = value.get<double>();
  }
  return value;
}

std::span<const KeySpec> Schema() {
  static const std::vector<KeySpec> kAll = [] {
    std::vector<KeySpec> all;
    for (const auto& part :
         {ExperimentKeys(), SearcherKeys(), TrainingKeys(), IgnoredKeys()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kAll;
}

const KeySpec* FindKey(std::string_view path) {
  const auto all = Schema();
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const KeySpec& key) { return key.path == path; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> KeyNames(std::string_view section) {
  std::vector<std::string> names;
  for (const KeySpec& key : Schema()) {
    if (key.section() == section) names.emplace_back(key.name());
  }
  return names;
}

bool IsReady(const KeySpec& key, const nlohmann::json& value) {
  if (key.ready.empty()) return true;
  const auto values = nlohmann::json::parse(key.ready);
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string MarkdownRow(const KeySpec& key) {
  std::string text = "| `" + std::string(key.path) + "` | " + TypeName(key);
  text += " | " + DefaultText(key) + " | " + std::string(key.doc);
  if (!key.searchers.empty()) {
    text += " (" + Join(Split(key.searchers, ' '), ", ") + ")";
  }
  return text + " | " + StatusText(key) + " |";
}

}  // namespace dtrain
