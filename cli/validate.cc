#include <iostream>
#include <memory>
#include <utility>

#include "cli/ci_report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/entrypoint_check.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

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

// With --keys the YAML alone, else all that `create` would look at.
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
  AddOption(app, "CONFIG", options->config, "Experiment YAML, - for stdin")
      .Required()
      .IsPath();
  const CliOption context = AddOption(app, "CONTEXT", options->context,
                                      "Directory of its other files");
  context.IsPath();
  AddOption(app, "--set", options->overrides,
            "Value instead of the one in the file")
      .TypeName("KEY=VALUE")
      .OneEach();
  const CliOption here =
      AddFlag(app, "--here", options->here,
              "What this machine lacks is an error, not a warning");
  AddFlag(app, "--keys", options->keys,
          "Check the keys and values of the YAML alone")
      .Excludes(context)
      .Excludes(here);
  AddJsonOption(app, *options);
  AddCiFlags(app, options->ci);
  return RunWith(Validate, options);
}

}  // namespace dtrain
