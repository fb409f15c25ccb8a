#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "engine/config/experiment_config.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Returns `module:Trial` as a string, a command as a list of words. A command
/// in one string is split at blanks outside of quotes. A command that needs a
/// shell is refused, since none runs it. A command whose braces are
/// placeholders, which is a string with braces or a map, is `{"command":
/// words}` with templates as words (engine/base/placeholders.h).
std::optional<nlohmann::json> ReadEntrypoint(const Node& node,
                                             Findings& findings);

/// Checks the placeholders of the command in `effective` and brings it into its
/// final form: a list of literal words, or `{"command": words}` if a word has a
/// placeholder. `root` is the tree that `effective` was read from. A list of
/// words has placeholders only for known names, and none with
/// `options.stored`.
void SettlePlaceholders(const Node& root, const ReadOptions& options,
                        nlohmann::json& effective, Findings& findings);

/// Returns an entrypoint of an effective configuration in a form for a YAML
/// file: a list of literal words that would be read with placeholders becomes
/// `{"command": words}` with its braces doubled.
nlohmann::json EntrypointForYaml(const nlohmann::json& entrypoint);

/// True for the entrypoint of a program in an effective configuration.
inline bool IsCommandEntrypoint(const nlohmann::json& entrypoint) {
  return entrypoint.is_array() || entrypoint.is_object();
}

/// Reports a model that is not among the known ones, if there are any.
void CheckEntrypoint(const nlohmann::json& entrypoint, Mark mark,
                     const ReadOptions& options, Findings& findings);

}  // namespace dtrain
