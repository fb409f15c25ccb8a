#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// A JSON Schema (draft 7), limited to the keywords used in docs/schemas: type,
/// properties, required, additionalProperties, items, enum, anyOf, and $ref
/// within the same file.
class JsonSchema {
 public:
  /// Throws std::invalid_argument for an unknown keyword, a required property
  /// without a description, or a $ref without a target.
  explicit JsonSchema(nlohmann::json schema);
  /// Reads the schema in `file`.
  static JsonSchema Read(const std::filesystem::path& file);

  /// Returns the errors of `document` with their places, such as
  /// "/best/value: is a string, not a number".
  std::vector<std::string> Check(const nlohmann::json& document) const;

 private:
  nlohmann::json schema_;
};

/// Returns the errors of `out`, the output of a call with `argv`. With --json
/// it must be one document that matches a schema of the command in
/// docs/schemas, with
/// --jsonl each line must be one. Other output is not checked. argv may call
/// `dtrain` through another program: "sh -c 'dtrain list --json'".
std::vector<std::string> FindUndocumentedJson(
    const std::vector<std::string>& argv, const std::string& out);

}  // namespace dtrain
