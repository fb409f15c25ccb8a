#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

struct ValidateOptions : JsonOption {
  std::string config;
  std::vector<std::string> overrides;
};

int Validate(const ValidateOptions& options, const GlobalOptions& globals) {
  const std::string text = ReadConfigFile(options.config);
  const ConfigResult result = ParseConfigText(
      text, options.config, options.overrides, DirectoryOf(options.config));
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/false);
  PrintDiagnostics(result.diagnostics, globals);
  if (options.json) {
    PrintJson({{"file", options.config},
               {"valid", refusal.empty()},
               {"diagnostics", DiagnosticsJson(result.diagnostics)},
               {"config", result.config ? result.config->effective
                                        : nlohmann::json(nullptr)}});
  }
  if (!refusal.empty()) {
    throw Error(ErrorKind::kUsage, options.config + ": " + refusal);
  }
  if (!options.json) {
    std::cout << EscapeForTerminal(options.config) << ": valid\n";
  }
  return kExitDone;
}

}  // namespace

void SetUpValidate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ValidateOptions>();
  AddOption(app, "CONFIG", options->config, "Experiment YAML, - for stdin")
      .Required();
  AddOption(app, "--set", options->overrides,
            "Value instead of the one in the file")
      .TypeName("KEY=VALUE")
      .OneEach();
  AddJsonOption(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Validate(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
