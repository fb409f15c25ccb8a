#pragma once

#include <cstdint>
#include <functional>

namespace dtrain {

/// Calls `work` for each part in [0, parts), in parallel on the threads of
/// LibTorch's operators, and returns when all are done. Runs sequentially on
/// the calling thread if that is one of these threads, or if LibTorch comes
/// without GNU's OpenMP. Rethrows the first exception of a part.
void ForEachPart(std::int64_t parts,
                 const std::function<void(std::int64_t)>& work);

}  // namespace dtrain
