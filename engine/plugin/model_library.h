#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/plugin/model_build.h"

namespace dtrain {

/// What a user's model is compiled and looked into with.
struct ModelTools {
  ModelBuild build;
  std::filesystem::path trial_host;  // says what is in a library
  std::filesystem::path cache;       // this user's own: a directory a model
  std::size_t jobs = 1;              // compilers at the same time
  bool color = false;                // in what the compiler says
  // What is being done, a line, and what the compiler says, as it says it.
  std::function<void(const std::string&)> say_progress;
  std::function<void(const std::string&)> say_output;
};

/// A user's model, compiled.
struct ModelLibrary {
  std::filesystem::path file;
  std::vector<std::string> trials;  // their names, as DTRAIN_TRIALS has them
};

/// Compiles model_def.cpp of `directory`, and what stands beside it, unless the
/// cache has that already: the same for the same contents, compiler and dtrain,
/// wherever the directory is. A cache that others may write to is refused, and
/// a library that is not as it was made is compiled anew: it is executed.
/// Processes may do this at once: one of them compiles. Throws Error(kUsage)
/// for what does not compile or link (the compiler's words were said), includes
/// what is outside of `directory`, or exports no trial.
ModelLibrary CompileModel(const std::filesystem::path& directory,
                          const ModelTools& tools);

/// The files that a compiler's rule for make ("x.o: a.cpp b.h \") depends on.
std::vector<std::filesystem::path> ParseDependencies(const std::string& rule);

/// The first file of the rule in `rule_file` that is not one of `real_paths`,
/// links resolved, and is not `allowed`; empty if there is none.
std::filesystem::path FirstOutside(
    const std::filesystem::path& rule_file,
    const std::set<std::filesystem::path>& real_paths,
    const std::filesystem::path& allowed);

/// A program to run; all that it prints goes to `output`.
struct ProgramRun {
  std::vector<std::string> argv;
  std::filesystem::path output;
};

/// How a program ended.
struct ProgramEnd {
  int exit_code = 0;  // −1: by `signal`, or it could not be started
  int signal = 0;
  std::string output;
  std::string not_started;  // why, or empty

  bool success() const { return exit_code == 0 && not_started.empty(); }
};

/// Runs the programs, without a shell and with no input, at most `at_once` at
/// the same time, and waits for all of them; what they print is cut at 1 MB.
/// The ends come in the order of `runs`.
std::vector<ProgramEnd> RunPrograms(const std::vector<ProgramRun>& runs,
                                    std::size_t at_once);

}  // namespace dtrain
