#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace dtrain {

// The commands and options as plain values, from which help, manual pages and
// completions are made.

/// An option, flag or positional argument.
struct OptionInfo {
  std::vector<std::string> names;  // "-d", "--detach"; "EXP" of an argument
  std::string value;               // name of the value; empty for a flag
  std::string text;                // with the default
  std::vector<std::string> words;  // possible values, if they are listed
  ValueKind kind = ValueKind::kText;
  bool required = false;
  bool repeats = false;  // an argument takes several values
};

/// A command, or the program itself.
struct CommandInfo {
  std::string name;   // empty for the program
  std::string words;  // "checkpoint show"; empty for the program
  std::string alias;  // or empty
  std::string summary;
  CommandGroup group = CommandGroup::kRun;
  CommandHelp help;
  std::vector<OptionInfo> options;    // without hidden ones
  std::vector<OptionInfo> arguments;  // positional
  std::vector<CommandInfo> subcommands;
};

/// Describes the program; of the commands, only those that `words` contains
/// have options.
CommandInfo DescribeProgram(const std::vector<std::string>& words);

/// Heading of a group in the program's help: "Inspect".
std::string_view GroupName(CommandGroup group);

/// The meaning of an exit code, the general one if the command has none.
std::string_view MeaningOf(const ExitMeaning& exit);

/// "-d, --detach" or "--set KEY=VALUE".
std::string OptionText(const OptionInfo& option);

/// "COMMAND [OPTIONS] EXP...", without the program's name.
std::string UsageText(const CommandInfo& command);

/// Appends "  NAME    TEXT" to a help text, wrapped to its 80 columns.
void AppendHelpRow(const std::string& name, std::string_view text,
                   std::string& out);

/// The text that `--help` prints, in 80 columns.
std::string HelpText(const CommandInfo& command);

}  // namespace dtrain
