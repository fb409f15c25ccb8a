// Checks of an entrypoint before anything is created.
//
// There are two kinds of problems. Some exist on every machine: an unknown
// model, a script that is not in the context. Others concern only this one: a
// program that is not in PATH, missing data or weights, no compiler. `create`
// refuses both; `validate` reports the second kind as warnings, because the
// experiment may run elsewhere. Trials run from a copy of the context, so a
// command's script must also be in the copy: it must not be excluded by
// .gitignore or .detignore (script_check.cc).

#include "engine/app/entrypoint_check.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <unistd.h>

#include "engine/app/checkpoints.h"
#include "engine/app/config_file.h"
#include "engine/app/notices.h"
#include "engine/app/record_experiment.h"
#include "engine/app/script_check.h"
#include "engine/app/slurm_workers.h"
#include "engine/app/warm_start.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/data/data_directory.h"
#include "engine/os/files.h"
#include "engine/os/installation.h"
#include "engine/os/process.h"
#include "engine/plugin/model_library.h"
#include "engine/plugin/model_sources.h"
#include "engine/run/runner.h"
#include "engine/slots/slots.h"
#include "models/table.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// Returns a reader of the environment that trials get.
ReadVariable VariablesOfTrials(const ExperimentConfig& config) {
  return [&config](const char* variable) -> std::optional<std::string> {
    for (const auto& [name, value] : config.environment.All()) {
      if (name == variable) return value;
    }
    return ProcessVariable(variable);
  };
}

[[noreturn]] void Refuse(const std::string& file, const std::string& key,
                         const std::string& problem) {
  throw Error(ErrorKind::kUsage, file + ": " + (key.empty() ? "" : key + ": ") +
                                     problem + "; nothing was created");
}

std::optional<std::string> ModelProblem(const ExperimentConfig& config,
                                        const fs::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return std::nullopt;
  const ModelEntry* model = FindModel(*name);
  if (model == nullptr || model->check == nullptr) return std::nullopt;
  return model->check(config.hyperparameters, VariablesOfTrials(config));
}

