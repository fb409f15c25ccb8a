#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/request.h"

namespace dtrain {

void SetUpKill(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RequestOptions>();
  app.add_option("EXP", options->targets, "Experiments, or trials as EXP.N")
      ->required();
  AddRequestOptions(app, *options);
  app.callback([options, &invocation] {
    invocation.run = [options, &invocation] {
      return Request(RequestKind::kKill, *options, invocation.globals);
    };
  });
}

}  // namespace dtrain
