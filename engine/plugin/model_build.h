#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// How a model is compiled for this dtrain, as its own build wrote it down.
struct ModelBuild {
  std::filesystem::path compiler;
  std::vector<std::string> flags;
  std::vector<std::string> link_flags;
  // A header that stands compiled beside itself and is included first; empty
  // where it is not there, and then a model takes longer to compile.
  std::filesystem::path precompiled;
  std::string abi;  // differs where headers, Torch or compiler do
};

/// Reads lib/dtrain/model_build.json below `prefix`, where dtrain is installed
/// or was built. Throws Error(kFailed) if it is not there.
ModelBuild ReadModelBuild(const std::filesystem::path& prefix);

/// That of the running program.
std::filesystem::path InstallPrefix();

/// The compiler of `build`, or where that is gone another one of this machine.
/// Throws Error(kUsage) if there is none.
std::filesystem::path FindCompiler(const ModelBuild& build);

}  // namespace dtrain
