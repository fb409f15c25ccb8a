#pragma once

#include <cstdint>
#include <optional>

#include "engine/report/system_view.h"

namespace dtrain {

class Store;
struct ExperimentDetail;

/// Returns what the use of an experiment, or of one trial of it, is compared
/// with: the cores of a trial on CPU slots; of a trial its profile, of an
/// experiment with several trials the share of its slots' time in which a trial
/// had them, unless workers come and go.
UseContext FindUseContext(const Store& store, const ExperimentDetail& detail,
                          std::optional<std::int64_t> trial = {});

}  // namespace dtrain
