#include "cli/own_model.h"

#include <algorithm>
#include <iostream>
#include <string>

#include <unistd.h>

#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/set_cache.h"
#include "engine/plugin/model_sources.h"
#include "engine/process/local_launcher.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

std::filesystem::path ModelCache() {
  const std::filesystem::path cache = CacheDirectory(ProcessVariable);
  if (!cache.empty()) return cache / "models";
  throw Error(ErrorKind::kUsage,
              "there is no place to keep the compiled model_def.cpp; set HOME "
              "or XDG_CACHE_HOME");
}

void CheckTrial(const std::string& entrypoint, const ModelLibrary& library,
                const std::filesystem::path& context) {
  const std::string name = entrypoint.substr(entrypoint.find(':') + 1);
  if (std::ranges::find(library.trials, name) != library.trials.end()) return;
  throw Error(ErrorKind::kUsage,
              "entrypoint: " + (context / "model_def.cpp").string() +
                  " has no trial '" + name + "'" +
                  DidYouMean(name, library.trials) +
                  "; its DTRAIN_TRIALS has " + Join(library.trials, ", "));
}

}  // namespace

std::optional<ModelLibrary> CompileOwnModel(
    const ExperimentConfig& config, const std::filesystem::path& context,
    const GlobalOptions& globals) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || !HasOwnModel(*name, context)) return std::nullopt;
  const ModelTools tools{
      .build = ReadModelBuild(InstallPrefix()),
      .trial_host = FindTrialHost(),
      .cache = ModelCache(),
      .jobs = static_cast<std::size_t>(UsableCpus()),
      .color = ModeOf(STDERR_FILENO, globals.color).color,
      .say_progress = [&](const std::string& text) { Say(globals, text); },
      .say_output = [](const std::string& text) { std::cerr << text; }};
  ModelLibrary library = CompileModel(context, tools);
  CheckTrial(*name, library, context);
  return library;
}

}  // namespace dtrain
