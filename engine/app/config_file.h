#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/app/notices.h"
#include "engine/config/experiment_config.h"

namespace dtrain {

/// The text of a configuration file; "-" is stdin. Throws Error(kUsage) for
/// what is missing, a directory, unreadable or larger than 1 MB.
std::string ReadConfigFile(const std::string& path);

/// Extent of the checks of a configuration.
enum class Checks {
  kKeys,   // the YAML alone; an unknown trial gets a warning
  kTrial,  // its trial too: it exists, and reads these hyperparameters
};

/// Reads the text as the configuration file `path` would be, with the trials
/// of this build as the known ones, and those of the model_def.cpp in
/// `context`, if there is one.
ConfigResult ParseConfigText(const std::string& text, const std::string& path,
                             const std::vector<std::string>& overrides,
                             const std::filesystem::path& context,
                             Checks checks);

/// Options for reading the configuration of a recorded experiment.
/// Hyperparameters that its trial does not read are warnings, except those that
/// `overrides` set, which stay errors. `context` is the directory that a model
/// of its own would be in.
ReadOptions RecordedOptions(const std::string& where,
                            std::vector<std::string> overrides,
                            const std::filesystem::path& context);

/// The directory that `path` is in: the context, where no other is named.
std::filesystem::path DirectoryOf(const std::string& path);

/// A string as YAML reads it back, whatever is in it.
std::string QuotedForYaml(const std::string& text);

/// Every finding as a line on stderr, escaped. Notes are left out if `globals`
/// is quiet.
void PrintDiagnostics(const Diagnostics& diagnostics,
                      const GlobalOptions& globals);

/// "3 errors" and so on, of what makes `create` refuse: errors and, if
/// `not_yet`, features that are still to come. Empty if there is nothing.
std::string Refusal(const Diagnostics& diagnostics, bool not_yet);

/// The findings as `--json` shows them.
nlohmann::json DiagnosticsJson(const Diagnostics& diagnostics);

/// What `--slots` asks for, as overrides of a configuration: nothing if it is
/// empty; `all` is every slot, for one model. Throws Error(kUsage) for a bare
/// number.
std::vector<std::string> SlotOverrides(const std::string& slots);

}  // namespace dtrain
