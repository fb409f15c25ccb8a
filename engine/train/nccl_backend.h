#pragma once

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace dtrain {

/// Makes the part of `rank` of `ranks` in their collectives over NCCL, on the
/// GPU that is this process's first. They find each other by `store`. The
/// caller owns what comes back. Throws c10::Error.
using MakeNcclBackend =
    c10d::Backend* (*)(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                       int ranks);

/// Its name in libdtrain_trial_cuda.so, which has it where that was built with
/// NCCL's header at hand.
inline constexpr char kMakeNcclBackend[] = "DtrainMakeNcclBackend";

}  // namespace dtrain
