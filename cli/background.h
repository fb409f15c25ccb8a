#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace dtrain {

/// Called by a background process once its experiment is under way: lets the
/// caller go on, and sends its own output to `log` from then on.
using Departure = std::function<void(std::int64_t experiment,
                                     const std::filesystem::path& log)>;

/// Runs `body` in a process of its own session and gives the id that it
/// departed with. An Error of `body` before that is thrown here, with its kind.
/// Call it before any thread, lock or database is there: it forks.
std::int64_t RunInBackground(const std::function<int(Departure)>& body);

}  // namespace dtrain
