#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "engine/app/build_info.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

CLI::Validator WholeNumber(std::int64_t least) {
  // CLI11 treats the returned text as an error message, an empty one as
  // success.
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && value >= least) return "";
    return "expected an integer of at least " + std::to_string(least) +
           ", got '" + text + "'";
  };
  return {check, /*description=*/"", "whole number"};
}

// "a, b or c". REQUIRES: there is a word.
std::string Alternatives(std::vector<std::string> words) {
  const std::string last = std::move(words.back());
  words.pop_back();
  return words.empty() ? last : Join(words, ", ") + " or " + last;
}

CLI::Validator OneWord(const std::vector<std::string>& words) {
  const auto check = [words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    return "expected " + Alternatives(words) + ", got '" + text + "'" +
           DidYouMean(text, words);
  };
  return {check, /*description=*/"", "word"};
}

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kTextColumn = 26;     // of the explanation of an option
constexpr std::size_t kCommandColumn = 18;  // of the summary of a command
constexpr std::size_t kExitColumn = 7;

// Appends `text` to a line that already has `used` columns, and breaks it at
// blanks so that every line fits into the help's width. Further lines are
// indented to `indent`.
void AppendWrapped(std::string_view text, std::size_t used, std::size_t indent,
                   std::string& out) {
  bool first = true;
  for (const std::string& word : Split(text, ' ')) {
    const std::size_t width = DisplayWidth(word);
    if (!first && used + 1 + width > kHelpWidth) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!first) {
      out += ' ';
      ++used;
    }
    out += word;
    used += width;
    first = false;
  }
  out += '\n';
}

// Appends "  NAME   TEXT" with the text at `column`, on a line of its own if
// the name reaches into it.
void AppendRow(const std::string& name, std::string_view text,
               std::size_t column, std::string& out) {
  std::string label = "  " + name;
  const bool fits = label.size() + 2 <= column;
  if (!fits) label += '\n';
  label.resize(label.size() + (fits ? column - label.size() : column), ' ');
  out += label;
  AppendWrapped(text, column, column, out);
}

std::string PositionalText(const CLI::Option& option) {
  const std::string name = option.get_name(/*positional=*/true) +
                           (option.get_items_expected_max() > 1 ? "..." : "");
  return option.get_required() ? name : "[" + name + "]";
}

// "-d, --detach" or "--set KEY=VALUE".
std::string OptionText(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames())
    names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  const bool takes_value = option.get_type_size() != 0;
  return Join(names, ", ") + (takes_value ? " " + option.get_type_name() : "");
}

std::string DescriptionOf(const CLI::Option& option) {
  const std::string initial = option.get_default_str();
  return option.get_description() +
         (initial.empty() ? "" : " (default: " + initial + ")");
}

std::string UsageOf(const CLI::App& app, const std::string& words) {
  std::string usage = "Usage: dtrain " + words;
  std::string positionals;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      positionals += " " + PositionalText(*option);
    } else if (option->get_required()) {
      usage += " " + OptionText(*option);
    }
  }
  const bool nested = !app.get_subcommands(nullptr).empty();
  return usage + " [OPTIONS]" + positionals + (nested ? " SUBCOMMAND" : "");
}

// The lines of `app`'s options or positional arguments that are not hidden.
std::string OptionRows(const CLI::App& app, bool positional) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() != positional) continue;
    if (option->get_group().empty()) continue;
    AppendRow(positional ? option->get_name(/*positional=*/true)
                         : OptionText(*option),
              DescriptionOf(*option), kTextColumn, rows);
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
    AppendWrapped(help.notes, 0, 0, text);
  }
  text += "\nExit codes:\n";
  for (const auto& [code, meaning] : help.exits) {
    AppendRow(std::to_string(code),
              meaning.empty() ? GeneralMeaning(code) : meaning, kExitColumn,
              text);
  }
  text += "\nExamples:\n";
  for (const auto& [purpose, command] : help.examples) {
    text +=
        "  # " + std::string(purpose) + "\n  " + std::string(command) + "\n";
  }
  return text;
}

