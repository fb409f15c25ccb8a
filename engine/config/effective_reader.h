#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"

namespace dtrain {

/// Walks a tree along the schema: types and bounds of every key, unknown keys,
/// defaults, what this version ignores or cannot run yet. What keys ask of
/// each other is `CheckConfig`'s.
class EffectiveReader {
 public:
  EffectiveReader(const Node& root, Findings& findings);

  /// The effective configuration: every key that applies, defaults filled in.
  /// Of use only if there are no errors; its sections are there in any case.
  nlohmann::json Read();

  /// The searcher's method under its canonical name; empty if it is unknown.
  const std::string& method() const { return method_; }

 private:
  nlohmann::json ReadSection(const Node* node, std::string_view section);
  nlohmann::json ReadKey(const KeySpec& key, const Node* section);
  nlohmann::json ReadGiven(const KeySpec& key, const Node& node);
  nlohmann::json ReadGivenSection(const KeySpec& key, const Node& node);
  void CheckNames(const Node& node, std::string_view section);
  bool Applies(const KeySpec& key) const;
  void Refuse(const KeySpec& key, Mark mark);

  const Node& root_;
  Findings& findings_;
  std::string method_;
};

}  // namespace dtrain
