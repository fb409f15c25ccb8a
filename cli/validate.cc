#include <iostream>
#include <memory>
#include <utility>

#include "cli/ci_report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/entrypoint_check.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/config/read_config.h"

namespace dtrain {
namespace {

struct ValidateOptions : JsonOption {
  std::string config;
  std::string context;
  std::vector<std::string> overrides;
  bool keys = false;
  bool here = false;
  CiFlags ci;
};

// Checks the YAML only with --keys, otherwise everything that `create` checks.
ConfigResult CheckConfig(const ValidateOptions& options,
                         const GlobalOptions& globals) {
  const std::string text = ReadConfigFile(options.config);
  const auto context = ContextDirectory(options.config, options.context);
  ConfigResult result =
      ParseConfigText(text, options.config, options.overrides, context,
                      options.keys ? Checks::kKeys : Checks::kTrial);
  if (options.keys || !result.config) return result;
  const std::string file = options.config == "-" ? "stdin" : options.config;
  for (Diagnostic& found : CheckAsCreateDoes(
           file, *result.config, context,
           options.here ? Severity::kError : Severity::kWarning, globals)) {
    result.diagnostics.push_back(std::move(found));
  }
  return result;
}

void PrintValidation(const ValidateOptions& options, const ConfigResult& result,
                     const std::string& refusal) {
  if (!options.json) return;
  PrintJson({{"file", options.config},
             {"valid", refusal.empty()},
             {"error", refusal.empty() ? nlohmann::json(nullptr)
                                       : nlohmann::json(refusal)},
             {"diagnostics", DiagnosticsJson(result.diagnostics)},
             {"config", result.config ? result.config->effective
                                      : nlohmann::json(nullptr)}});
}

int Validate(const ValidateOptions& options, const GlobalOptions& globals) {
  CheckCiFlags(options.ci);
  ConfigResult result;
  try {
    result = CheckConfig(options, globals);
  } catch (const Error& error) {
    PrintValidation(options, result, error.what());
    WriteCiRefusal(options.ci, options.config, {}, error);
    throw;
  }
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/false);
  PrintDiagnostics(result.diagnostics, globals);
  AnnotateFindings(options.ci, result.diagnostics);
  PrintValidation(options, result, refusal);
  if (!refusal.empty()) {
    const Error error(ErrorKind::kUsage, options.config + ": " + refusal);
    WriteCiRefusal(options.ci, options.config, result.diagnostics, error);
    throw error;
  }
  WriteCiAcceptance(options.ci, options.config, result.diagnostics);
  if (!options.json) {
    std::cout << EscapeForTerminal(options.config) << ": valid\n";
  }
  return kExitDone;
}

}  // namespace

CommandRun SetUpValidate(CLI::App& app) {
  auto options = std::make_shared<ValidateOptions>();
  AddOption(app, "CONFIG", options->config,
            "Experiment YAML; - reads it from stdin")
      .Required()
      .IsPath();
  const CliOption context = AddOption(
      app, "CONTEXT", options->context,
      "Directory of the experiment's files (default: the directory of CONFIG)");
  context.IsPath();
  AddOption(app, "--set", options->overrides,
            "Override a key of the YAML (repeatable)")
      .TypeName("KEY=VALUE")
      .OneEach();
  const CliOption here =
      AddFlag(app, "--here", options->here,
              "Report what this machine lacks as errors, not as warnings");
  AddFlag(app, "--keys", options->keys,
          "Check only the keys and values of the YAML")
      .Excludes(context)
      .Excludes(here);
  AddJsonOption(app, *options);
  AddCiFlags(app, options->ci);
  SetHelp(app,
          {.exits = {{kExitDone, "the configuration is valid"},
                     {kExitUsage, "the configuration is invalid"},
                     {kExitStore}},
           .examples = {
               {"Check a YAML and its files", "dtrain validate digits.yaml"},
               {"Check a YAML in CI for this machine",
                "dtrain validate digits.yaml --here --junit report.xml"}}});
  return RunWith(Validate, options);
}

}  // namespace dtrain
