#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json.hpp>

namespace dtrain {

/// What the search and the store cost alone: plays ASHA over `trials` trivial
/// trials (10 reports, 1 step) without processes on a store on disk in
/// `scratch`, once with every transaction in synchronous NORMAL, once with
/// FULL where dtrain asks for it, and once with FULL always.
nlohmann::json SearchStore(const std::filesystem::path& scratch,
                           std::int64_t trials);

}  // namespace dtrain
