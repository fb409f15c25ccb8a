#pragma once

#include "engine/train/rank_group.h"
#include "engine/train/trial_link.h"

namespace dtrain {

/// `link` as the ranks of a trial have it: rank 0 speaks with the runner for
/// all, and passes on to the others what they are to do next. What they send
/// goes nowhere. `next` and `stop_requested` are collective, and give every
/// rank the same. REQUIRES: `ranks` outlives it.
TrialLink RankedLink(TrialLink link, RankGroup& ranks);

}  // namespace dtrain
