#include "engine/config/value_reader.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "engine/base/text.h"
#include "engine/config/special_values.h"
#include "engine/config/yaml_text.h"

namespace dtrain {
namespace {

using MaybeJson = std::optional<nlohmann::json>;

std::string BoundsText(std::int64_t least, std::int64_t most) {
  if (most >= kMostCount && least > -kMostCount) {
    return "of at least " + std::to_string(least);
  }
  return "from " + std::to_string(least) + " to " + std::to_string(most);
}

MaybeJson ReadBool(const Node& node, const std::string& path,
                   Findings& findings) {
  if (node.kind == Node::Kind::kBool) return node.boolean;
  ReportType(node, path, "true or false", findings);
  return std::nullopt;
}

MaybeJson ReadNumber(const KeySpec& key, const Node& node, Findings& findings) {
  const auto least = static_cast<double>(key.least);
  const auto most = static_cast<double>(key.most);
  const bool valid =
      node.IsNumber() && node.number <= most &&
      (key.above_least ? node.number > least : node.number >= least);
  if (valid) return ToJson(node);
  const std::string low =
      (key.above_least ? "above " : "of at least ") + std::to_string(key.least);
  const std::string high =
      key.most < kMostCount ? ", at most " + std::to_string(key.most) : "";
  ReportType(node, std::string(key.path), "a number " + low + high, findings);
  return std::nullopt;
}

MaybeJson ReadText(const KeySpec& key, const Node& node,
                   const std::string& path, Findings& findings) {
  if (!node.is_string()) {
    ReportType(node, path, "a string", findings);
    return std::nullopt;
  }
  const auto size = static_cast<std::int64_t>(node.text.size());
  if (size < key.least) {
    findings.Error(node.mark, path, "is empty; give it a text");
    return std::nullopt;
  }
  if (size > key.most) {
    findings.Error(node.mark, path,
                   "has " + std::to_string(size) + " bytes; use at most " +
                       std::to_string(key.most));
    return std::nullopt;
  }
  return node.text;
}

// "; use 'B' in its place" for a refused word with a substitute, or empty.
std::string SubstituteHint(const KeySpec& key, const std::string& word) {
  for (const std::string& pair : Split(key.substitutes, ' ')) {
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos || pair.substr(0, equals) != word) continue;
    return "; use '" + pair.substr(equals + 1) + "' in its place";
  }
  return "";
}

MaybeJson ReadWord(const KeySpec& key, const Node& node, Findings& findings) {
  std::vector<std::string> allowed;
  for (const std::string& word : Split(key.words, ' ')) {
    const std::size_t equals = word.find('=');
    allowed.push_back(word.substr(0, equals));
    if (!node.is_string() || node.text != allowed.back()) continue;
    return equals == word.npos ? word : word.substr(equals + 1);
  }
  std::string hint = node.is_string() ? SubstituteHint(key, node.text) : "";
  if (hint.empty() && node.is_string()) hint = DidYouMean(node.text, allowed);
  if (hint.empty() && !key.instead.empty()) {
    hint = "; " + std::string(key.instead);
  }
  findings.Error(node.mark, std::string(key.path),
                 "expected one of " + Join(allowed, ", ") + ", got " +
                     Describe(node) + hint);
  return std::nullopt;
}

MaybeJson ReadSwitch(const KeySpec& key, const Node& node, Findings& findings) {
  if (node.is_string() && node.text == "auto") return "auto";
  if (node.kind == Node::Kind::kBool) return node.boolean;
  ReportType(node, std::string(key.path), "auto, true or false", findings);
  return std::nullopt;
}

// A list whose items `read` takes, each with its own path.
template <typename Read>
MaybeJson ReadList(const KeySpec& key, const Node& node,
                   const std::string& what, Findings& findings, Read read) {
  const std::string path(key.path);
  if (!node.is_list()) {
    ReportType(node, path, "a list of " + what, findings);
    return std::nullopt;
  }
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const MaybeJson item =
        read(node.items[i], path + '[' + std::to_string(i) + ']');
    if (!item) return std::nullopt;
    list.push_back(*item);
  }
  return list;
}

