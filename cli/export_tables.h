#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"

namespace dtrain {

class Store;

/// Receives the parts of a text.
using WriteText = std::function<void(std::string_view text)>;

/// Write the trials, a column a hyperparameter, and the reported values of the
/// experiments that `words` name, as CSV or, for kJson, one document a line.
/// Return the number of rows. Throw as ResolveExperiments and RequireOneMetric.
std::int64_t WriteTrials(const Store& store,
                         const std::vector<std::string>& words, Format format,
                         const WriteText& write);
std::int64_t WriteMetrics(const Store& store,
                          const std::vector<std::string>& words, Format format,
                          const WriteText& write);

}  // namespace dtrain
