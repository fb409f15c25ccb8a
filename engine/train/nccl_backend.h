#pragma once

#include <string>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Backend;
}

namespace dtrain {

/// Makes the part of `rank` of `ranks` in their collectives over NCCL, on the
/// GPU that is this process's first. `meeting_file` does not exist at first and
/// is the same for all of them, on one machine or a shared file system; the
/// last rank to leave removes it. The caller owns what comes back. Throws
/// c10::Error.
using MakeNcclBackend = c10d::Backend* (*)(const char* meeting_file, int rank,
                                           int ranks);

/// Its name in libdtrain_trial_cuda.so, which has it where that was built with
/// NCCL's header at hand.
inline constexpr char kMakeNcclBackend[] = "DtrainMakeNcclBackend";

}  // namespace dtrain