MaybeJson ReadInts(const KeySpec& key, const Node& node, Findings& findings) {
  return ReadList(key, node, "integers", findings,
                  [&](const Node& item, const std::string& path) -> MaybeJson {
                    return ReadInteger(item, path, key.least, key.most,
                                       findings);
                  });
}

MaybeJson ReadTexts(const KeySpec& key, const Node& node, Findings& findings) {
  return ReadList(key, node, "strings", findings,
                  [&](const Node& item, const std::string& path) {
                    return ReadText(key, item, path, findings);
                  });
}

MaybeJson ReadMap(const KeySpec& key, const Node& node, Findings& findings) {
  const std::string path(key.path);
  if (node.is_map()) return ReadFreeValue(node, path, findings);
  ReportType(node, path, "a map", findings);
  return std::nullopt;
}

}  // namespace

std::optional<nlohmann::json> ReadValue(const KeySpec& key, const Node& node,
                                        Findings& findings) {
  const std::string path(key.path);
  switch (key.type) {
    case KeyType::kBool:
      return ReadBool(node, path, findings);
    case KeyType::kInt:
      return ReadInteger(node, path, key.least, key.most, findings);
    case KeyType::kNumber:
      return ReadNumber(key, node, findings);
    case KeyType::kText:
      return ReadText(key, node, path, findings);
    case KeyType::kWord:
      return ReadWord(key, node, findings);
    case KeyType::kSwitch:
      return ReadSwitch(key, node, findings);
    case KeyType::kInts:
      return ReadInts(key, node, findings);
    case KeyType::kTexts:
      return ReadTexts(key, node, findings);
    case KeyType::kMap:
      return ReadMap(key, node, findings);
    default:
      return ReadSpecialValue(key, node, findings);
  }
}

nlohmann::json ReadFreeValue(const Node& node, const std::string& path,
                             Findings& findings) {
  if (node.is_list()) {
    auto list = nlohmann::json::array();
    for (const Node& item : node.items) {
      list.push_back(ReadFreeValue(
          item, path + '[' + std::to_string(list.size()) + ']', findings));
    }
    return list;
  }
  if (node.is_map()) {
    auto map = nlohmann::json::object();
    for (const Node::Entry& entry : node.entries) {
      map[entry.key] =
          ReadFreeValue(entry.value, JoinPath(path, entry.key), findings);
    }
    return map;
  }
  const bool number =
      node.kind == Node::Kind::kDouble || node.kind == Node::Kind::kOverflow;
  if (!number || node.IsNumber()) return ToJson(node);
  findings.Error(node.mark, path,
                 "expected a finite number, got " + Describe(node) +
                     "; quote it if it is a text");
  return nullptr;
}

std::optional<std::int64_t> ReadInteger(const Node& node,
                                        const std::string& path,
                                        std::int64_t least, std::int64_t most,
                                        Findings& findings) {
  const bool valid = node.kind == Node::Kind::kInt && node.integer >= least &&
                     node.integer <= most;
  if (valid) return node.integer;
  ReportType(node, path, "an integer " + BoundsText(least, most), findings);
  return std::nullopt;
}

void ReportType(const Node& node, const std::string& path,
                const std::string& what, Findings& findings) {
  std::string message = "expected " + what + ", got " + Describe(node);
  const bool wants_integer = what.find("integer") != what.npos;
  const bool wants_text = what.find("string") != what.npos;
  const bool wants_plain = wants_integer || what.find("number") != what.npos ||
                           what.find("true") != what.npos;
  if (node.is_string() && wants_plain) {
    const bool quoted = !PlainScalar(node.text).is_string();
    if (quoted && !node.text.empty()) message += "; remove the quotes";
  } else if (wants_text && node.IsScalar()) {
    message += "; quote it";
  } else if (wants_integer && node.IsNumber() &&
             node.kind == Node::Kind::kDouble &&
             node.number == std::floor(node.number) &&
             std::abs(node.number) < 1e15) {
    message +=
        "; write " + std::to_string(static_cast<std::int64_t>(node.number));
  }
  findings.Error(node.mark, path, message);
}

}  // namespace dtrain
