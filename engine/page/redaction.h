#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// Removes from an experiment's data (ExperimentData) what says where and by
/// whom it ran: host, user and working directory, paths anywhere in its texts,
/// command lines, environment variables, and the logs of trials. Commit,
/// versions of libraries and the types of CPU and GPU stay.
void Redact(nlohmann::json& experiment);

}  // namespace dtrain
