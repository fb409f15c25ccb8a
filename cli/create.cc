#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/entrypoint_check.h"
#include "cli/exit_code.h"
#include "cli/many_nodes.h"
#include "cli/output.h"
#include "cli/own_model.h"
#include "cli/plan.h"
#include "cli/provenance.h"
#include "cli/record_experiment.h"
#include "cli/rehearsal.h"
#include "cli/run_experiment.h"
#include "cli/run_options.h"
#include "cli/secrets.h"
#include "cli/slot_choice.h"
#include "cli/store_access.h"
#include "engine/base/error.h"
#include "engine/run/runner.h"

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
  bool allow_unread = false;
  RunFlags run;
};

std::vector<std::string> Overrides(const CreateOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.name.empty()) {
    overrides.push_back("name=" + QuotedForYaml(options.name));
  }
  for (std::string& override : SlotOverrides(options.slots)) {
    overrides.push_back(std::move(override));
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

ConfigResult Parse(const CreateOptions& options, const std::string& text) {
  std::vector<std::string> overrides = Overrides(options);
  const auto context = ContextDirectory(options.config, options.context);
  ConfigResult result =
      ParseConfigText(text, options.config, overrides, context, Checks::kTrial);
  if (!result.config || options.labels.empty()) return result;
  overrides.push_back(LabelOverride(*result.config, options.labels));
  return ParseConfigText(text, options.config, overrides, context,
                         Checks::kTrial);
}

// The configuration, or an Error with every finding said before it.
ExperimentConfig CheckedConfig(const CreateOptions& options,
                               const std::string& text, RunRequest& request,
                               const GlobalOptions& globals) {
  ConfigResult result = Parse(options, text);
  PrintDiagnostics(result.diagnostics, globals);
  NoteFindings(request, result.diagnostics);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    throw Error(ErrorKind::kUsage,
                options.config + ": " + refusal + "; nothing was created");
  }
  CheckScript(options.config, *result.config,
              ContextDirectory(options.config, options.context));
  return *std::move(result.config);
}

// A test has no experiment to detach, time or judge.
void CheckTestFlags(const CreateOptions& options) {
  const RunFlags& run = options.run;
  const bool other = options.dry_run || run.detach || run.jsonl ||
                     !run.require.empty() || !run.timeout_text.empty() ||
                     !run.ci.junit.empty();
  if (!options.test || !other) return;
  throw Error(ErrorKind::kUsage,
              "--test keeps no experiment, so it goes with none of --dry-run, "
              "--detach, --jsonl, --require, --timeout and --junit");
}

int CreateAndRun(const CreateOptions& options, RunRequest& request,
                 const GlobalOptions& globals) {
  const std::string text = ReadConfigFile(options.config);
  ExperimentConfig config = CheckedConfig(options, text, request, globals);
  const auto directory = ContextDirectory(options.config, options.context);
  std::optional<NodePlace> place;
  if (!options.dry_run && !options.test) {
    place = FindNodePlace(config, request);
  }
  if (place && place->follows()) {
    CheckOnThisMachine(options.config, config, directory, globals);
    return FollowRunner(*place, config, PlanExperimentSlots(config), globals);
  }
  const ExperimentParts parts = {
      .context = FindContext(config, directory, options.config, globals),
      .source = FindSource(config, globals)};
  if (parts.context) {
    CheckStoredScript(options.config, config, *parts.context);
  }
  // Before the store: what can never run leaves no trace.
  const SlotPlan slots = PlanExperimentSlots(config);
  if (options.dry_run) {
    if (const auto problem = ProblemOnThisMachine(config, directory)) {
      Say(globals, "warning: it could not run here: " + *problem);
    }
    if (const auto problem = FindStorageProblem(config, globals)) {
      Say(globals,
          "warning: it could not run here: " + problem->first.ToString());
    }
    PrintPlan(config, slots, parts.context, request.json || request.jsonl);
    WriteCiAcceptance(request.ci, options.config, request.diagnostics);
    return kExitDone;
  }
  const auto own = CompileOwnModel(config, directory, globals);
  CheckOnThisMachine(options.config, config, directory, globals);
  if (options.test) {
    return Rehearse(config, own ? own->file.string() : "", directory,
                    request.json, globals);
  }
  auto provenance =
      Provenance(RecordedArgv(globals.argv), directory, slots.gpus);
  provenance[kAllowUnread] = options.allow_unread;
  const Recording record = [&](Store& store) {
    const std::int64_t id = RecordExperiment(
        store, config, RecordedYaml(text, config), provenance, parts);
    if (parts.context) {
      SayCopies(store.layout(), config, slots, *parts.context, globals);
    }
    return id;
  };
  return RunOnNodes(place, config, slots, globals, request, [&] {
    const StoreLayout layout = FindStore(globals);
    if (!IsPlainlyChosen(layout, globals)) {
      Say(globals,
          "the experiment goes into the store " + layout.root().string());
    }
    return RunRecorded(layout, record, config, request, globals);
  });
}

int CheckAndCreate(const CreateOptions& options, const GlobalOptions& globals) {
  CheckTestFlags(options);
  RunRequest request = CheckRunFlags(options.run, globals);
  return RunOrReport(request, options.config,
                     [&] { return CreateAndRun(options, request, globals); });
}

}  // namespace

CommandRun SetUpCreate(CLI::App& app) {
  auto options = std::make_shared<CreateOptions>();
  AddOption(app, "CONFIG", options->config, "Experiment YAML, - for stdin")
      .Required()
      .IsPath();
  AddOption(app, "CONTEXT", options->context, "Directory of its other files")
      .IsPath();
  AddOption(app, "--set", options->overrides,
            "Value instead of the one in the file")
      .TypeName("KEY=VALUE")
      .OneEach();
  AddOption(app, "--name", options->name,
            "Name instead of the one in the file");
  AddOption(app, "--label", options->labels, "One more label").OneEach();
  AddOption(app, "--slots", options->slots,
            "auto, all, none, cpu[:N], gpu:N, most_free, or GPUs: [0,1]");
  AddFlag(app, "--dry-run", options->dry_run,
          "Say what would run, create nothing");
  AddFlag(app, "--test", options->test,
          "Try a few batches of everything, keep nothing");
  // The error that it is for names it.
  AddFlag(app, "--allow-unread", options->allow_unread, /*help=*/"");
  AddRunFlags(app, options->run);
  return RunWith(CheckAndCreate, options);
}

}  // namespace dtrain