ColorChoice ColorFromName(const std::string& word) {
  if (word == "auto") return ColorChoice::kAuto;
  if (word == "always") return ColorChoice::kAlways;
  if (word == "never") return ColorChoice::kNever;
  throw Error(ErrorKind::kUsage,
              "--color: expected auto, always or never, got '" + word + "'");
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& globals) {
  AddOption(app, "--store", globals.store,
            "Directory of the store (default: $DTRAIN_STORE, else the nearest "
            ".dtrain in this directory or above, else ./.dtrain)")
      .TypeName("DIR")
      .IsPath();
  app.add_option_function<std::string>(
         "--color",
         [&globals](const std::string& word) {
           globals.color = ColorFromName(word);
         },
         "Use colors: auto, always or never (default: auto)")
      ->type_name("WHEN");
  auto* verbose = app.add_flag("-v,--verbose", globals.verbose,
                               "Show every validation while trials run");
  app.add_flag("-q,--quiet", globals.quiet,
               "Print only results and errors, no notices or progress")
      ->excludes(verbose);
  app.add_flag("--allow-network-fs", globals.allow_network_fs,
               "Allow writing to a store on a network file system "
               "($DTRAIN_ALLOW_NETWORK_FS); only one machine may write at a "
               "time")
      ->envname("DTRAIN_ALLOW_NETWORK_FS");
}

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    names.push_back(sub->get_name());
  }
  return names;
}

// A callback because the message of require_subcommand would hide the one about
// a mistyped subcommand.
void RequireSubcommand(CLI::App& app) {
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    throw Error(ErrorKind::kUsage, app.get_name() + ": missing subcommand: " +
                                       Alternatives(SubcommandNames(app)) +
                                       "; see 'dtrain " + app.get_name() +
                                       " --help'");
  });
}

// True if the words of the command line contain the command's name, without
// which it cannot be selected.
bool MayBeSelected(const Command& command,
                   const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word == command.name ||
           (!command.alias.empty() && word == command.alias);
  });
}

// Adds only the options of commands that may be selected. The options of all
// commands cost two thirds of the instructions of `dtrain --version`.
void AddCommands(CLI::App& app, std::span<const Command> commands,
                 Invocation& invocation) {
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name),
                                       std::string(command.summary));
    if (!command.alias.empty()) sub->alias(std::string(command.alias));
    if (!MayBeSelected(command, invocation.globals.argv)) continue;
    sub->set_help_flag("-h,--help", "Show this help");
    if (command.subcommands != nullptr) {
      AddCommands(*sub, command.subcommands(), invocation);
      RequireSubcommand(*sub);
      continue;
    }
    sub->callback([run = command.set_up(*sub), &invocation] {
      invocation.run = [run, &invocation] { return run(invocation.globals); };
    });
  }
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) {
    names.emplace_back(command.name);
    if (!command.alias.empty()) names.emplace_back(command.alias);
  }
  return names;
}

// The innermost subcommand on the command line, or the program itself.
const CLI::App& Selected(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : Selected(*subcommands.front());
}

// "checkpoint show "; empty for the program itself.
std::string SelectedWords(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  if (subcommands.empty()) return "";
  const CLI::App& sub = *subcommands.front();
  return sub.get_name() + " " + SelectedWords(sub);
}

std::vector<std::string> LongOptions(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* level : {&app, &Selected(app)}) {
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  return names;
}

std::string HelpHint(const CLI::App& app) {
  return "'dtrain " + SelectedWords(app) + "--help'";
}

// "checkpoint show: "; empty for the program itself.
std::string Where(const CLI::App& app) {
  std::string words = SelectedWords(app);
  if (!words.empty()) words.replace(words.size() - 1, 1, ": ");
  return words;
}

