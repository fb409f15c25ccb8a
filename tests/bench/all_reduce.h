#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace dtrain {

/// What it takes `ranks` processes to sum `bytes` bytes of float32 over the
/// memory that they share: the median of rank 0's wall time and of its CPU
/// time.
nlohmann::json AllReduceTime(int ranks, std::int64_t bytes);

}  // namespace dtrain
