#pragma once

#include <functional>
#include <optional>

#include "engine/train/rank_group.h"
#include "engine/train/trial.h"
#include "engine/wire/message.h"

namespace dtrain {

/// Evaluates one pass over `source`, or at most `max_batches` of it (0: all),
/// reduced over all batches and all `ranks` as the trial specifies.
/// `keep_going` is called before each batch; the result is empty if it returns
/// false. Collective, including `keep_going`. REQUIRES: models are in
/// evaluation mode.
std::optional<MetricValues> RunValidation(
    Trial& trial, DataSource& source, torch::Device device,
    std::int64_t max_batches, const std::function<bool()>& keep_going,
    RankGroup& ranks);

}  // namespace dtrain
