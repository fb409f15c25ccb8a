#pragma once

#include <vector>

#include <torch/types.h>

#include "engine/train/rank_group.h"

namespace dtrain {

/// What the ranks made of their batches, in the order of the set: batches are
/// dealt out one by one, so the first of each rank come first. `mine` are on
/// the CPU; empty on all ranks but the first. Collective.
std::vector<torch::Tensor> BatchesInOrder(std::vector<torch::Tensor> mine,
                                          RankGroup& ranks);

}  // namespace dtrain
