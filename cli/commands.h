#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/terminal.h"

namespace CLI {
class App;
}

namespace dtrain {

/// What may stand before any command.
struct GlobalOptions {
  std::string store;  // empty: found as FindStore says
  ColorChoice color = ColorChoice::kAuto;
  bool verbose = false;
  bool quiet = false;
  bool allow_network_fs = false;
  std::vector<std::string> argv;  // as it was typed, for the record
};

/// What the command line asks for: filled in while it is parsed, run after.
struct Invocation {
  GlobalOptions globals;
  std::function<int()> run;  // gives the exit code
};

/// One subcommand. Adding one is a file `cli/<name>.cc` with its options,
/// `SetUp…` and the command itself, and a row of the table in commands.cc.
struct Command {
  std::string_view name;
  std::string_view alias;  // or empty
  std::string_view summary;
  // Adds the command's options to `app` and a callback that fills in
  // `invocation.run`.
  void (*set_up)(CLI::App& app, Invocation& invocation);
  bool rare = false;  // only its name is in the program's help
};

/// Every subcommand, in the order of the help.
std::span<const Command> Commands();

void SetUpArchive(CLI::App& app, Invocation& invocation);
void SetUpBackup(CLI::App& app, Invocation& invocation);
void SetUpBest(CLI::App& app, Invocation& invocation);
void SetUpCancel(CLI::App& app, Invocation& invocation);
void SetUpCheckpoint(CLI::App& app, Invocation& invocation);
void SetUpCheckpoints(CLI::App& app, Invocation& invocation);
void SetUpConfig(CLI::App& app, Invocation& invocation);
void SetUpContinue(CLI::App& app, Invocation& invocation);
void SetUpCreate(CLI::App& app, Invocation& invocation);
void SetUpData(CLI::App& app, Invocation& invocation);
void SetUpDelete(CLI::App& app, Invocation& invocation);
void SetUpDescribe(CLI::App& app, Invocation& invocation);
void SetUpDoctor(CLI::App& app, Invocation& invocation);
void SetUpEvaluate(CLI::App& app, Invocation& invocation);
void SetUpGc(CLI::App& app, Invocation& invocation);
void SetUpInit(CLI::App& app, Invocation& invocation);
void SetUpKill(CLI::App& app, Invocation& invocation);
void SetUpLabel(CLI::App& app, Invocation& invocation);
void SetUpList(CLI::App& app, Invocation& invocation);
void SetUpLogs(CLI::App& app, Invocation& invocation);
void SetUpMetrics(CLI::App& app, Invocation& invocation);
void SetUpModels(CLI::App& app, Invocation& invocation);
void SetUpNote(CLI::App& app, Invocation& invocation);
void SetUpPause(CLI::App& app, Invocation& invocation);
void SetUpPlot(CLI::App& app, Invocation& invocation);
void SetUpPredict(CLI::App& app, Invocation& invocation);
void SetUpPreviewSearch(CLI::App& app, Invocation& invocation);
void SetUpReproduce(CLI::App& app, Invocation& invocation);
void SetUpResume(CLI::App& app, Invocation& invocation);
void SetUpSlots(CLI::App& app, Invocation& invocation);
void SetUpTrials(CLI::App& app, Invocation& invocation);
void SetUpUnarchive(CLI::App& app, Invocation& invocation);
void SetUpValidate(CLI::App& app, Invocation& invocation);
void SetUpVersion(CLI::App& app, Invocation& invocation);
void SetUpWait(CLI::App& app, Invocation& invocation);

}  // namespace dtrain
