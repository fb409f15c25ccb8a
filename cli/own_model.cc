#include "cli/own_model.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/data/data_directory.h"
#include "engine/plugin/model_sources.h"
#include "engine/process/local_launcher.h"
#include "engine/slots/slots.h"

namespace dtrain {
namespace {

std::filesystem::path ModelCache() {
  const std::filesystem::path cache = CacheDirectory(ProcessVariable);
  if (!cache.empty()) return cache / "models";
  throw Error(ErrorKind::kUsage,
              "no cache directory for the compiled model_def.cpp; set HOME or "
              "XDG_CACHE_HOME");
}

// The trials that the sources name in DTRAIN_TRIALS(…); nothing where they say
// it in no such words.
std::optional<std::vector<std::string>> TrialsInText(
    const ModelSources& sources) {
  constexpr std::string_view kMacro = "DTRAIN_TRIALS";
  std::optional<std::vector<std::string>> trials;
  for (const std::filesystem::path& file : sources.sources) {
    std::ifstream in(sources.directory / file);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    for (std::size_t at = text.find(kMacro); at != text.npos;
         at = text.find(kMacro, at + 1)) {
      const std::size_t open = text.find('(', at);
      const std::size_t close = text.find(')', at);
      if (open == text.npos || close == text.npos || close < open) continue;
      if (!trials) trials.emplace();
      for (std::string name :
           Split(text.substr(open + 1, close - open - 1), ',')) {
        std::erase_if(name, [](unsigned char c) { return std::isspace(c); });
        // A trial in a namespace is known by its last name.
        trials->push_back(name.substr(name.rfind(':') + 1));
      }
    }
  }
  return trials;
}

std::optional<std::string> TrialProblem(const std::string& entrypoint,
                                        const std::vector<std::string>& trials,
                                        const std::filesystem::path& context) {
  const std::string name = entrypoint.substr(entrypoint.find(':') + 1);
  if (std::ranges::find(trials, name) != trials.end()) return std::nullopt;
  return (context / "model_def.cpp").string() + " has no trial '" + name + "'" +
         DidYouMean(name, trials) + "; its DTRAIN_TRIALS lists " +
         Join(trials, ", ");
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
  if (const auto problem = TrialProblem(*name, library.trials, context)) {
    throw Error(ErrorKind::kUsage, "entrypoint: " + *problem);
  }
  return library;
}

std::optional<std::string> OwnTrialProblem(
    const ExperimentConfig& config, const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || !HasOwnModel(*name, context)) return std::nullopt;
  const auto trials = TrialsInText(FindModelSources(context));
  if (!trials) {
    return (context / "model_def.cpp").string() +
           " exports no trial; end it with DTRAIN_TRIALS(" +
           name->substr(name->find(':') + 1) + ")";
  }
  return TrialProblem(*name, *trials, context);
}

std::optional<std::string> CompilerProblem(
    const ExperimentConfig& config, const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || !HasOwnModel(*name, context)) return std::nullopt;
  try {
    FindCompiler(ReadModelBuild(InstallPrefix()));
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace dtrain
