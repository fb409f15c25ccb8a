// Manual pages, in the man macros, from the table of commands that --help
// prints, too. dtrain.1 has the commands and the global options, and each
// command has a page of its own: dtrain-checkpoint-show.1.

#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_help.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "engine/app/build_info.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLineWidth = 78;  // of the source

// Text for roff. A '-' that is typed must be escaped, or it becomes a hyphen.
std::string Escaped(std::string_view text, bool typed) {
  std::string roff;
  for (const char c : text) {
    switch (c) {
      case '\\':
        roff += "\\e";
        break;
      case '-':
        roff += typed ? "\\-" : "-";
        break;
      case '\'':
        roff += "\\(aq";
        break;
      case '"':
        roff += "\\(dq";
        break;
      case '`':
        roff += "\\(ga";
        break;
      case '^':
        roff += "\\(ha";
        break;
      case '~':
        roff += "\\(ti";
        break;
      default:
        roff += c;
    }
  }
  return roff;
}

// A paragraph in short lines. Words that begin with '-' are options, which are
// typed; no line begins with '.', which would be a macro.
std::string Paragraph(std::string_view text) {
  std::string out, line;
  for (const std::string& word : Split(text, ' ')) {
    const bool option = word.find("--") != word.npos || word.starts_with("-");
    std::string roff = Escaped(word, option);
    if (!line.empty() && line.size() + 1 + roff.size() > kLineWidth) {
      out += line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    if (line.empty() && roff.starts_with('.')) line = "\\&";
    line += roff;
  }
  return out + line + "\n";
}

std::string Bold(std::string_view text) {
  return "\\fB" + Escaped(text, /*typed=*/true) + "\\fR";
}

std::string Italic(std::string_view text) {
  return "\\fI" + Escaped(text, /*typed=*/true) + "\\fR";
}

// "-n, --limit N" with its emphasis.
std::string OptionHead(const OptionInfo& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(Bold(name));
  return Join(names, ", ") +
         (option.value.empty() ? "" : " " + Italic(option.value));
}

// A list with a term in each head.
std::string Entry(const std::string& head, std::string_view text) {
  return ".TP\n" + head + "\n" + Paragraph(text);
}

std::string PageName(const CommandInfo& command) {
  std::string name = "dtrain";
  for (const std::string& word : Split(command.words, ' ')) {
    if (!word.empty()) name += "-" + word;
  }
  return name;
}

std::string Reference(const std::string& page) {
  return ".BR " + Escaped(page, /*typed=*/true) + " (1)";
}

std::string Head(const CommandInfo& command, const std::string& date) {
  const std::string page = PageName(command);
  std::string_view summary = command.summary;
  if (summary.ends_with('.')) summary.remove_suffix(1);
  std::string title = page;
  for (char& c : title) c = static_cast<char>(std::toupper(c));
  return ".TH " + title + " 1 " + date + " \"dtrain " + kVersion +
         "\" \"dtrain Manual\"\n.SH NAME\n" + Escaped(page, true) + " \\- " +
         Escaped(summary, false) + "\n";
}

std::string Synopsis(const CommandInfo& command) {
  // The usage of a command begins with its words.
  const std::string usage = UsageText(command).substr(command.words.size());
  return ".SH SYNOPSIS\n.nf\n" + Bold("dtrain " + command.words) +
         Escaped(usage, /*typed=*/true) + "\n.fi\n";
}

std::string Options(const std::string& title,
                    const std::vector<OptionInfo>& options) {
  std::string text = ".SH " + title + "\n";
  for (const OptionInfo& option : options) {
    text += Entry(OptionHead(option), option.text);
  }
  return text;
}

std::string Arguments(const std::vector<OptionInfo>& arguments) {
  if (arguments.empty()) return "";
  std::string text = ".SH ARGUMENTS\n";
  for (const OptionInfo& argument : arguments) {
    text += Entry(Italic(argument.names.front()), argument.text);
  }
  return text;
}

std::string ExitsAndExamples(const CommandHelp& help) {
  std::string text;
  if (!help.exits.empty()) text += ".SH EXIT STATUS\n";
  for (const ExitMeaning& exit : help.exits) {
    text += Entry(Bold(std::to_string(exit.code)), GetMeaning(exit));
  }
  std::string_view separator = ".SH EXAMPLES\n";
  for (const auto& [purpose, command] : help.examples) {
    text += std::string(separator) + Paragraph(std::string(purpose) + ":") +
            ".RS 4\n.EX\n" + Escaped(command, /*typed=*/true) + "\n.EE\n.RE\n";
    separator = ".PP\n";
  }
  return text;
}

std::string CommandPage(const CommandInfo& command, const std::string& date) {
  std::string text = Head(command, date) + Synopsis(command);
  text += ".SH DESCRIPTION\n" + Paragraph(command.summary + ".");
  const std::string_view notes = command.help.notes;
  if (!notes.empty()) text += ".PP\n" + Paragraph(notes);
  if (!command.alias.empty()) {
    text += ".PP\n" + Paragraph("Another name of this command is '" +
                                command.alias + "'.");
  }
  text += Arguments(command.arguments);
  if (!command.subcommands.empty()) text += ".SH SUBCOMMANDS\n";
  for (const CommandInfo& sub : command.subcommands) {
    text += Entry(Bold(sub.name), sub.summary);
  }
  text += Options("OPTIONS", command.options);
  text += ".P\n" + Paragraph("Global options are in dtrain(1).");
  text += ExitsAndExamples(command.help) + ".SH SEE ALSO\n";
  for (const CommandInfo& sub : command.subcommands) {
    text += Reference(PageName(sub)) + " ,\n";
  }
  return text + Reference("dtrain") + "\n";
}

std::string ProgramPage(const CommandInfo& program, const std::string& date) {
  std::string text = Head(program, date) + Synopsis(program) +
                     ".SH DESCRIPTION\n" + Paragraph(program.summary) + ".P\n" +
                     Paragraph(program.help.notes) + ".SH COMMANDS\n";
  std::optional<CommandGroup> group;
  for (const CommandInfo& command : program.subcommands) {
    if (group != command.group) {
      group = command.group;
      text += ".SS " + std::string(GroupName(command.group)) + "\n";
    }
    text += Entry(Reference(PageName(command)), command.summary);
  }
  return text + Options("OPTIONS", program.options);
}

void WriteFile(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) {
    throw Error(ErrorKind::kFailed, "cannot write " + file.string());
  }
}

// A date is given, so that two builds of one version have the same pages.
void WritePages(const CommandInfo& command, const fs::path& directory,
                const std::string& date) {
  const bool is_program = command.name.empty();
  WriteFile(
      directory / (PageName(command) + ".1"),
      is_program ? ProgramPage(command, date) : CommandPage(command, date));
  for (const CommandInfo& sub : command.subcommands) {
    WritePages(sub, directory, date);
  }
}

}  // namespace

int WriteShare(const std::vector<std::string>& words) {
  if (words.size() != 2) {
    throw Error(ErrorKind::kUsage, "usage: dtrain __share DIR DATE");
  }
  const fs::path share = words[0];
  WritePages(DescribeProgram(), share / "man/man1", words[1]);
  WriteFile(share / "bash-completion/completions/dtrain",
            std::string(CompletionScript("bash")));
  WriteFile(share / "zsh/site-functions/_dtrain",
            std::string(CompletionScript("zsh")));
  WriteFile(share / "fish/vendor_completions.d/dtrain.fish",
            std::string(CompletionScript("fish")));
  return kExitDone;
}

}  // namespace dtrain
