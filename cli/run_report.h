#pragma once

#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "engine/config/experiment_config.h"
#include "engine/run/reporter.h"
#include "engine/store/store.h"

namespace dtrain {

/// What shows a run while it goes on: a live display or lines on stderr, JSON
/// lines on stdout. `on_begin` is called once the runner holds the experiment.
std::unique_ptr<Reporter> MakeReporter(const StoreLayout& layout,
                                       const RunRequest& request,
                                       const GlobalOptions& globals,
                                       std::function<void()> on_begin);

/// Says how the run ended: summary or JSON on stdout, what went wrong or how
/// to go on on stderr, the JUnit file. Gives the exit code.
int ReportResult(const Store& store, const RunResult& result,
                 const ExperimentConfig& config, RunRequest& request,
                 const GlobalOptions& globals);

}  // namespace dtrain
