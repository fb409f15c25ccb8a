// The generated parts of docs/cli.md and docs/cli/*.md, from the table of
// commands that --help prints, too. A part stands between two lines of its
// page, and all other text is kept:
//
//     <!-- generated: checkpoint show -->
//     <!-- end -->
//
// Each command has one, with its usage, arguments and options; a command that
// has none gets a section at the end of the page of its group. docs/cli.md has
// the "table of commands" and the "table of options".

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command_help.h"
#include "cli/commands.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/files.h"
#include "engine/report/terminal.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A name, and what it means.
using MarkdownRow = std::pair<std::string, std::string>;

constexpr std::size_t kProseWidth = 100;
constexpr std::string_view kPartBegin = "<!-- generated: ";
constexpr std::string_view kPartEnd = "<!-- end -->";

// The largest number of arguments and options that are listed in the text; more
// are a table.
constexpr std::size_t kMaxListed = 4;

// The smallest number of options that a command has in common with `create`, at
// the end of its list, for which its page refers to those of `create`.
constexpr std::ptrdiff_t kMinShared = 5;

std::string InlineCode(std::string_view text) {
  return "`" + std::string(text) + "`";
}

// A text of the help as Markdown: quoted words, 'a < b', and options become
// code.
std::string ToMarkdown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool starts_word =
        out.empty() || std::string_view(" ([").find(out.back()) != text.npos;
    const std::size_t quote = starts_word && text[0] == '\'' ? 1 : 0;
    std::size_t end = 0;
    if (quote > 0) {
      end = text.find('\'', 1);
    } else if (starts_word && text.starts_with("--")) {
      end = std::min(text.find_first_of(" ,;:.)"), text.size());
    }
    if (end > 1 && end != text.npos) {
      out += InlineCode(text.substr(quote, end - quote));
      text.remove_prefix(end + quote);
      continue;
    }
    if (text[0] == '<' || text[0] == '*') out += '\\';
    out += text[0];
    text.remove_prefix(1);
  }
  return out;
}

// A '|' in the cell of a table must be escaped, also in code.
std::string MarkdownTable(const MarkdownRow& head,
                          const std::vector<MarkdownRow>& rows) {
  std::string table = "| " + head.first + " | " + head.second + " |\n";
  table += "|---|---|\n";
  for (const auto& [name, meaning] : rows) {
    table += "| " + Join(Split(name, '|'), "\\|") + " | " +
             Join(Split(meaning, '|'), "\\|") + (meaning.empty() ? "" : " ") +
             "|\n";
  }
  return table;
}

std::string GroupPage(CommandGroup group) {
  if (group == CommandGroup::kRun) return "create.md";  // run.md has `run`
  std::string name(GroupName(group));
  name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return name + ".md";
}

// Options without --help, which all commands have.
std::vector<OptionInfo> OwnOptions(const CommandInfo& command) {
  std::vector<OptionInfo> options = command.options;
  std::erase_if(options, [](const OptionInfo& option) {
    return option.names.back() == "--help";
  });
  return options;
}

class ReferenceWriter {
 public:
  ReferenceWriter() : program_(DescribeProgram()) {
    for (const CommandInfo& command : program_.subcommands) {
      if (command.subcommands.empty()) commands_.push_back(command);
      for (const CommandInfo& sub : command.subcommands) {
        commands_.push_back(sub);
      }
    }
  }

  // Returns the page `text` with its parts replaced.
  std::string ReplaceParts(const fs::path& file, const std::string& text);

  // Appends the sections of commands that had no part to the pages.
  void AddSections(const fs::path& directory,
                   std::map<fs::path, std::string>& pages) const;

 private:
  std::vector<CommandInfo>::const_iterator Find(std::string_view words) const {
    return std::ranges::find(commands_, words, &CommandInfo::words);
  }
  // The text of the part called `name`; empty if there is none.
  std::string Part(std::string_view name) const;
  std::string CommandTable() const;
  std::string OptionTable() const;
  std::string CommandPart(const CommandInfo& command) const;
  // The options of a command, and the name of the first of those that it shares
  // with `create`, which are left out; or an empty name.
  std::pair<std::vector<OptionInfo>, std::string> Options(
      const CommandInfo& command) const;

  CommandInfo program_;
  std::vector<CommandInfo> commands_;  // without those that have subcommands
  std::set<std::string> written_;      // parts
};

std::pair<std::vector<OptionInfo>, std::string> ReferenceWriter::Options(
    const CommandInfo& command) const {
  std::vector<OptionInfo> options = OwnOptions(command);
  if (command.words == "create") return {options, ""};
  const std::vector<OptionInfo> created = OwnOptions(*Find("create"));
  const auto own =
      std::mismatch(options.rbegin(), options.rend(), created.rbegin(),
                    created.rend(),
                    [](const OptionInfo& a, const OptionInfo& b) {
                      return a.names == b.names && a.text == b.text;
                    })
          .first;
  if (own - options.rbegin() < kMinShared) return {options, ""};
  const std::string first = own.base()->names.back();
  options.erase(own.base(), options.end());
  return {options, first};
}

std::string ReferenceWriter::Part(std::string_view name) const {
  if (name == "table of commands") return CommandTable();
  if (name == "table of options") return OptionTable();
  const auto command = Find(name);
  return command == commands_.end() ? "" : CommandPart(*command);
}

