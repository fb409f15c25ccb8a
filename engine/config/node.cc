#include "engine/config/node.h"

#include <algorithm>
#include <cmath>

#include "engine/base/text.h"

namespace dtrain {
bool Node::IsNumber() const {
  return kind == Kind::kInt || (kind == Kind::kDouble && std::isfinite(number));
}

// A linear search: maps of a configuration are small, and the order of their
// keys must be kept for messages.
const Node* Node::Find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(),
                   [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Node* Node::Find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).Find(key));
}

bool IsGiven(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (const std::string& name : Split(path, '.')) {
    node = node->Find(name);
    if (node == nullptr) return false;
  }
  return !node->is_null();
}

Mark FindMark(const Node& root, std::string_view path) {
  const Node* node = &root;
  Mark mark;
  for (const std::string& name : Split(path, '.')) {
    node = node->Find(name);
    if (node == nullptr) break;
    mark = node->mark;
  }
  return mark;
}

std::string Describe(const Node& node) {
  const std::string text = Truncate(EscapeForTerminal(node.text), 60);
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kBool:
      return "the boolean " + text;
    case Node::Kind::kInt:
      return "the integer " + text;
    case Node::Kind::kDouble:
      return "the number " + text;
    case Node::Kind::kOverflow:
      return text + ", which is too large for a number";
    case Node::Kind::kString:
      return "the string '" + text + "'";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "a value";
}

nlohmann::json ToJson(const Node& node) {
  nlohmann::json json;
  switch (node.kind) {
    case Node::Kind::kNull:
      break;
    case Node::Kind::kBool:
      json = node.boolean;
      break;
    case Node::Kind::kInt:
      json = node.integer;
      break;
    case Node::Kind::kDouble:
    case Node::Kind::kOverflow:
      json = node.number;
      break;
    case Node::Kind::kString:
      json = node.text;
      break;
    case Node::Kind::kList:
      json = nlohmann::json::array();
      for (const Node& item : node.items) json.push_back(ToJson(item));
      break;
    case Node::Kind::kMap:
      json = nlohmann::json::object();
      for (const Node::Entry& entry : node.entries) {
        json[entry.key] = ToJson(entry.value);
      }
      break;
  }
  return json;
}

Node NodeFromJson(const nlohmann::json& json) {
  Node node;
  if (json.is_number()) {
    // A number beyond the range of 64 bits keeps its text, which the error
    // shows.
    node.text = json.dump();
    node.number = json.get<double>();
    if (json.is_number_float()) {
      node.kind = Node::Kind::kDouble;
    } else if (json.is_number_unsigned() &&
               json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
      node.kind = Node::Kind::kOverflow;
    } else {
      node.kind = Node::Kind::kInt;
      node.integer = json.get<std::int64_t>();
    }
  } else if (json.is_boolean()) {
    node.kind = Node::Kind::kBool;
    node.boolean = json.get<bool>();
    node.text = node.boolean ? "true" : "false";
  } else if (json.is_string()) {
    node.kind = Node::Kind::kString;
    node.text = json.get<std::string>();
  } else if (json.is_array()) {
    node.kind = Node::Kind::kList;
    for (const auto& item : json) node.items.push_back(NodeFromJson(item));
  } else if (json.is_object()) {
    node.kind = Node::Kind::kMap;
    for (const auto& [key, value] : json.items()) {
      node.entries.push_back({key, {}, NodeFromJson(value)});
    }
  }
  return node;
}

}  // namespace dtrain
