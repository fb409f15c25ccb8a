#pragma once

#include <filesystem>
#include <functional>
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

}  // namespace dtrain
