#include "cli/command_help.h"

#include <optional>

#include "engine/base/text.h"
#include "engine/report/terminal.h"

namespace dtrain {
namespace {

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kTextColumn = 26;     // of the explanation of an option
constexpr std::size_t kCommandColumn = 18;  // of the summary of a command
constexpr std::size_t kExitColumn = 7;

// Appends "  NAME   TEXT" with the text at `column`, on a line of its own if
// the name reaches into it.
void AppendRow(const std::string& name, std::string_view text,
               std::size_t column, std::string& out) {
  std::string label = "  " + name;
  const bool fits = label.size() + 2 <= column;
  if (!fits) label += '\n';
  label.resize(label.size() + (fits ? column - label.size() : column), ' ');
  out += label;
  out += WrapText(text, column, column, kHelpWidth) + "\n";
}

std::string ArgumentText(const OptionInfo& argument) {
  const std::string name =
      argument.names.front() + (argument.repeats ? "..." : "");
  return argument.required ? name : "[" + name + "]";
}

std::string ArgumentRows(const std::vector<OptionInfo>& arguments) {
  std::string rows;
  for (const OptionInfo& argument : arguments) {
    AppendRow(argument.names.front(), argument.text, kTextColumn, rows);
  }
  return rows;
}

std::string OptionRows(const std::vector<OptionInfo>& options) {
  std::string rows;
  for (const OptionInfo& option : options) {
    AppendRow(OptionText(option), option.text, kTextColumn, rows);
  }
  return rows;
}

std::string_view GeneralMeaning(int code) {
  switch (code) {
    case kExitDone:
      return "success";
    case kExitFailed:
      return "failed";
    case kExitUsage:
      return "invalid usage or configuration; nothing was created or changed";
    case kExitNotFound:
      return "no such experiment, trial or checkpoint";
    case kExitRequirement:
      return "a --require expression is false";
    case kExitStore:
      return "the store is damaged, in use, full or not accessible";
    case kExitResources:
      return "this machine lacks resources: slots, processes or memory";
    case kExitResumable:
      return "paused or interrupted; can be resumed";
    case kExitTimeout:
      return "--timeout expired";
    default:
      return "stopped by Ctrl-C (SIGTERM: 143, SIGHUP: 129)";
  }
}

// Returns the part of the help that follows the options.
std::string Epilog(const CommandHelp& help) {
  std::string text;
  if (!help.notes.empty()) {
    text += '\n';
    text += WrapText(help.notes, 0, 0, kHelpWidth) + "\n";
  }
  text += "\nExit codes:\n";
  for (const ExitMeaning& exit : help.exits) {
    AppendRow(std::to_string(exit.code), GetMeaning(exit), kExitColumn, text);
  }
  text += "\nExamples:\n";
  for (const auto& [purpose, command] : help.examples) {
    text +=
        "  # " + std::string(purpose) + "\n  " + std::string(command) + "\n";
  }
  return text;
}

std::string ProgramHelp(const CommandInfo& program) {
  std::string text =
      program.summary + "\n\nUsage: dtrain " + UsageText(program) + "\n";
  std::optional<CommandGroup> group;
  for (const CommandInfo& command : program.subcommands) {
    if (group != command.group) {
      group = command.group;
      text += "\n" + std::string(GroupName(command.group)) + ":\n";
    }
    AppendRow(command.name, command.summary, kCommandColumn, text);
  }
  text += "\nGlobal options:\n" + OptionRows(program.options) + "\n";
  text += WrapText(program.help.notes, 0, 0, kHelpWidth) + "\n";
  return text;
}

}  // namespace

std::string_view GroupName(CommandGroup group) {
  switch (group) {
    case CommandGroup::kRun:
      return "Run";
    case CommandGroup::kInspect:
      return "Inspect";
    case CommandGroup::kSearch:
      return "Search";
    case CommandGroup::kCheckpoints:
      return "Checkpoints";
    case CommandGroup::kData:
      return "Data";
    case CommandGroup::kMaintain:
      return "Maintain";
  }
  return "";
}

std::string_view GetMeaning(const ExitMeaning& exit) {
  return exit.text.empty() ? GeneralMeaning(exit.code) : exit.text;
}

std::string OptionText(const OptionInfo& option) {
  return Join(option.names, ", ") +
         (option.value.empty() ? "" : " " + option.value);
}

std::string UsageText(const CommandInfo& command) {
  if (command.name.empty()) {
    return "[GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]";
  }
  std::string usage = command.words;
  for (const OptionInfo& option : command.options) {
    if (option.required) usage += " " + OptionText(option);
  }
  usage += " [OPTIONS]";
  for (const OptionInfo& argument : command.arguments) {
    // Options after the dashes are those of the program.
    const bool is_program = argument.text.starts_with("After --:");
    usage += (is_program ? " -- " : " ") + ArgumentText(argument);
  }
  return usage + (command.subcommands.empty() ? "" : " SUBCOMMAND");
}

void AppendHelpRow(const std::string& name, std::string_view text,
                   std::string& out) {
  AppendRow(name, text, kTextColumn, out);
}

std::string HelpText(const CommandInfo& command) {
  if (command.name.empty()) return ProgramHelp(command);
  std::string text =
      command.summary + "\n\nUsage: dtrain " + UsageText(command) + "\n";
  if (!command.arguments.empty()) {
    text += "\nArguments:\n" + ArgumentRows(command.arguments);
  }
  text += "\nOptions:\n" + OptionRows(command.options);
  if (!command.subcommands.empty()) text += "\nSubcommands:\n";
  for (const CommandInfo& sub : command.subcommands) {
    AppendRow(sub.name, sub.summary, kCommandColumn, text);
  }
  text += "\nGlobal options (--store, --quiet, ...): see 'dtrain --help'\n";
  if (command.subcommands.empty()) text += Epilog(command.help);
  return text;
}

}  // namespace dtrain
