#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/own_model.h"
#include "cli/plan.h"
#include "cli/provenance.h"
#include "cli/record_experiment.h"
#include "cli/rehearsal.h"
#include "cli/run_experiment.h"
#include "cli/run_options.h"
#include "cli/secrets.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/plugin/model_sources.h"
#include "engine/process/find_program.h"
#include "engine/run/runner.h"
#include "models/table.h"

namespace dtrain {
namespace {

struct CreateOptions {
  std::string config;
  std::string context;
  std::vector<std::string> overrides;
  std::string name;
  std::vector<std::string> labels;
  std::string slots;
  bool dry_run = false;
  bool test = false;
  RunFlags run;
};

std::vector<std::string> Overrides(const CreateOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.name.empty()) {
    overrides.push_back("name=" + QuotedForYaml(options.name));
  }
  if (!options.slots.empty()) {
    overrides.push_back("resources.slots=" + options.slots);
  }
  return overrides;
}

// `--label` adds to the labels of the file.
std::string LabelOverride(const ExperimentConfig& config,
                          const std::vector<std::string>& labels) {
  std::string list;
  for (const auto* part : {&config.labels, &labels}) {
    for (const std::string& label : *part) {
      list += (list.empty() ? "" : ", ") + QuotedForYaml(label);
    }
  }
  return "labels=[" + list + "]";
}

std::filesystem::path ContextDirectory(const CreateOptions& options) {
  if (options.context.empty()) return DirectoryOf(options.config);
  std::error_code ignored;
  if (std::filesystem::is_directory(options.context, ignored)) {
    return options.context;
  }
  throw Error(ErrorKind::kUsage,
              options.context +
                  ": is no directory; CONTEXT is the directory "
                  "of the experiment's files");
}

ConfigResult Parse(const CreateOptions& options, const std::string& text) {
  std::vector<std::string> overrides = Overrides(options);
  const auto context = ContextDirectory(options);
  ConfigResult result =
      ParseConfigText(text, options.config, overrides, context);
  if (!result.config || options.labels.empty()) return result;
  overrides.push_back(LabelOverride(*result.config, options.labels));
  return ParseConfigText(text, options.config, overrides, context);
}

// There must be such a trial in this build, if it is not the user's own.
void CheckEntrypoint(const std::string& file, const ExperimentConfig& config,
                     const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return;
  if (FindModel(*name) != nullptr) return;
  throw Error(ErrorKind::kUsage,
              file + ": entrypoint: this build has no trial '" + *name + "'" +
                  DidYouMean(*name, Entrypoints()) + "; it has " +
                  Join(Entrypoints(), ", ") + " ('dtrain models' says more)");
}

// What can never run on this machine is not made.
void CheckOnThisMachine(const std::string& file, const ExperimentConfig& config,
                        const std::filesystem::path& context) {
  const auto* name = std::get_if<std::string>(&config.entrypoint);
  if (name == nullptr || HasOwnModel(*name, context)) return;
  const ModelEntry* model = FindModel(*name);
  if (model == nullptr || model->check == nullptr) return;
  const auto problem = model->check(config.hyperparameters);
  if (!problem) return;
  throw Error(ErrorKind::kUsage,
              file + ": " + *problem + "; nothing was created");
}

// Where a command will be looked for: as the trials will see it.
std::string PathOfTrials(const ExperimentConfig& config) {
  for (const auto& [name, value] : config.environment) {
    if (name == "PATH") return value;
  }
  const char* path = std::getenv("PATH");
  return path == nullptr ? "" : path;
}

void CheckCommand(const std::string& file, const ExperimentConfig& config,
                  const std::filesystem::path& context) {
  const auto* words = std::get_if<std::vector<std::string>>(&config.entrypoint);
  if (words == nullptr) return;
  try {
    FindProgram(words->front(), context, PathOfTrials(config));
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, file + ": entrypoint: " + error.what() +
                                       "; nothing was created");
  }
}

// The configuration, or an Error with every finding said before it.
ExperimentConfig CheckedConfig(const CreateOptions& options,
                               const std::string& text,
                               const GlobalOptions& globals) {
  ConfigResult result = Parse(options, text);
  PrintDiagnostics(result.diagnostics, globals);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                options.config + ": " + refusal + "; nothing was created");
  }
  CheckEntrypoint(options.config, *result.config, ContextDirectory(options));
  return *std::move(result.config);
}

// A test has no experiment to detach, time or judge.
void CheckTestFlags(const CreateOptions& options) {
  const RunFlags& run = options.run;
  const bool other = options.dry_run || run.detach || run.jsonl ||
                     !run.require.empty() || !run.timeout_text.empty() ||
                     !run.junit.empty();
  if (!options.test || !other) return;
  throw Error(ErrorKind::kUsage,
              "--test keeps no experiment, so it goes with none of --dry-run, "
              "--detach, --jsonl, --require, --timeout and --junit");
}

int CreateAndRun(const CreateOptions& options, const GlobalOptions& globals) {
  CheckTestFlags(options);
  const RunRequest request = CheckRunFlags(options.run);
  const std::string text = ReadConfigFile(options.config);
  ExperimentConfig config = CheckedConfig(options, text, globals);
  const auto directory = ContextDirectory(options);
  const ExperimentParts parts = {
      .context = FindContext(config, directory, options.config, globals),
      .source = FindSource(config, globals)};
  // Before the store: what can never run leaves no trace.
  const SlotPlan slots = PlanExperimentSlots(config);
  if (options.dry_run) {
    PrintPlan(config, slots, parts.context, request.json || request.jsonl);
    return kExitDone;
  }
  const auto own = CompileOwnModel(config, directory, globals);
  CheckOnThisMachine(options.config, config, directory);
  CheckCommand(options.config, config, directory);
  if (options.test) {
    return Rehearse(config, own ? own->file.string() : "", directory,
                    request.json, globals);
  }
  const auto provenance =
      Provenance(RecordedArgv(globals.argv), directory, slots.gpus);
  const Recording record = [&](Store& store) {
    return RecordExperiment(store, config, RecordedYaml(text, config),
                            provenance, parts);
  };
  return RunRecorded(FindStore(globals), record, config, request, globals);
}

}  // namespace

void SetUpCreate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CreateOptions>();
  AddOption(app, "CONFIG", options->config, "Experiment YAML, - for stdin")
      .Required();
  AddOption(app, "CONTEXT", options->context, "Directory of its other files");
  AddOption(app, "--set", options->overrides,
            "Value instead of the one in the file")
      .TypeName("KEY=VALUE")
      .OneEach();
  AddOption(app, "--name", options->name,
            "Name instead of the one in the file");
  AddOption(app, "--label", options->labels, "One more label").OneEach();
  AddOption(app, "--slots", options->slots,
            "auto, none, cpu[:N], most_free, or GPU ids: [0,1]");
  AddFlag(app, "--dry-run", options->dry_run,
          "Say what would run, create nothing");
  AddFlag(app, "--test", options->test,
          "Try a few batches of everything, keep nothing");
  AddRunFlags(app, options->run);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return CreateAndRun(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
