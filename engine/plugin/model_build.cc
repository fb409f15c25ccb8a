#include "engine/plugin/model_build.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool IsProgram(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) &&
         ::access(file.c_str(), X_OK) == 0;
}

std::optional<fs::path> InPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream places(path == nullptr ? "" : path);
  std::string place;
  while (std::getline(places, place, ':')) {
    if (!place.empty() && IsProgram(fs::path(place) / program)) {
      return fs::path(place) / program;
    }
  }
  return std::nullopt;
}

// What is written relative to the prefix, so that an installation may be moved.
fs::path Below(const fs::path& prefix, const std::string& path) {
  return path.empty() ? fs::path() : prefix / path;
}

std::string Text(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

ModelBuild FromJson(const json& object, const fs::path& prefix) {
  ModelBuild build{.compiler = object.at("compiler").get<std::string>(),
                   .flags = object.at("flags"),
                   .link_flags = object.at("link_flags"),
                   .abi = Text(prefix / "include" / "dtrain" / "abi.h")};
  for (const std::string path : object.at("include")) {
    build.flags.push_back("-isystem");
    build.flags.push_back(Below(prefix, path).string());
  }
  for (const std::string path : object.at("libraries")) {
    build.link_flags.push_back(Below(prefix, path).string());
  }
  build.precompiled = Below(prefix, object.at("precompiled"));
  std::error_code ignored;
  if (!fs::exists(build.precompiled.string() + ".gch", ignored)) {
    build.precompiled.clear();
  }
  return build;
}

}  // namespace

ModelBuild ReadModelBuild(const fs::path& prefix) {
  const fs::path file = prefix / "lib" / "dtrain" / "model_build.json";
  std::ifstream in(file);
  try {
    if (in) return FromJson(json::parse(in), prefix);
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kFailed, file.string() +
                                        ": is damaged: " + error.what() +
                                        "; build or install dtrain again");
  }
  throw Error(ErrorKind::kFailed,
              file.string() +
                  ": what compiles models is missing; build or install dtrain "
                  "with LibTorch");
}

fs::path InstallPrefix() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored)
      .parent_path()
      .parent_path();
}

fs::path FindCompiler(const ModelBuild& build) {
  if (IsProgram(build.compiler)) return build.compiler;
  for (const char* name : {"c++", "g++"}) {
    if (const auto found = InPath(name)) return *found;
  }
  throw Error(ErrorKind::kUsage,
              "there is no C++ compiler to compile model_def.cpp with: " +
                  build.compiler.string() +
                  ", which dtrain was built with, is not there, nor c++ or g++ "
                  "in PATH; install one (Debian: apt-get install g++)");
}

}  // namespace dtrain
