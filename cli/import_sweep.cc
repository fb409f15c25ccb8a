#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/script_text.h"
#include "engine/base/error.h"
#include "engine/config/read_config.h"
#include "engine/convert/sweep_import.h"

namespace dtrain {
namespace {

struct ImportSweepOptions {
  std::string file;
  std::string out;
  SweepOptions sweep;
};

// Warns of a program that `create` will not find, since it looks for it in
// `directory`, and of a script that reports to W&B alone: all trials would
// fail.
void WarnOfScript(const ExperimentConfig& config, const std::string& program,
                  const std::filesystem::path& directory,
                  const ImportSweepOptions& options,
                  const GlobalOptions& globals) {
  std::error_code ignored;
  if (!program.empty() &&
      !std::filesystem::exists(directory / program, ignored)) {
    const std::string yaml = options.out.empty() ? "YAML" : options.out;
    const bool is_here = std::filesystem::exists(program, ignored);
    PrintNotice(
        globals,
        "warning: no " + program + " in " +
            (directory.empty() ? "." : directory.string()) +
            ", where 'create' looks for it" +
            (is_here ? "; W&B runs it in the working directory: 'dtrain "
                       "create " +
                           yaml + " .' does so, too"
                     : "; give its directory as CONTEXT: 'dtrain create " +
                           yaml + " DIRECTORY'"));
    if (!is_here) return;
  }
  const auto& words = std::get<std::vector<std::string>>(config.entrypoint);
  // The script may be beside the sweep or in the working directory.
  const bool is_there =
      program.empty() || std::filesystem::exists(directory / program, ignored);
  const ScriptText script =
      ReadScriptText(words, is_there ? directory : std::filesystem::path("."));
  if (script.imports_dtrain || script.reports) return;
  PrintNotice(
      globals,
      "warning: " + script.name + " must report '" + config.searcher.metric +
          "' to dtrain, which does not read wandb.log() and wandb.config: "
          "import dtrain in the script (docs/python.md)");
}

int ImportSweepFile(const ImportSweepOptions& options,
                    const GlobalOptions& globals) {
  SweepOptions sweep_options = options.sweep;
  sweep_options.file_name = options.file == "-" ? "stdin" : options.file;
  const ImportedSweep sweep =
      ImportSweep(ReadConfigFile(options.file), sweep_options);
  PrintDiagnostics(sweep.findings, globals);
  const std::string refusal = Refusal(sweep.findings, /*not_yet=*/true);
  if (!refusal.empty()) {
    throw Error(ErrorKind::kUsage, sweep_options.file_name + ": " + refusal +
                                       "; nothing was converted");
  }
  const auto directory =
      ParentDirectory(options.out.empty() ? options.file : options.out);
  ConfigResult result =
      ParseConfigText(sweep.yaml, sweep_options.file_name, {}, directory,
                      Checks::kKeys, /*is_generated=*/true);
  std::ranges::for_each(result.diagnostics,
                        [&](Diagnostic& finding) { sweep.Locate(finding); });
  std::ranges::stable_sort(result.diagnostics, {}, &Diagnostic::line);
  PrintDiagnostics(result.diagnostics, globals);
  if (!result.config) {
    throw Error(ErrorKind::kUsage,
                sweep_options.file_name + ": cannot be converted");
  }
  WarnOfScript(*result.config, sweep.program, directory, options, globals);
  if (options.out.empty()) {
    PrintYaml(sweep.yaml);
  } else {
    NewFile file(options.out, /*replace=*/false);
    file.Write(std::as_bytes(std::span(sweep.yaml)));
    file.Keep();
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpImportSweep(CLI::App& app) {
  auto options = std::make_shared<ImportSweepOptions>();
  AddOption(app, "FILE", options->file,
            "Configuration of a sweep of W&B, in YAML; - reads it from stdin")
      .Required()
      .IsPath();
  AddOption(app, "--out", options->out,
            "Write this file, which must not exist (default: stdout)")
      .TypeName("YAML")
      .IsPath();
  AddOption(app, "--max-trials", options->sweep.max_trials,
            "Number of trials (default: run_cap of the sweep, or 100)")
      .TypeName("N")
      .AtLeast(1);
  AddOption(app, "--max-length", options->sweep.max_length,
            "Maximum length of a trial: epochs=27, batches=N or records=N")
      .TypeName("UNIT=N");
  const CliOption metric =
      AddOption(app, "--metric", options->sweep.metric,
                "Metric that decides which trial is best, for a sweep without "
                "one")
          .TypeName("NAME");
  AddFlag(app, "--maximize", options->sweep.maximize,
          "Larger values of --metric are better")
      .Needs(metric);
  SetHelp(app,
          {.notes = "Prints a YAML for 'create' with the same search, and on "
                    "stderr what was not kept.",
           .exits = {{kExitDone, "the YAML was printed or written"},
                     {kExitUsage,
                      "the sweep cannot be converted, or the file "
                      "exists"}},
           .examples = {{"Convert a sweep",
                         "dtrain import-sweep sweep.yaml --out "
                         "train.yaml"},
                        {"Convert a random search without run_cap",
                         "dtrain import-sweep sweep.yaml --max-trials 50"}}});
  return RunWith(ImportSweepFile, options);
}

}  // namespace dtrain
