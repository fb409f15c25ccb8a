#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace dtrain {

// The commands and options as plain values, from which help, manual pages and
// completions are made.

/// The values of an option or argument that a shell completes.
enum class ValueKind {
  kText,        // none, but for listed words
  kExperiment,  // 3
  kTarget,      // 3 or 3.7
  kTrial,       // 3.7
  kCheckpoint,  // the start of a UUID
  kSource,      // 3, 3.7 or the start of a UUID
  kMetric,
  kField,  // a metric or hyperparameter among columns: metric.best, hp.lr
  kLabel,
  kHparam,  // hp.lr
  kKey,     // of the YAML, with =
  kFile,
  kDirectory,
};

/// An exit code in the help of a command. Without a text the help says what the
/// code means in general.
struct ExitMeaning {
  int code = 0;
  std::string_view text = {};
};

/// A command line that the help of a command shows.
struct HelpExample {
  std::string_view purpose;
  std::string_view command;
};

/// The parts of a command's help that follow its options.
struct CommandHelp {
  std::string_view notes = {};     // a paragraph
  std::vector<ExitMeaning> exits;  // in increasing order
  std::vector<HelpExample> examples;
};

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

/// Describes the program with the options of all commands.
CommandInfo DescribeProgram();

/// Heading of a group in the program's help: "Inspect".
std::string_view GroupName(CommandGroup group);

/// The meaning of an exit code, the general one if the command has none.
std::string_view GetMeaning(const ExitMeaning& exit);

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
