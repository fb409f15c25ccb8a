#pragma once

#include "engine/os/unique_fd.h"

namespace dtrain {

/// Ranks that one trial has at most on one machine.
inline constexpr int kMaxRanks = 64;

/// Independent groups in one memory: threads of one rank that call collectives
/// at one time need a lane each, and every rank the same one for the same end.
inline constexpr int kLanes = 2;

/// Memory that the `ranks` processes of one start of a trial share, as a file
/// without a name: close-on-exec, and sealed, so that none of them can shrink
/// it under the others. Each rank makes its MeetingPlace of it. It is sparse:
/// it has room for 64 ranks to reduce gradients, but only what they touch takes
/// memory. Not to be used again for another start: what ranks that died left
/// in it would be taken for the new ones'. Throws Error(kFailed) with what the
/// system says. REQUIRES: 1 <= ranks <= kMaxRanks.
UniqueFd MakeRankMemory(int ranks);

}  // namespace dtrain
