#pragma once

#include <cstdint>
#include <functional>

namespace dtrain {

/// Calls `work` once for each part in [0, parts), shared out over the threads
/// that LibTorch's own operators use, and returns when all are done. The
/// calling thread does them one after the other where it is one of those
/// threads itself, or where LibTorch comes without GNU's OpenMP. What a part
/// throws is thrown again, the first of several.
void ForEachPart(std::int64_t parts,
                 const std::function<void(std::int64_t)>& work);

}  // namespace dtrain
