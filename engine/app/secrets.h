#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment_config.h"

namespace dtrain {

// Only trials receive the values of `environment.environment_variables`. The
// path of `notify.url` may be secret, and is recorded apart.
// Nothing uses the credentials of `environment.registry_auth` and of a remote
// `checkpoint_storage`. None of these are recorded.

/// Returns the command line without those values.
std::vector<std::string> RecordedArgv(const std::vector<std::string>& argv);

/// Returns the configuration's text with those values replaced by `REDACTED`;
/// if one cannot be found in it, e.g. because it is escaped, the effective
/// configuration as YAML.
std::string RecordedYaml(const std::string& text,
                         const ExperimentConfig& config);

/// True if the YAML text has such credentials.
bool HasCredentials(const std::string& text);

/// Fills in the values from this process's environment. Returns the names of
/// variables that it does not have.
std::vector<std::string> FillEnvironment(ExperimentConfig& config);

}  // namespace dtrain
