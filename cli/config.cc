#include <iostream>
#include <memory>

#include <unistd.h>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/store_access.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"

namespace dtrain {
namespace {

struct ConfigOptions : JsonOption {
  std::string experiment;
  bool original = false;
};

// To a file as it is, to a terminal so that it obeys nothing in it.
void PrintYaml(const std::string& yaml, const GlobalOptions& globals) {
  if (!ModeOf(STDOUT_FILENO, globals.color).terminal) {
    std::cout << yaml;
    return;
  }
  for (const std::string& line : Split(yaml, '\n')) {
    std::cout << EscapeForTerminal(line) << '\n';
  }
}

int Config(const ConfigOptions& options, const GlobalOptions& globals) {
  const Store store = OpenStore(globals);
  const ExperimentDetail detail =
      FindExperimentDetail(store, ParseExperimentId(options.experiment));
  if (options.json) {
    PrintJson(detail.config);
  } else if (options.original) {
    PrintYaml(detail.yaml, globals);
  } else {
    PrintYaml(ToYaml(detail.config), globals);
  }
  return kExitDone;
}

}  // namespace

void SetUpConfig(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ConfigOptions>();
  AddOption(app, "EXP", options->experiment, "Experiment").Required();
  AddJsonOption(app, *options);
  AddFlag(app, "--original", options->original,
          "The file as it was given, not as it was run");
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Config(*options, invocation.globals);
    };
  });
}

}  // namespace dtrain
