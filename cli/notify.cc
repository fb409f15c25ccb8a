#include <iostream>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/config_file.h"
#include "engine/app/notices.h"
#include "engine/app/notifications.h"
#include "engine/base/error.h"
#include "engine/base/rounding.h"
#include "engine/base/text.h"
#include "engine/config/experiment_config.h"
#include "engine/config/read_config.h"
#include "engine/run/notifications.h"
#include "engine/store/rows.h"

namespace dtrain {
namespace {

struct NotifyTestOptions : JsonOption {
  std::string config;
};

int NotifyTest(const NotifyTestOptions& options, const GlobalOptions& globals) {
  const std::string& file = options.config;
  const ConfigResult result = ParseConfigText(
      ReadConfigFile(file), file, {}, ParentDirectory(file), Checks::kKeys);
  const std::string refusal = Refusal(result.diagnostics, /*not_yet=*/true);
  if (!refusal.empty() || !result.config) {
    PrintDiagnostics(result.diagnostics, globals);
    throw Error(ErrorKind::kUsage, file + ": " + refusal);
  }
  const ExperimentConfig& config = *result.config;
  if (!config.notify) {
    throw Error(ErrorKind::kUsage,
                file + ": has no section notify; see docs/notify.md");
  }
  nlohmann::json sent = nlohmann::json::array();
  bool failed = false;
  for (NotificationRow& row :
       MakeNotifications(config, /*experiment=*/0, kTestEvent,
                         Clock::System().now(), nlohmann::json::object())) {
    Deliver(*config.notify, row);
    failed = failed || !row.error.empty();
    sent.push_back(NotificationJson(*config.notify, row));
    if (options.json) continue;
    std::cout << EscapeForTerminal(TargetText(*config.notify, row.target) +
                                   ": " + OutcomeText(row))
              << ", " << CountText(row.attempts, "attempt") << '\n';
  }
  if (options.json) PrintJson({{"notifications", sent}});
  return failed ? kExitFailed : kExitDone;
}

}  // namespace

CommandRun SetUpNotifyTest(CLI::App& app) {
  auto options = std::make_shared<NotifyTestOptions>();
  AddOption(app, "CONFIG", options->config,
            "Experiment YAML with a section notify; - reads it from stdin")
      .Required()
      .IsPath();
  AddJsonOption(app, *options);
  SetHelp(app, {.exits = {{kExitDone, "every message was sent"},
                          {kExitFailed, "a message was not sent"},
                          {kExitUsage}},
                .examples = {{"Send a message to the targets of an experiment",
                              "dtrain notify test digits.yaml"},
                             {"See in a script what became of it",
                              "dtrain notify test digits.yaml --json"}}});
  return RunWith(NotifyTest, options);
}

}  // namespace dtrain
