#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment_config.h"

namespace dtrain {

// Values of `environment.environment_variables` are for the trials only: what
// is recorded has none of them.

/// Returns the command line without the values of environment variables.
std::vector<std::string> RecordedArgv(const std::vector<std::string>& argv);

/// Returns the configuration's text with those values replaced by `REDACTED`;
/// if one cannot be found in it, e.g. because it is escaped, the effective
/// configuration as YAML.
std::string RecordedYaml(const std::string& text,
                         const ExperimentConfig& config);

/// Fills in the values from this process's environment. Returns the names of
/// variables that it does not have.
std::vector<std::string> FillEnvironment(ExperimentConfig& config);

}  // namespace dtrain
