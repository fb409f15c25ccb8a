#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/config/findings.h"

namespace dtrain {

struct ContextList;
struct ExperimentConfig;
struct GlobalOptions;
struct ModelLibrary;

/// Throws Error(kUsage) that begins with `file` if this build has no such model
/// and it cannot come from the model_def.cpp of `context`. Compiles nothing.
void CheckEntrypoint(const std::string& file, const ExperimentConfig& config,
                     const std::filesystem::path& context);

/// Throws Error(kUsage) if the entrypoint is a command that fails on every
/// machine (FindScriptProblem). Returns warnings about it.
[[nodiscard]] Diagnostics CheckScript(const std::string& file,
                                      const ExperimentConfig& config,
                                      const std::filesystem::path& context);

/// Throws Error(kUsage) if `stored`, the copy that trials run from, does not
/// contain the program or script of a command.
void CheckStoredScript(const std::string& file, const ExperimentConfig& config,
                       const ContextList& stored);

/// Returns why the configuration cannot run on this machine, or nothing:
/// missing data, weights or programs.
std::optional<std::string> ProblemOnThisMachine(
    const ExperimentConfig& config, const std::filesystem::path& context);
/// Throws Error(kUsage) with that problem, which begins with `file`.
void CheckOnThisMachine(const std::string& file, const ExperimentConfig& config,
                        const std::filesystem::path& context,
                        const GlobalOptions& globals);

/// Returns the findings for which `create` would refuse a valid configuration;
/// compiles nothing. Problems on every machine are errors; those of this
/// machine (slots, programs in PATH, data, weights, the compiler, a source
/// checkpoint) have severity `here`.
Diagnostics CheckAsCreateDoes(const std::string& file, ExperimentConfig config,
                              const std::filesystem::path& context,
                              Severity here, const GlobalOptions& globals);

/// Returns `context`, or the directory of the configuration `file` if that is
/// empty. Throws Error(kUsage) if it is not a directory.
std::filesystem::path ContextDirectory(const std::string& file,
                                       const std::string& context);

/// The library of the model_def.cpp in `context`, compiled where the cache does
/// not have it, if trials of `config` come from there. What the compiler says
/// goes to stderr. Throws Error(kUsage) if it does not compile or has no such
/// trial.
std::optional<ModelLibrary> CompileOwnModel(
    const ExperimentConfig& config, const std::filesystem::path& context,
    const GlobalOptions& globals);

/// Why the trial that the entrypoint names cannot come from the model_def.cpp
/// of `context`, as far as the DTRAIN_TRIALS in its text tell. Nothing if it
/// can, or comes from elsewhere. Compiles nothing. Throws as FindModelSources.
std::optional<std::string> OwnTrialProblem(
    const ExperimentConfig& config, const std::filesystem::path& context);

/// Explains that this machine has no compiler for that model_def.cpp; nothing
/// if it has one, or there is no model_def.cpp.
std::optional<std::string> CompilerProblem(
    const ExperimentConfig& config, const std::filesystem::path& context);

}  // namespace dtrain
