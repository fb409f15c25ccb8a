#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/request.h"

namespace dtrain {

CommandRun SetUpCancel(CLI::App& app) {
  auto options = std::make_shared<RequestOptions>();
  AddOption(app, "EXP", options->targets, "Experiments").Required();
  AddRequestOptions(app, *options);
  return [options](const GlobalOptions& globals) {
    return Request(RequestKind::kCancel, *options, globals);
  };
}

}  // namespace dtrain
