#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/request.h"

namespace dtrain {

CommandRun SetUpPause(CLI::App& app) {
  auto options = std::make_shared<RequestOptions>();
  AddOption(app, "EXP", options->targets, "Experiments").Required();
  AddRequestOptions(app, *options);
  return [options](const GlobalOptions& globals) {
    return Request(RequestKind::kPause, *options, globals);
  };
}

}  // namespace dtrain
