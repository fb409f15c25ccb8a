#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/report/terminal.h"
#include "engine/wire/message.h"

namespace dtrain {

// Time of a profiled trial by phase, from the sums of its reports.

/// {batches, samples, wall_seconds, samples_per_second, phases: {NAME:
/// {seconds, milliseconds_per_batch, share}}, minor_faults,
/// minor_faults_per_batch, peak_memory_bytes, gpu_memory_bytes,
/// gpu_utilization_percent}, or null.
nlohmann::json ProfileJson(const std::optional<ProfileReport>& profile);

/// Returns a row per phase, and one for all of them.
Table ProfileTable(const ProfileReport& profile);

/// Returns names and values of facts outside of the phases: "samples/s",
/// "1234.5".
std::vector<std::pair<std::string, std::string>> ProfileFacts(
    const ProfileReport& profile);

}  // namespace dtrain
