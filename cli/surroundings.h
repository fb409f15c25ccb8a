#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/store/store.h"

namespace dtrain {

/// Whether each of its trials was one process, whatever its slots, as they were
/// in earlier versions.
bool RecordedOneProcess(const ExperimentDetail& experiment);

/// The threads of each process of a recorded experiment; none where they ran on
/// GPUs, or it is not recorded.
std::optional<std::int64_t> RecordedThreads(const ExperimentDetail& experiment);

/// Says on stderr what may make a run of now come to other numbers than the
/// recorded experiment did: versions, CPU, GPUs, threads. `now` is the
/// provenance of the new run.
void SayDifferences(const ExperimentDetail& experiment,
                    const nlohmann::json& now, const GlobalOptions& globals);

}  // namespace dtrain
