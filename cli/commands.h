#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/app/notices.h"

namespace CLI {
class App;
}

namespace dtrain {

enum class ErrorKind;
enum class State;
struct RunResult;

/// A command with its options, ready to be called: runs it and returns the exit
/// code.
using CommandRun = std::function<int(const GlobalOptions& globals)>;

/// Binds `command` to its options, which the command line fills in later.
template <typename Options>
CommandRun RunWith(int (*command)(const Options&, const GlobalOptions&),
                   const std::shared_ptr<Options>& options) {
  return [command, options](const GlobalOptions& globals) {
    return command(*options, globals);
  };
}

/// Adds a command's options to `app` and returns what to run once they are
/// parsed.
using CommandSetUp = CommandRun(CLI::App& app);

/// Heading of the program's help that a command is listed under.
enum class CommandGroup {
  kRun,
  kInspect,
  kSearch,
  kCheckpoints,
  kData,
  kMaintain,
};

/// One command. Adding one is a file `cli/NAME.cc` with its options, `SetUpX`
/// and the command itself, and a row of the tables in commands.cc.
struct Command {
  CommandGroup group;
  std::string_view name;
  std::string_view alias;  // or empty
  std::string_view summary;
  CommandSetUp* set_up;  // null for a command that only has subcommands
  std::span<const Command> (*subcommands)() = nullptr;
};

/// All commands, in the order of the help.
std::span<const Command> Commands();

/// `dtrain __complete SHELL …`, which completion scripts call, prints the
/// candidates for the last word. `words`: what follows __complete.
inline constexpr std::string_view kCompleteCommand = "__complete";
int Complete(const std::vector<std::string>& words);

/// `dtrain __share DIR DATE`, which the build calls, writes the manual pages,
/// of this date, and the completion scripts to their places in a directory
/// share/.
inline constexpr std::string_view kShareCommand = "__share";
int WriteShare(const std::vector<std::string>& words);

/// `dtrain __reference DOCS` writes the generated parts of DOCS/cli.md and
/// DOCS/cli/*.md.
inline constexpr std::string_view kReferenceCommand = "__reference";
int WriteReference(const std::vector<std::string>& words);

/// The script that `dtrain completion` prints: of bash, zsh or fish.
std::string_view CompletionScript(std::string_view shell);

/// The exit codes that scripts may rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitRequirement = 4;
inline constexpr int kExitStore = 5;
inline constexpr int kExitResources = 6;
inline constexpr int kExitResumable = 75;
inline constexpr int kExitTimeout = 124;

/// Message of std::bad_alloc, which exits with kExitResources.
inline constexpr char kOutOfMemory[] =
    "out of memory; free some memory or reduce the request; resume an "
    "experiment that was running with `dtrain resume`";

int ToExitCode(ErrorKind kind);

/// Returns the exit code for an experiment that stays in `state`. REQUIRES: it
/// is neither PENDING nor RUNNING.
int ToExitCode(State state);

/// Returns the more important exit code: a failure, then a deleted experiment,
/// an unmet requirement, a resumable experiment.
int WorstExitCode(int a, int b);

/// Returns the exit code of a finished run: 128 + signal if a signal paused it.
int ToExitCode(const RunResult& result);

}  // namespace dtrain
