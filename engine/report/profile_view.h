#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/report/terminal.h"
#include "engine/wire/profile_report.h"

namespace dtrain {

// Where a profiled trial's time went, from the sums of its reports. Samples a
// second are those of training: validations and checkpoints apart.

/// {batches, samples, wall_seconds, samples_per_second, phases: {NAME:
/// {seconds, milliseconds_per_batch, share}}, minor_faults,
/// minor_faults_per_batch, peak_memory_bytes, gpu_memory_bytes,
/// gpu_utilization_percent}, or null.
nlohmann::json ProfileJson(const std::optional<ProfileReport>& profile);

/// A row a phase, and one for all of them.
Table ProfileTable(const ProfileReport& profile);

/// What is in no phase, names and values: "samples/s", "1234.5".
std::vector<std::pair<std::string, std::string>> ProfileFacts(
    const ProfileReport& profile);

}  // namespace dtrain
