#include "engine/config/environment.h"

#include <algorithm>
#include <string_view>

namespace dtrain {
namespace {

bool IsName(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !text.empty() && kLetters.find(text[0]) != kLetters.npos &&
         text.find_first_not_of(kAllowed) == text.npos;
}

// One variable as it was written; no value means: as the shell has it.
struct Variable {
  std::string name;
  std::optional<std::string> value;
  Mark mark;
  bool valid = true;
};

std::vector<Variable> Variables(const Node& node) {
  std::vector<Variable> all;
  for (const Node::Entry& entry : node.entries) {
    Variable variable{entry.key, std::nullopt, entry.mark};
    variable.valid = entry.value.IsScalar();
    if (!entry.value.is_null()) variable.value = entry.value.text;
    all.push_back(std::move(variable));
  }
  for (const Node& item : node.items) {
    const std::size_t equals = item.text.find('=');
    Variable variable{item.text.substr(0, equals), std::nullopt, item.mark};
    variable.valid = item.is_string();
    if (equals != item.text.npos) {
      variable.value = item.text.substr(equals + 1);
    }
    all.push_back(std::move(variable));
  }
  return all;
}

}  // namespace

std::optional<nlohmann::json> ReadEnvironment(const Node& node,
                                              const std::string& path,
                                              Findings& findings) {
  if (node.IsScalar()) {
    findings.Error(node.mark, path,
                   "expected a map, or a list of NAME=value texts");
    return std::nullopt;
  }
  auto names = nlohmann::json::object();
  const int before = findings.errors();
  for (const Variable& variable : Variables(node)) {
    const std::string place =
        IsName(variable.name) ? JoinPath(path, variable.name) : path;
    if (!variable.valid) {
      findings.Error(variable.mark, place,
                     node.is_map() ? "expected a text or a number as its value"
                                   : "expected a text such as NAME=value");
    } else if (!IsName(variable.name)) {
      findings.Error(variable.mark, place,
                     "a name has letters, digits and underscores only, and "
                     "begins with no digit; write NAME=value");
    } else if (names.contains(variable.name)) {
      findings.Error(variable.mark, place, "is there twice; remove one");
    }
    names[variable.name] = nullptr;
  }
  if (findings.errors() > before) return std::nullopt;
  return names;
}

std::vector<std::pair<std::string, std::string>> EnvironmentValues(
    const Node& node) {
  std::vector<std::pair<std::string, std::string>> values;
  for (Variable& variable : Variables(node)) {
    if (!variable.value) continue;
    values.emplace_back(std::move(variable.name), *std::move(variable.value));
  }
  return values;
}

}  // namespace dtrain
