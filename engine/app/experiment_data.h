#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/app/trial_selection.h"
#include "engine/base/clock.h"
#include "engine/page/bundle.h"
#include "engine/store/rows.h"

namespace dtrain {

class Store;

struct PageOptions {
  // Leaves out host, user, paths and command lines.
  bool redact = false;
  // More rows of metrics than this are thinned, with extremes kept.
  std::size_t max_rows = 1'000'000;
  TrialSelection selection = {};  // other trials are left out
  // Reads no metrics: ExperimentMetrics returns them part by part.
  bool without_metrics = false;
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

// A live page reads an experiment in parts, none of which takes long: first
// ExperimentData without metrics, then the metrics, then changes.

/// A place in the metrics of an experiment, in order of trial, kind and
/// batches.
struct MetricPlace {
  std::int64_t trial = 0;
  MetricKind kind = MetricKind::kTraining;
  std::int64_t after = -1;
};

/// Returns the field `metrics` of ExperimentData for the rows after `place`, at
/// most some 100,000, with `next`: the place of the last row, null at the end.
nlohmann::json ExperimentMetrics(const Store& store, const ExperimentRow& row,
                                 const MetricPlace& place, Bundle& bundle);

/// A trial that a page shows as unfinished, and the last batches that it has.
struct KnownTrial {
  std::int64_t number = 0;
  std::int64_t training = -1;
  std::int64_t validation = -1;
};

/// Returns the record and those trials that are `known` or may have changed
/// since, with their metrics at more batches than `known` says. `more`: some
/// rows were left out, ask again.
nlohmann::json ExperimentChanges(const Store& store,
                                 const ExperimentDetail& detail,
                                 Timestamp since,
                                 const std::vector<KnownTrial>& known,
                                 Bundle& bundle);

}  // namespace dtrain
