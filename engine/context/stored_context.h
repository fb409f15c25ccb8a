#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/store/layout.h"

namespace dtrain {

/// The key of provenance that has the hash of the list of a stored context.
inline constexpr char kContextHash[] = "context_hash";

/// Files in a stored context that are not in its list. Trials of earlier
/// versions worked in it, and what commands wrote there is never executed.
enum class StrayFiles { kAllowed, kRefused };

/// The first file of the experiment's stored context that is not, to the bit,
/// what was recorded in `provenance`, or that others could change, and why:
/// "FILE: is not as it was stored". None where all of it is well, or nothing is
/// stored. Reads every file.
std::optional<std::string> ContextProblem(const StoreLayout& layout,
                                          std::int64_t experiment,
                                          const nlohmann::json& provenance,
                                          StrayFiles strays);

/// Throws Error(kStore) that names a directory of the store, on the way to the
/// experiment's context or in it, that others than the user, the owner of the
/// store and root could change. Without `experiment`, only that of all
/// experiments is looked at. To be called before anything there is executed.
void RequireOwnFiles(const StoreLayout& layout,
                     std::optional<std::int64_t> experiment);

/// RequireOwnFiles, and throws Error(kStore) where there is a ContextProblem,
/// with what to do. To be called before a recorded experiment runs.
void RequireStoredContext(const StoreLayout& layout, std::int64_t experiment,
                          const nlohmann::json& provenance, StrayFiles strays);

}  // namespace dtrain
