#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtrain {

/// A JSON Schema (draft 7) of the keywords that docs/schemas uses: type,
/// properties, required, additionalProperties, items, enum, anyOf, and $ref to
/// another place of the same file.
class JsonSchema {
 public:
  /// Throws std::invalid_argument for a keyword that it does not know, a
  /// property that is required and not described, or a $ref to nothing.
  explicit JsonSchema(nlohmann::json schema);
  /// Reads the schema in `file`.
  static JsonSchema Read(const std::filesystem::path& file);

  /// Returns what is wrong with `document`, each with its place, such as
  /// "/best/value: is a string, not a number"; nothing if it is valid.
  std::vector<std::string> Check(const nlohmann::json& document) const;

 private:
  nlohmann::json schema_;
};

/// Returns what is wrong with `out`, the output of the program when it was
/// called with `argv`: with --json it is one document that a schema of the
/// command in docs/schemas describes, with --jsonl each line is one. Nothing is
/// wrong where argv names no `dtrain` or asks for no JSON. argv may be a call
/// by way of another program: "sh -c 'dtrain list --json'".
std::vector<std::string> FindUndocumentedJson(
    const std::vector<std::string>& argv, const std::string& out);

}  // namespace dtrain
