#pragma once

#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "engine/app/trial_selection.h"
#include "engine/page/bundle.h"

namespace dtrain {

struct ExperimentDetail;
class Store;

struct PageOptions {
  // Leaves out host, user, paths and command lines.
  bool redact = false;
  // More rows of metrics than this are thinned, with extremes kept.
  std::size_t max_rows = 1'000'000;
  TrialSelection selection = {};  // other trials are left out
};

/// Returns the experiment's record and the importance of its hyperparameters,
/// without reading its metrics.
nlohmann::json ExperimentSummary(const Store& store,
                                 const ExperimentDetail& detail,
                                 const PageOptions& options);

/// Returns what the page shows of an experiment: its record, the trials as
/// columns, all metrics, and the results of the analysis. Columns go to
/// `bundle`. docs/desk.md names the fields.
nlohmann::json ExperimentData(const Store& store,
                              const ExperimentDetail& detail,
                              const PageOptions& options, Bundle& bundle);

}  // namespace dtrain
