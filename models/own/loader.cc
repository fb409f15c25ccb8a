#include "models/own/loader.h"

#include <span>
#include <string_view>

#include <dlfcn.h>

#include <dtrain/abi.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/train/trial.h"

namespace dtrain {
namespace {

[[noreturn]] void Refuse(const std::string& library, const std::string& why) {
  throw Error(ErrorKind::kFailed, library + ": " + why);
}

std::span<const ExportedTrial> Open(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) Refuse(library, ::dlerror());
  const auto function =
      reinterpret_cast<TrialsFunction>(::dlsym(handle, kTrialsSymbol));
  if (function == nullptr) {
    Refuse(library,
           "exports no trial; end model_def.cpp with DTRAIN_TRIALS(MyTrial)");
  }
  const ExportedTrials* exported = function();
  if (exported->abi != std::string_view(DTRAIN_ABI)) {
    Refuse(library,
           "was compiled for another dtrain; compile it with this one");
  }
  return {exported->trials, exported->count};
}

std::vector<std::string> Names(std::span<const ExportedTrial> trials) {
  std::vector<std::string> names;
  for (const ExportedTrial& trial : trials) names.emplace_back(trial.name);
  return names;
}

}  // namespace

std::vector<std::string> TrialsOfLibrary(const std::string& library) {
  return Names(Open(library));
}

MakeTrial MakerFromLibrary(const std::string& library,
                           const std::string& entrypoint) {
  const std::string name = entrypoint.substr(entrypoint.find(':') + 1);
  const std::span<const ExportedTrial> trials = Open(library);
  for (const ExportedTrial& trial : trials) {
    if (trial.name == name) return trial.make;
  }
  Refuse(library, "has no trial '" + name + "'" +
                      DidYouMean(name, Names(trials)) + "; it has " +
                      Join(Names(trials), ", "));
}

}  // namespace dtrain
