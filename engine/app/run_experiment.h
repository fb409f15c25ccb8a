#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/config/experiment_config.h"
#include "engine/process/launcher.h"
#include "engine/run/reporter.h"
#include "engine/run/runner.h"
#include "engine/store/store.h"

namespace dtrain {

struct LocalLauncherOptions;

/// Makes the launcher of a run; a LocalLauncher if empty.
using MakeLauncher =
    std::function<std::unique_ptr<Launcher>(LocalLauncherOptions&& options)>;

/// Runs a recorded experiment, its trials on this machine or where
/// `make_launcher` starts them. A `detached` process ignores SIGHUP. Throws as
/// ExperimentRunner.
RunResult RunExperiment(Store& store, std::int64_t id,
                        const ExperimentConfig& config,
                        const RunOptions& options, Reporter& reporter,
                        bool detached = false,
                        const MakeLauncher& make_launcher = {});

}  // namespace dtrain
