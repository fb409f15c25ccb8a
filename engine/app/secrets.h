#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment_config.h"

namespace dtrain {

// Values of `environment.environment_variables` are for the trials only: what
// is recorded has none of them.

/// The words of the command line, the values of overrides of environment
/// variables left out.
std::vector<std::string> RecordedArgv(const std::vector<std::string>& argv);

/// The configuration's text with those values replaced by `REDACTED`; where one
/// cannot be found in it, as when it is written with escapes, the effective
/// configuration as YAML.
std::string RecordedYaml(const std::string& text,
                         const ExperimentConfig& config);

/// Takes the values that were not recorded from this process's environment.
/// Gives the names of those that it does not have.
std::vector<std::string> FillEnvironment(ExperimentConfig& config);

}  // namespace dtrain