std::string ReferenceWriter::CommandTable() const {
  std::vector<MarkdownRow> rows;
  std::optional<CommandGroup> group;
  for (const CommandInfo& command : commands_) {
    if (group != command.group) {
      group = command.group;
      rows.emplace_back("**[" + std::string(GroupName(*group)) + "](cli/" +
                            GroupPage(*group) + ")**",
                        "");
    }
    std::string usage = UsageText(command);
    constexpr std::string_view kOptions = " [OPTIONS]";
    usage.erase(usage.find(kOptions), kOptions.size());
    rows.emplace_back(
        InlineCode(usage) +
            (command.alias.empty() ? "" : ", " + InlineCode(command.alias)),
        ToMarkdown(command.summary));
  }
  return MarkdownTable({"command", "description"}, rows);
}

std::string ReferenceWriter::OptionTable() const {
  const auto list = [](const std::vector<OptionInfo>& options) {
    std::vector<std::string> names;
    for (const OptionInfo& option : options) {
      names.push_back(InlineCode(OptionText(option)));
    }
    return Join(names, "; ");
  };
  // Commands with the same options are one row.
  std::vector<MarkdownRow> rows = {{"any", list(program_.options)}};
  for (const CommandInfo& command : commands_) {
    const auto [own, shared] = Options(command);
    std::string options = own.empty() ? "none" : list(own);
    if (!shared.empty()) {
      options += "; those of `create` from " + InlineCode(shared) + " on";
    }
    const auto same = std::ranges::find(rows, options, &MarkdownRow::second);
    if (same != rows.end()) {
      same->first += ", " + InlineCode(command.words);
    } else {
      rows.emplace_back(InlineCode(command.words), options);
    }
  }
  return MarkdownTable({"command", "options"}, rows);
}

std::string ReferenceWriter::CommandPart(const CommandInfo& command) const {
  const auto [options, shared] = Options(command);
  std::vector<OptionInfo> listed = command.arguments;
  listed.insert(listed.end(), options.begin(), options.end());
  std::vector<MarkdownRow> rows;
  for (const OptionInfo& option : listed) {
    rows.emplace_back(InlineCode(OptionText(option)), ToMarkdown(option.text));
  }
  if (!shared.empty()) {
    rows.emplace_back("[`create`](create.md#create)",
                      "Its options from " + InlineCode(shared) + " on");
  }
  std::string text =
      "Usage: " + InlineCode("dtrain " + UsageText(command)) + ".";
  if (rows.size() > kMaxListed) {
    return text + "\n\n" +
           MarkdownTable({"argument or option", "meaning"}, rows);
  }
  for (const auto& [name, meaning] : rows) {
    text += " " + name + ": " + meaning + ".";
  }
  std::string paragraph;
  paragraph += WrapText(text, 0, 0, kProseWidth) + "\n";
  return paragraph;
}

std::string ReferenceWriter::ReplaceParts(const fs::path& file,
                                          const std::string& text) {
  std::string page;
  std::string part;  // whose old text is skipped
  const auto require_end = [&] {
    if (part.empty()) return;
    throw Error(ErrorKind::kUsage, file.string() + ": no line '" +
                                       std::string(kPartEnd) + "' below '" +
                                       part + "'");
  };
  std::vector<std::string> lines = Split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (const std::string& line : lines) {
    const bool begins = line.starts_with(kPartBegin);
    if (begins) require_end();
    if (line == kPartEnd) part.clear();
    if (part.empty()) page += line + "\n";
    if (!begins) continue;
    part =
        line.substr(kPartBegin.size(), line.find(" -->") - kPartBegin.size());
    const std::string generated = Part(part);
    if (generated.empty()) {
      throw Error(ErrorKind::kUsage, file.string() + ": no command '" + part +
                                         "'; delete its section");
    }
    page += generated;
    written_.insert(part);
  }
  require_end();
  return page;
}

void ReferenceWriter::AddSections(
    const fs::path& directory, std::map<fs::path, std::string>& pages) const {
  for (const CommandInfo& command : commands_) {
    if (written_.contains(command.words)) continue;
    std::string& page = pages[directory / GroupPage(command.group)];
    page += "\n## " + command.words + "\n\n" + ToMarkdown(command.summary) +
            ".\n\n<!-- run: no, it needs an experiment -->\n```sh\n";
    for (const auto& [purpose, example] : command.help.examples) {
      page += "# " + std::string(purpose) + "\n" + std::string(example) + "\n";
    }
    page += "```\n\n" + std::string(kPartBegin) + command.words + " -->\n" +
            CommandPart(command) + std::string(kPartEnd) + "\n";
  }
}

}  // namespace

int WriteReference(const std::vector<std::string>& words) {
  if (words.size() != 1) {
    throw Error(ErrorKind::kUsage, "usage: dtrain __reference DOCS");
  }
  const fs::path docs = words[0];
  std::map<fs::path, std::string> pages = {{docs / "cli.md", ""}};
  for (const auto& entry : fs::directory_iterator(docs / "cli")) {
    pages[entry.path()];
  }
  ReferenceWriter writer;
  for (auto& [file, page] : pages) {
    const std::optional<std::string> text = ReadFile(file);
    if (!text) throw Error(ErrorKind::kFailed, "cannot read " + file.string());
    page = writer.ReplaceParts(file, *text);
  }
  writer.AddSections(docs / "cli", pages);
  for (const auto& [file, page] : pages) {
    std::ofstream out(file, std::ios::binary);
    out << page << std::flush;
    if (!out) {
      throw Error(ErrorKind::kFailed, "cannot write " + file.string());
    }
  }
  return kExitDone;
}

}  // namespace dtrain