std::string ExplainExtra(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const std::string word = extras.empty() ? "" : extras.front();
  const std::string shown = "'" + word + "'";
  if (word.starts_with("-") && word != "-") {
    const std::string name = word.substr(0, word.find('='));
    const std::string guess = DidYouMean(name, LongOptions(app));
    return "unknown option '" + name + "'" +
           (guess.empty() ? "; see " + HelpHint(app) : guess);
  }
  if (&Selected(app) == &app) {
    const std::string guess = DidYouMean(word, CommandNames());
    return "unknown command " + shown +
           (guess.empty() ? "; 'dtrain --help' lists the commands" : guess);
  }
  const auto subcommands = SubcommandNames(Selected(app));
  if (!subcommands.empty()) {
    return "unknown command '" + SelectedWords(app) + word +
           "'; available: " + Join(subcommands, ", ");
  }
  return Where(app) + "unexpected argument " + shown + "; see " + HelpHint(app);
}

// CLI11's message as one lowercase line.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return ExplainExtra(app);
  }
  std::string text = error.what();
  text.erase(std::min(text.find('\n'), text.size()));
  // "--limit: 1 required N missing"
  const std::size_t count = text.find(": 1 required ");
  constexpr std::string_view kMissing = " missing";
  if (count != text.npos && text.ends_with(kMissing)) {
    text.resize(text.size() - kMissing.size());
    text.replace(count, std::string_view(": 1 required ").size(), ": missing ");
  }
  const bool word = text.size() > 1 && std::islower(text[1]) != 0;
  if (word) text[0] = static_cast<char>(std::tolower(text[0]));
  if (text.ends_with('?')) return Where(app) + text;
  return Where(app) + text + "; see " + HelpHint(app);
}

// True for "dtrain help ...".
bool AsksForHelp(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == "help";
}

// True if a word stands where the name of a command is expected.
bool HasUnknownCommand(const CLI::App& app) {
  if (SubcommandNames(Selected(app)).empty()) return false;
  return std::ranges::any_of(
      app.remaining(/*recurse=*/true),
      [](const std::string& word) { return !word.starts_with('-'); });
}

// Returns the words after the program's name in reverse order, as CLI11 wants
// them. "--name=" becomes "--name" with an empty value; CLI11 would take the
// next word as its value. "help COMMAND" becomes "COMMAND --help".
std::vector<std::string> ReversedWords(int argc, char** argv) {
  const bool is_help = AsksForHelp(argc, argv);
  std::vector<std::string> words;
  bool options = true;
  for (const std::string word :
       std::span(argv, argc).subspan(is_help ? 2 : 1)) {
    options = options && word != "--";
    const bool empty =
        options && word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(empty ? word.substr(0, word.size() - 1) : word);
    if (empty) words.emplace_back();
  }
  if (is_help) words.emplace_back("--help");
  std::ranges::reverse(words);
  return words;
}

std::function<int()> Print(std::string text) {
  return [text = std::move(text)] {
    std::cout << text;
    return kExitDone;
  };
}

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

std::string MainHelp(const CLI::App& app) {
  std::string text =
      "Run deep learning experiments and search their hyperparameters.\n\n"
      "Usage: dtrain [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]\n";
  std::optional<CommandGroup> group;
  for (const Command& command : Commands()) {
    if (group != command.group) {
      group = command.group;
      text += "\n" + std::string(GroupName(command.group)) + ":\n";
    }
    AppendRow(std::string(command.name), command.summary, kCommandColumn, text);
  }
  return text + "\nGlobal options:\n" + OptionRows(app, /*positional=*/false) +
         "\nAn experiment is named by its number (3), a trial by both numbers "
         "(3.7), a\ncheckpoint by the first characters of its ID (0a1b2c3d). "
         "'dtrain COMMAND --help'\nshows the options, exit codes and examples "
         "of a command.\n";
}

std::string CommandHelpText(const CLI::App& app, const std::string& words) {
  std::string text =
      app.get_description() + "\n\n" + UsageOf(app, words) + "\n";
  const std::string positionals = OptionRows(app, /*positional=*/true);
  if (!positionals.empty()) text += "\nArguments:\n" + positionals;
  text += "\nOptions:\n" + OptionRows(app, /*positional=*/false);
  const auto subcommands = app.get_subcommands(nullptr);
  if (!subcommands.empty()) text += "\nSubcommands:\n";
  for (const CLI::App* sub : subcommands) {
    AppendRow(sub->get_name(), sub->get_description(), kCommandColumn, text);
  }
  text += "\nGlobal options (--store, --quiet, ...): see 'dtrain --help'\n" +
          app.get_footer();
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

// The help of the command that stands before --help.
std::string Help(const CLI::App& app) {
  const CLI::App& selected = Selected(app);
  if (&selected == &app) return MainHelp(app);
  std::string words = SelectedWords(app);
  words.pop_back();
  return CommandHelpText(selected, words);
}

}  // namespace

