#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "engine/os/unique_fd.h"

namespace dtrain {

struct ContextList;
struct ExperimentConfig;

// Checks of the program and script of a command, as far as they are known
// before a trial runs: of `python3 train.py --lr {lr}`, both; of launchers such
// as torchrun and `python -m`, only the program. Each function returns the
// first problem, or nothing, also for a model. A script that Python runs is
// compiled by its interpreter, which writes no file and has ten seconds.

/// Returns the words of a command up to the first placeholder, without `env`
/// and its assignments; none for a model.
std::vector<std::string> FixedWords(const ExperimentConfig& config);

/// Findings of a check of a command.
struct ScriptFindings {
  // Why it fails on every machine: a program or script that is not in the
  // context, one there that cannot be executed, or a Python script that its
  // interpreter cannot compile or that imports `dtrain` under a Python that is
  // too old for it.
  std::optional<std::string> problem;
  // The Python script imports `determined`, which does not report to dtrain.
  std::optional<std::string> warning;
};

ScriptFindings FindScriptProblem(const ExperimentConfig& config,
                                 const std::filesystem::path& context);

/// Returns why the command fails on this machine: a program that is not in
/// PATH, a missing script outside of `context`, or a missing interpreter.
std::optional<std::string> ScriptProblemHere(
    const ExperimentConfig& config, const std::filesystem::path& context);

/// Returns the placeholder that gives an option `on` if the hyperparameter is
/// true, else `off` or nothing: `{amp:--amp|--no-amp}`.
std::string FlagPlaceholder(const std::string& name, const std::string& on,
                            const std::string& off);

/// Directories that a program names.
enum class NamedDirectories {
  kLeftOut,  // that exist, but not in the copy that trials work in
  kInContext
};

/// Returns the directories, relative to `context`, that the command, the
/// hyperparameters, `data`, the script or a file of settings that these name
/// names, itself or a path in it. Those
/// whose names are usual for outputs, such as `runs` and `checkpoints`, are not
/// among them: trials would overwrite each other's files.
std::vector<std::string> FindNamedDirectories(
    const ExperimentConfig& config, const std::filesystem::path& context,
    NamedDirectories which);

/// Returns a sentence about each path among the arguments and hyperparameters
/// that exists in the directory of `stored`, but is neither in the copy that
/// trials work in nor linked.
std::vector<std::string> FindLeftOutPaths(const ExperimentConfig& config,
                                          const ContextList& stored);

/// Returns such a sentence for each path in `text`, the reason of a failure.
std::vector<std::string> FindLeftOutNames(const std::string& text,
                                          const std::filesystem::path& context);

/// Returns why `stored`, the copy of the context that trials run from, lacks
/// the program or script.
std::optional<std::string> StoredScriptProblem(const ExperimentConfig& config,
                                               const ContextList& stored);

/// Asks the Python that executes a command for its version and the packages
/// that trials find, in a child. One thread.
class PythonQuery {
 public:
  /// Starts the child, unless the entrypoint is a model or its command names no
  /// Python: by its program, the first line of that, or the text of a shell
  /// that starts one Python and does not change where it is found.
  PythonQuery(const ExperimentConfig& config,
              const std::filesystem::path& context);
  ~PythonQuery();
  PythonQuery(const PythonQuery&) = delete;
  PythonQuery& operator=(const PythonQuery&) = delete;

  /// Waits for the answer, and sets `python` of a command's provenance:
  /// {version, implementation, executable, packages: {numpy: "1.26.4"}, cuda}.
  /// `cuda` is what its torch was built for, or null. Null if no child was
  /// started, or it did not answer in ten seconds. Call once.
  void Record(nlohmann::json& provenance);

 private:
  const bool is_command_;
  pid_t pid_ = -1;
  UniqueFd answer_;
};

/// Returns how the Python of trials differs from a recorded one: another
/// version or interpreter, CUDA of torch, or packages, of which it names eight.
/// Null, an unknown one, does not differ.
std::vector<std::string> PythonDifferences(const nlohmann::json& recorded,
                                           const nlohmann::json& now);

}  // namespace dtrain
