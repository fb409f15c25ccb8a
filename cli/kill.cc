#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/request.h"

namespace dtrain {

void SetUpKill(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RequestOptions>();
  AddOption(app, "EXP", options->targets, "Experiments, or trials as EXP.N")
      .Required();
  AddRequestOptions(app, *options);
  OnParsed(app, [options, &invocation] {
    invocation.run = [options, &invocation] {
      return Request(RequestKind::kKill, *options, invocation.globals);
    };
  });
}

}  // namespace dtrain
