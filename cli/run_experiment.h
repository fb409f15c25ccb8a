#pragma once

#include <functional>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "engine/config/experiment_config.h"
#include "engine/store/store.h"

namespace dtrain {

/// Finds or records the experiment to run, and gives its id.
using Recording = std::function<std::int64_t(Store& store)>;

/// Opens the store of `layout` for writing, has the experiment recorded and
/// runs it: in the foreground to its end, or in the background, and then only
/// says which it is. Gives the exit code.
int RunRecorded(const StoreLayout& layout, const Recording& record,
                const ExperimentConfig& config, RunRequest& request,
                const GlobalOptions& globals);

}  // namespace dtrain
