#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// Compiler and flags for models, as recorded when dtrain was built.
struct ModelBuild {
  std::filesystem::path compiler;
  std::vector<std::string> flags;
  std::vector<std::string> link_flags;
  // A header with its precompiled form beside it, which every model includes
  // first. Empty if it is missing; compiling then takes longer.
  std::filesystem::path precompiled;
  std::string abi;  // identifies the headers, LibTorch and the compiler
};

/// Reads lib/dtrain/model_build.json below `prefix`, the directory of an
/// installation or a build. Throws Error(kFailed) if it is missing.
ModelBuild ReadModelBuild(const std::filesystem::path& prefix);

/// Returns the compiler of `build`, or another one if that is missing.
/// Throws Error(kUsage) if there is none.
std::filesystem::path FindCompiler(const ModelBuild& build);

/// Tools and callbacks for compiling a user's model.
struct ModelTools {
  ModelBuild build;
  std::filesystem::path trial_host;  // program that lists a library's trials
  std::filesystem::path cache;       // of this user: one directory per model
  std::size_t jobs = 1;              // compilers that run at the same time
  bool color = false;                // in the compiler's output
  // Receive lines about the progress, and the compiler's output unchanged.
  std::function<void(const std::string&)> say_progress;
  std::function<void(const std::string&)> say_output;
};

/// A user's compiled model.
struct ModelLibrary {
  std::filesystem::path file;
  std::vector<std::string> trials;  // their names, as DTRAIN_TRIALS has them
};

/// Compiles model_def.cpp of `directory` and the sources beside it, unless the
/// cache has the result for these contents, this compiler and this dtrain; the
/// location of the directory does not matter. Since the library is executed, a
/// cache that others may write to is refused, and a library that has changed is
/// compiled again. Concurrent processes wait while one of them compiles. Throws
/// Error(kUsage) if the model does not compile or link (after passing on the
/// compiler's output), includes files outside of `directory`, or exports no
/// trial.
ModelLibrary CompileModel(const std::filesystem::path& directory,
                          const ModelTools& tools);

/// Returns the files in a compiler's rule for make ("x.o: a.cpp b.h \").
std::vector<std::filesystem::path> ParseDependencies(const std::string& rule);

/// Returns the first file of the rule in `rule_file` that, with links resolved,
/// is not one of `real_paths` and is not `allowed`; empty if there is none.
std::filesystem::path FirstOutside(
    const std::filesystem::path& rule_file,
    const std::set<std::filesystem::path>& real_paths,
    const std::filesystem::path& allowed);

/// A program to run; all of its output goes to the file `output`.
struct ProgramRun {
  std::vector<std::string> argv;
  std::filesystem::path output;
};

/// Result of a program.
struct ProgramResult {
  int exit_code = 0;  // −1: ended by `signal`, or not started
  int signal = 0;
  std::string output;
  std::string not_started;  // the reason; empty if it was started

  bool success() const { return exit_code == 0 && not_started.empty(); }
};

/// Runs the programs without a shell and without input, at most `at_once` at
/// the same time, and waits for all of them. Their output is cut at 1 MiB.
/// Returns the results in the order of `runs`.
std::vector<ProgramResult> RunPrograms(const std::vector<ProgramRun>& runs,
                                       std::size_t at_once);

}  // namespace dtrain
