#pragma once

#include <optional>

#include "engine/report/system_view.h"

namespace dtrain {

class Store;
struct ExperimentDetail;

/// Returns what the use of an experiment is compared with: the cores of a trial
/// on CPU slots, and with several trials the share of its slots' time in which
/// a trial had them, unless workers come and go.
UseContext FindUseContext(const Store& store, const ExperimentDetail& detail);

/// Returns what the use of one trial is compared with: its cores on CPU slots,
/// and its profile, if any.
UseContext TrialUseContext(const ExperimentDetail& detail,
                           std::optional<ProfileReport> profile);

}  // namespace dtrain
