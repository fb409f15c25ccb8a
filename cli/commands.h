#pragma once

#include <functional>
#include <memory>
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

/// One command. Adding one is a file `cli/NAME.cc` with its options, `SetUpX`
/// and the command itself, and a row of the tables in commands.cc.
struct Command {
  std::string_view name;
  std::string_view alias;  // or empty
  std::string_view summary;
  CommandSetUp* set_up;  // null for a command that only has subcommands
  bool rare = false;     // only its name is in the program's help
  std::span<const Command> (*subcommands)() = nullptr;
};

/// Every command, in the order of the help.
std::span<const Command> Commands();

}  // namespace dtrain
