#pragma once

#include <functional>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "engine/config/experiment_config.h"
#include "engine/store/store.h"

namespace dtrain {

/// Finds or records the experiment to run, and gives its id.
using Recording = std::function<std::int64_t(Store& store)>;

/// Runs a recorded experiment, its trials on this machine or where
/// `make_launcher` starts them. A `detached` process ignores SIGHUP. Throws as
/// ExperimentRunner.
RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached = false,
                        const MakeLauncher& make_launcher = {});

/// Opens the store of `layout` for writing, has the experiment recorded and
/// runs it: in the foreground to its end, or in the background, and then only
/// says which it is. Gives the exit code.
int RunRecorded(const StoreLayout& layout, const Recording& record,
                const ExperimentConfig& config, RunRequest& request,
                const GlobalOptions& globals);

}  // namespace dtrain
