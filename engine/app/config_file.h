#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/findings.h"

namespace dtrain {

struct ConfigResult;
struct GlobalOptions;
struct ReadOptions;
struct ResourcesConfig;
struct SlotChoice;

/// Returns the text of a configuration file; "-" is stdin. Throws Error(kUsage)
/// if it is missing, a directory, unreadable or larger than 1 MB.
std::string ReadConfigFile(const std::string& path);

/// Extent of the checks of a configuration.
enum class Checks {
  kKeys,   // the YAML alone; an unknown trial gets a warning
  kTrial,  // its trial too: it exists, and reads these hyperparameters
};

/// Reads the text as the configuration file `path` would be, with the trials
/// of this build as the known ones, and those of the model_def.cpp in
/// `context`, if there is one. Findings about an `is_generated` text, which
/// dtrain wrote, have no line.
ConfigResult ParseConfigText(const std::string& text, const std::string& path,
                             const std::vector<std::string>& overrides,
                             const std::filesystem::path& context,
                             Checks checks, bool is_generated = false);

/// Options for reading the configuration of a recorded experiment.
/// Hyperparameters that its trial does not read are warnings, except those that
/// `overrides` set, which stay errors. `context` is the directory that a model
/// of its own would be in.
ReadOptions RecordedOptions(const std::string& where,
                            std::vector<std::string> overrides,
                            const std::filesystem::path& context);

/// Returns the directory of `path`: the default context.
std::filesystem::path ParentDirectory(const std::string& path);

/// Returns `text` as a quoted YAML string.
std::string QuotedForYaml(const std::string& text);
/// Returns the override of `--listen`. An IPv6 address in brackets is quoted,
/// since YAML would read it as a list.
std::string ListenOverride(const std::string& address);

/// Prints every finding as a line on stderr, escaped; no notes if `globals` is
/// quiet. Unless it is verbose, several ignored keys of the file are one line.
void PrintDiagnostics(const Diagnostics& diagnostics,
                      const GlobalOptions& globals);

/// Returns "3 errors" or the like for findings that make `create` refuse:
/// errors and, if `not_yet`, unsupported features. Empty if there are none.
std::string Refusal(const Diagnostics& diagnostics, bool not_yet);

/// Returns the findings in the format of `--json`.
nlohmann::json DiagnosticsJson(const Diagnostics& diagnostics);

/// Returns the value of `--slots` as overrides of a configuration: none if it
/// is empty; `all` means every slot, for one model. Throws Error(kUsage) for a
/// bare number.
std::vector<std::string> SlotOverrides(const std::string& slots);

/// Returns the `resources` of a recorded configuration, changed by the value of
/// `--slots` and by `overrides` (KEY=VALUE). Throws Error(kUsage) if the slots
/// are not valid.
ResourcesConfig ResourcesOn(const nlohmann::json& config,
                            const std::string& slots,
                            std::vector<std::string> overrides = {});

/// Returns the slots of this machine that a value of `--slots` names; `all` is
/// `auto`. Throws Error(kUsage) if it is not valid.
SlotChoice ParseSlotChoice(const std::string& slots);

}  // namespace dtrain