// Returns the message of the Error that `check` throws, or nothing.
std::optional<std::string> Caught(const std::function<void()>& check) {
  try {
    check();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void CheckEntrypoint(const std::string& file, const ExperimentConfig& config,
                     const fs::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return;
  if (FindModel(*name) != nullptr) return;
  throw Error(ErrorKind::kUsage,
              file + ": entrypoint: unknown model '" + *name + "'" +
                  DidYouMean(*name, Entrypoints()) + "; this build has " +
                  Join(Entrypoints(), ", ") + " (see 'dtrain models')");
}

Diagnostics CheckScript(const std::string& file, const ExperimentConfig& config,
                        const fs::path& context) {
  const ScriptFindings script = FindScriptProblem(config, context);
  if (script.problem) Refuse(file, "entrypoint", *script.problem);
  if (!script.warning) return {};
  return {{.severity = Severity::kWarning,
           .file = file,
           .key = "entrypoint",
           .message = *script.warning}};
}

std::optional<std::string> ProblemOnThisMachine(const ExperimentConfig& config,
                                                const fs::path& context) {
  if (auto problem = ModelProblem(config, context)) return problem;
  const auto problem = ScriptProblemHere(config, context);
  return problem ? std::optional("entrypoint: " + *problem) : std::nullopt;
}

void CheckStoredScript(const std::string& file, const ExperimentConfig& config,
                       const ContextList& stored) {
  const auto problem = StoredScriptProblem(config, stored);
  if (problem) Refuse(file, "entrypoint", *problem);
}

void CheckOnThisMachine(const std::string& file, const ExperimentConfig& config,
                        const fs::path& context, const GlobalOptions& globals) {
  RequireStorage(config, globals);
  if (const auto problem = ProblemOnThisMachine(config, context)) {
    Refuse(file, "", *problem);
  }
}

Diagnostics CheckAsCreateDoes(const std::string& file, ExperimentConfig config,
                              const fs::path& context, Severity here,
                              const GlobalOptions& globals) {
  Diagnostics found;
  const auto add = [&](Severity severity, const std::string& key,
                       const std::optional<std::string>& problem) {
    if (!problem) return;
    found.push_back(
        {.severity = severity, .file = file, .key = key, .message = *problem});
  };
  const Severity error = Severity::kError;
  const ScriptFindings script = FindScriptProblem(config, context);
  add(error, "entrypoint", script.problem);
  std::optional<ContextList> stored;
  add(error, "",
      Caught([&] { stored = FindContext(config, context, file, globals); }));
  if (found.empty() && stored) {
    add(error, "entrypoint", StoredScriptProblem(config, *stored));
  }
  if (found.empty()) {
    add(error, "entrypoint", OwnTrialProblem(config, context));
  }
  if (found.empty()) {
    add(here, "entrypoint", ScriptProblemHere(config, context));
  }
  add(Severity::kWarning, "entrypoint", script.warning);
  add(here, "", ModelProblem(config, context));
  add(here, "entrypoint", CompilerProblem(config, context));
  add(here, "", Caught([&] { PlanExperimentSlots(config); }));
  add(here, "", Caught([&] { RequireSlotsOfNodes(config); }));
  add(here, "", Caught([&] { FindSource(config, globals); }));
  if (auto storage = FindStorageProblem(config, globals)) {
    storage->first.severity = here;
    found.push_back(std::move(storage->first));
  }
  if (auto points = FindWarmStartProblem(config, globals)) {
    points->severity = here;
    found.push_back(*std::move(points));
  }
  return found;
}

fs::path ContextDirectory(const std::string& file, const std::string& context) {
  if (context.empty()) return ParentDirectory(file);
  std::error_code ignored;
  if (fs::is_directory(context, ignored)) {
    return context;
  }
  throw Error(ErrorKind::kUsage, context +
                                     ": is not a directory; CONTEXT is the "
                                     "directory of the experiment's files");
}

namespace {

std::filesystem::path ModelCache() {
  const std::filesystem::path cache = CacheDirectory(ProcessVariable);
  if (!cache.empty()) return cache / "models";
  throw Error(ErrorKind::kUsage,
              "no cache directory for the compiled model_def.cpp; set HOME or "
              "XDG_CACHE_HOME");
}

// Returns the trials that the sources list in DTRAIN_TRIALS(...); nothing if
// there is no such list.
std::optional<std::vector<std::string>> TrialsInText(
    const ModelSources& sources) {
  constexpr std::string_view kMacro = "DTRAIN_TRIALS";
  std::optional<std::vector<std::string>> trials;
  for (const std::filesystem::path& file : sources.sources) {
    const std::string text = ReadFile(sources.directory / file).value_or("");
    for (std::size_t at = text.find(kMacro); at != text.npos;
         at = text.find(kMacro, at + 1)) {
      const std::size_t open = text.find('(', at);
      const std::size_t close = text.find(')', at);
      if (open == text.npos || close == text.npos || close < open) continue;
      if (!trials) trials.emplace();
      for (std::string name :
           Split(text.substr(open + 1, close - open - 1), ',')) {
        std::erase_if(name, [](unsigned char c) { return std::isspace(c); });
        // A trial in a namespace is known by its unqualified name.
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
  return (context / "model_def.cpp").string() + " has no model '" + name + "'" +
         DidYouMean(name, trials) + "; its DTRAIN_TRIALS lists " +
         Join(trials, ", ");
}

}  // namespace

std::optional<ModelLibrary> CompileOwnModel(
    const ExperimentConfig& config, const std::filesystem::path& context,
    const GlobalOptions& globals) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr) return std::nullopt;
  (void)FindLibTorch(InstallPrefix());  // throws if it is missing
  if (!HasOwnModel(*name, context)) return std::nullopt;
  const ModelTools tools{
      .build = ReadModelBuild(InstallPrefix()),
      .trial_host = FindTrialHost(),
      .cache = ModelCache(),
      .jobs = static_cast<std::size_t>(UsableCpus()),
      .color = GetTerminalMode(STDERR_FILENO, globals.color).color,
      .say_progress =
          [&](const std::string& text) { PrintNotice(globals, text); },
      .say_output =
          [&](const std::string& text) { WriteNotice(globals, text); }};
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
           " exports no model; end it with DTRAIN_TRIALS(" +
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
