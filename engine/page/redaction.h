#pragma once

#include <nlohmann/json.hpp>

namespace dtrain {

/// Removes from an experiment's data (ExperimentData) what says where and by
/// whom it ran: host, user and working directory, paths anywhere in its texts,
/// command lines, environment variables, the logs of trials and the lines of
/// them in reasons of failures. Commit, versions of libraries and the types of
/// CPU and GPU stay.
void Redact(nlohmann::json& experiment);

}  // namespace dtrain
