#pragma once

#include <functional>
#include <optional>

#include "engine/train/rank_group.h"
#include "engine/train/trial.h"
#include "engine/wire/message.h"

namespace dtrain {

/// One pass over `source`, or `max_batches` of it (0: all), weighted and
/// reduced over all batches of all `ranks` as the trial says. `go_on` is asked
/// before each batch; nothing comes back if it says no. Collective, `go_on`
/// included. REQUIRES: the models are in evaluation mode.
std::optional<MetricValues> RunValidation(
    Trial& trial, DataSource& source, torch::Device device,
    std::int64_t max_batches, const std::function<bool()>& keep_going,
    RankGroup& ranks);

}  // namespace dtrain
