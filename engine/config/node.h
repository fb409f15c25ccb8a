#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"

namespace dtrain {

/// A value of a YAML or JSON text with its place. Trees are acyclic; aliases
/// are expanded.
struct Node {
  enum class Kind {
    kNull,
    kBool,
    kInt,
    kDouble,
    kOverflow,  // a number that no 64-bit type holds
    kString,
    kList,
    kMap,
  };
  struct Entry;

  Kind kind = Kind::kNull;
  Mark mark;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;           // of kInt too
  std::string text;            // of a scalar, as it was written
  bool quoted = false;         // a string that is never anything else
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order of the text

  bool is_null() const { return kind == Kind::kNull; }
  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_string() const { return kind == Kind::kString; }
  /// True for a finite number.
  bool IsNumber() const;
  bool IsScalar() const { return !is_map() && !is_list(); }

  /// Returns the value of `key`; null if there is none or this is not a map.
  const Node* Find(std::string_view key) const;
  Node* Find(std::string_view key);
};

/// One key of a map with its value.
struct Node::Entry {
  std::string key;
  Mark mark;  // of the key
  Node value;
};

/// True if the dotted path has a value in the tree, right or wrong.
bool IsGiven(const Node& root, std::string_view path);

/// Returns the place of the value of the dotted path, or of its nearest parent.
Mark FindMark(const Node& root, std::string_view path);

/// Describes `node` for messages: "the string 'abc'", "the integer 5", "a
/// list".
std::string Describe(const Node& node);

/// Returns `node` as JSON. Does not check for numbers that JSON text cannot
/// have.
nlohmann::json ToJson(const Node& node);

/// Returns the tree of a JSON document, without marks.
Node NodeFromJson(const nlohmann::json& json);

}  // namespace dtrain
