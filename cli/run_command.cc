// `dtrain run`: an experiment without a YAML file. It writes the YAML and
// creates the experiment from it, as `create` does.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/create.h"
#include "cli/output.h"
#include "engine/app/script_check.h"
#include "engine/app/script_text.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/schema.h"
#include "engine/convert/inline_experiment.h"

namespace dtrain {
namespace {

struct InlineOptions {
  InlineExperiment experiment;
  std::vector<std::string> command;  // for the help; see WordsAfterDashes
  bool print_yaml = false;
  bool unchecked = false;
  CreateOptions create;
};

// Returns the program's command line as it was typed: CLI11 would take apart
// words such as [1,2].
std::vector<std::string> WordsAfterDashes(
    const std::vector<std::string>& argv) {
  const auto dashes = std::ranges::find(argv, "--");
  if (dashes == argv.end()) {
    throw Error(
        ErrorKind::kUsage,
        "run: the program and its arguments follow '--': dtrain run "
        "--hp 'lr=log(1e-5,1e-1)' --metric loss ... -- python train.py --lr "
        "{lr}");
  }
  return {dashes + 1, argv.end()};
}

// Rejects options that need an experiment.
void CheckPrintFlags(const InlineOptions& options) {
  const RunFlags& run = options.create.run;
  const bool other = options.create.dry_run || options.create.test ||
                     options.create.paused || run.detach || run.follow ||
                     run.json || run.jsonl || !run.demands.empty() ||
                     !run.timeout_text.empty() || !run.disk_wait.empty() ||
                     run.ci.has_file();
  if (!options.print_yaml || !other) return;
  throw Error(ErrorKind::kUsage,
              "--print-yaml runs nothing, so it cannot be combined with "
              "--dry-run, --test, --paused or the options of a run");
}

constexpr std::string_view kUnchecked =
    "; if it does so in a way that is not seen in its text, add --unchecked";

// A hyperparameter that the program does not receive would be searched without
// effect: all trials would be equal but for their seeds.
void CheckHyperparameters(const InlineYaml& yaml, const ScriptText& script) {
  for (const std::string& name : yaml.unplaced) {
    if (script.MayRead(name)) continue;
    // The option as the script has it: --use-bn for use_bn.
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    if (!script.flags.contains(option)) option = "--" + name;
    const auto flag = script.flags.find(option);
    const std::string argument =
        flag != script.flags.end()
            ? "'" + FlagPlaceholder(name, option, flag->second) + "'"
            : option + " {" + name + "}";
    throw Error(ErrorKind::kUsage,
                "hyperparameter '" + name + "': " + script.name +
                    " does not receive it; add {" + name +
                    "} to the command, such as " + argument +
                    ", or read it in the script by 'import dtrain' or "
                    "DTRAIN_HPARAM_" +
                    name + " (docs/protocol.md)" + std::string(kUnchecked));
  }
}

// A program that reports nothing would fail at the end of each trial.
void CheckReports(const std::string& metric, const InlineYaml& yaml,
                  const ScriptText& script) {
  if (yaml.finds_metrics || !script.is_python || script.imports_dtrain ||
      script.reports)
    return;
  throw Error(ErrorKind::kUsage,
              script.name + ": does not report '" + metric +
                  "': it neither imports dtrain (docs/python.md) nor writes "
                  "reports (docs/protocol.md); add --pattern '" +
                  metric +
                  "=REGEX' if it prints the metric, --metrics-file "
                  "FILE if it writes it, or import dtrain and call "
                  "dtrain.init().validate(" +
                  metric + "=...)" + std::string(kUnchecked));
}

// Says what successive halving does to a program that cannot continue.
void ExplainHalving(const InlineExperiment& experiment, const InlineYaml& yaml,
                    const ScriptText& script, const GlobalOptions& globals) {
  if (yaml.restarts_on_promotion) {
    PrintNotice(
        globals,
        "a trial that is promoted is run again from its beginning, to the "
        "larger {length}, unless " +
            script.name +
            " resumes from {checkpoint}; --set searcher.stop_once=true stops "
            "trials at rungs instead");
  }
  if (!yaml.stops_at_rungs || experiment.resumable ||
      experiment.script_continues) {
    return;
  }
  PrintNotice(
      globals,
      "trials are stopped at rungs and not promoted (searcher.stop_once), "
      "because " +
          script.name +
          " does not continue: it neither imports dtrain nor gets {length} or "
          "{checkpoint}; if it resumes from its checkpoints, add --resumable");
}

int RunInline(const InlineOptions& options, const GlobalOptions& globals) {
  CheckPrintFlags(options);
  CheckCreateFlags(options.create);
  InlineExperiment experiment = options.experiment;
  experiment.command = WordsAfterDashes(globals.argv);
  if (experiment.command.empty() || experiment.command.front().empty()) {
    throw Error(ErrorKind::kUsage, "run: the program after '--' is empty");
  }
  experiment.overrides = CollectOverrides(options.create);
  experiment.labels = options.create.labels;
  const ScriptText script = ReadScriptText(experiment.command, ".");
  experiment.script_continues = script.Continues();
  const InlineYaml yaml = WriteInlineYaml(experiment);
  RunRequest request = CheckRunFlags(options.create.run, globals);
  CreateOptions create = options.create;
  create.labels.clear();  // in the YAML
  create.allow_unread = options.unchecked;
  return RunOrReport(request, create.config, [&] {
    if (!options.unchecked) {
      CheckHyperparameters(yaml, script);
      CheckReports(experiment.metric, yaml, script);
    }
    if (options.print_yaml) {
      CheckedConfig(create, yaml.text, request, globals);
      PrintYaml(yaml.printed);
      return kExitDone;
    }
    ExplainHalving(experiment, yaml, script, globals);
    return CreateAndRun(create, yaml.text, request, globals);
  });
}

// Returns the names of the search methods, with their other names.
std::vector<std::string> Searchers() {
  std::vector<std::string> names;
  for (const std::string& word : AllowedWords(*FindKey("searcher.name"))) {
    names.push_back(word.substr(0, word.find('=')));
  }
  return names;
}

void AddSearchOptions(CLI::App& app, InlineExperiment& experiment) {
  AddOption(app, "--hp", experiment.hyperparameters,
            "Add a hyperparameter (repeatable): lr=log(1e-5,1e-1), "
            "opt=[adam,sgd], layers=int(2,8), drop=double(0,1), batch=32")
      .TypeName("NAME=SPEC")
      .OneEach();
  AddOption(app, "--constraint", experiment.constraints,
            "Try only hyperparameters for which EXPR is true (repeatable): "
            "'width * layers <= 4096'")
      .TypeName("EXPR")
      .OneEach();
  AddOption(
      app, "--searcher", experiment.searcher,
      "searcher.name of the YAML (default: random with a range, else single)")
      .TypeName("NAME")
      .OneOf(Searchers());
  AddOption(app, "--max-trials", experiment.max_trials,
            "Number of trials; random and successive halving require it")
      .TypeName("N")
      .AtLeast(1);
  AddOption(app, "--repeats", experiment.repeats,
            "Train each point N times, with different seeds")
      .TypeName("N")
      .AtLeast(1);
  AddOption(app, "--metric", experiment.metric,
            "Validation metric that decides which trial is best")
      .TypeName("NAME")
      .Required();
  AddFlag(app, "--maximize", experiment.maximize,
          "Larger values of the metric are better (default: smaller ones)");
  AddOption(app, "--max-length", experiment.max_length,
            "Maximum length of a trial: epochs=27, batches=N or records=N; "
            "successive halving requires it")
      .TypeName("UNIT=N");
  const CliOption pattern =
      AddOption(app, "--pattern", experiment.patterns,
                "Find a metric, or the step, in what the program prints "
                "(repeatable): 'val_acc=val_acc[:= ]+(\\S+)'")
          .TypeName("NAME=REGEX")
          .OneEach();
  AddOption(app, "--metrics-file", experiment.metrics_file,
            "Read metrics from a file that the program writes, such as "
            "results.jsonl or results.csv")
      .TypeName("FILE")
      .IsPath()
      .Excludes(pattern);
  AddFlag(app, "--resumable", experiment.resumable,
          "The program resumes from its checkpoints: ASHA promotes trials "
          "instead of stopping them");
}

}  // namespace

CommandRun SetUpRun(CLI::App& app) {
  auto options = std::make_shared<InlineOptions>();
  options->create.config = "dtrain run";
  options->create.is_inline = true;
  AddOption(app, "COMMAND", options->command,
            "After --: the program that is the trial, and its arguments; {lr} "
            "is replaced by the value of lr")
      .Required();
  AddSearchOptions(app, options->experiment);
  AddFlag(app, "--unchecked", options->unchecked,
          "Do not check that the script gets each hyperparameter, reads it and "
          "reports");
  AddFlag(app, "--print-yaml", options->print_yaml,
          "Print the YAML of the experiment for 'create'; run nothing");
  AddCreateOptions(app, options->create);
  AddRunFlags(app, options->create.run);
  SetHelp(app,
          {.exits = RunExits(),
           .examples = {
               {"Search a learning rate, the argument of ./train",
                "dtrain run --hp 'lr=log(1e-4,1)' --max-trials 8 --metric loss "
                "-- ./train {lr}"},
               {"Print the YAML of an experiment",
                "dtrain run --hp lr=0.1 --metric loss --print-yaml -- "
                "./train.sh"}}});
  return RunWith(RunInline, options);
}

}  // namespace dtrain
