#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/store/layout.h"

namespace dtrain {

/// Key in the provenance for the hash of the list of a stored context.
inline constexpr char kContextHash[] = "context_hash";
/// Key for the links of trials' copies, each with "path", "target", "declared"
/// and LinkedFiles as they were recorded.
inline constexpr char kContextLinks[] = "context_links";

/// Policy for files in a stored context that are not in its list. Trials of
/// earlier versions worked in it; files that they wrote are never executed.
enum class StrayFiles { kAllowed, kRefused };

/// Returns the first problem of the experiment's stored context: a file that
/// differs from the hash in `provenance`, or that other users could change, as
/// "FILE: has changed since it was stored". None if all is well or no context
/// is stored. Reads every file.
std::optional<std::string> ContextProblem(const StoreLayout& layout,
                                          std::int64_t experiment,
                                          const nlohmann::json& provenance,
                                          StrayFiles strays);

/// Throws Error(kStore) naming a directory of the store, on the path to the
/// experiment's context or in it, that users other than this one, the store's
/// owner and root could change. Without `experiment`, checks only the directory
/// of all experiments. Call it before executing anything there.
void RequireOwnFiles(const StoreLayout& layout,
                     std::optional<std::int64_t> experiment);

/// Does RequireOwnFiles, and throws Error(kStore) if there is a ContextProblem.
/// Call it before a recorded experiment runs.
void RequireStoredContext(const StoreLayout& layout, std::int64_t experiment,
                          const nlohmann::json& provenance, StrayFiles strays);

}  // namespace dtrain
