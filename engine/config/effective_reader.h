#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/schema.h"

namespace dtrain {

/// Reads a tree by the schema: checks types and bounds of every key, fills in
/// defaults, and reports unknown, ignored and unimplemented keys. Rules between
/// keys are checked by `CheckConfig`.
class EffectiveReader {
 public:
  EffectiveReader(const Node& root, Findings& findings);

  /// Returns the effective configuration: every key that applies, with
  /// defaults. Valid only if there are no errors; its sections always exist.
  nlohmann::json Read();

  /// Canonical name of the search method; "" if it is unknown.
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