const CliOption& CliOption::Required() const {
  option_->required();
  return *this;
}

const CliOption& CliOption::TypeName(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

const CliOption& CliOption::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

const CliOption& CliOption::IsPath() const {
  option_->check(CLI::Validator(
      [](const std::string& text) -> std::string {
        return text.empty() ? "is empty; give a path, or omit it" : "";
      },
      /*description=*/"", "path"));
  return *this;
}

const CliOption& CliOption::OneEach() const {
  option_->allow_extra_args(false);
  return *this;
}

const CliOption& CliOption::AtLeast(std::int64_t least) const {
  option_->check(WholeNumber(least));
  return *this;
}

const CliOption& CliOption::OneOf(const std::vector<std::string>& words) const {
  option_->check(OneWord(words));
  return *this;
}

const CliOption& CliOption::Excludes(const CliOption& other) const {
  option_->excludes(other.option_);
  return *this;
}

const CliOption& CliOption::Needs(const CliOption& other) const {
  option_->needs(other.option_);
  return *this;
}

CliOption AddFlag(CLI::App& app, const std::string& names, bool& to,
                  const std::string& help) {
  CLI::Option* const option = app.add_flag(names, to, help);
  if (help.empty()) option->group("");
  return CliOption(option);
}

template <typename T>
CliOption AddOption(CLI::App& app, const std::string& names, T& to,
                    const std::string& help) {
  return CliOption(app.add_option(names, to, help));
}

template CliOption AddOption(CLI::App&, const std::string&, std::string&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::vector<std::string>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::int64_t&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::size_t&,
                             const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::optional<std::string>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&,
                             std::optional<std::int64_t>&, const std::string&);
template CliOption AddOption(CLI::App&, const std::string&, std::optional<int>&,
                             const std::string&);

void SetHelp(CLI::App& app, CommandHelp help) {
  app.footer([help = std::move(help)] { return Epilog(help); });
}

std::vector<ExitMeaning> ReaderExits() {
  return {{kExitDone},
          {kExitUsage, "invalid usage"},
          {kExitNotFound},
          {kExitStore}};
}

std::vector<ExitMeaning> RunExits() {
  return {{kExitDone, "the experiment completed"},
          {kExitFailed, "the experiment failed or was canceled"},
          {kExitUsage},
          {kExitNotFound},
          {kExitRequirement},
          {kExitStore},
          {kExitResources},
          {kExitResumable},
          {kExitTimeout, "--timeout expired; the experiment is paused"},
          {130, "paused by Ctrl-C (SIGTERM: 143, SIGHUP: 129)"}};
}

void ParseCommandLine(int argc, char** argv, Invocation& invocation) {
  invocation.globals.argv.assign(argv, argv + argc);
  CLI::App app("", "dtrain");
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", std::string("dtrain ") + kVersion,
                       "Show the version");
  app.require_subcommand(0, 1);
  app.fallthrough();
  AddGlobalOptions(app, invocation.globals);
  AddCommands(app, Commands(), invocation);
  try {
    app.parse(ReversedWords(argc, argv));
    if (!invocation.run) invocation.run = Print(MainHelp(app));
  } catch (const CLI::CallForVersion& version) {
    invocation.run = Print(std::string(version.what()) + "\n");
  } catch (const CLI::CallForHelp&) {
    if (HasUnknownCommand(app) ||
        (AsksForHelp(argc, argv) && !app.remaining(/*recurse=*/true).empty())) {
      throw Error(ErrorKind::kUsage, ExplainExtra(app));
    }
    invocation.run = Print(Help(app));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, Explain(app, error));
  }
}

}  // namespace dtrain
