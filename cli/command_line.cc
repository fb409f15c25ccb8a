// The command line: CLI11 behind AddOption, AddFlag and SetHelp, and the errors
// that it reports.
//
// The table of commands (commands.h) becomes a tree of CommandApp. This class
// is derived from CLI::App and stores in addition the group, exit codes,
// examples, and the words and kinds of values, from which help, completions and
// manual pages are made (CommandInfo). Options are added only for commands
// whose names occur on the command line, which makes the start faster;
// DescribeProgram gets the words of the commands that it is to describe
// completely.
//
// The steps of ParseCommandLine: hidden commands; commands and options of
// Determined's CLI are rewritten (determined.cc); CLI11 parses the words and a
// callback stores the command in invocation.run; main calls it. Parsing has no
// effect but on `invocation`.
//
// CLI11's exceptions end here: each becomes an Error with one lowercase line
// that names the command and suggests a spelling. CLI11 takes the words in
// reverse order, and "--name=" as a name without a value; ReversedWords handles
// both.

#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command_help.h"
#include "cli/commands.h"
#include "cli/determined.h"
#include "engine/app/build_info.h"
#include "engine/app/notifications.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// The program or a command, with facts for its help that CLI11 does not keep.
class CommandApp : public CLI::App {
 public:
  CommandApp() : App("", "dtrain", nullptr) {}
  CommandApp(const Command& command, CLI::App& parent)
      : App(std::string(command.summary), std::string(command.name), &parent),
        group(command.group) {}

  CommandGroup group = CommandGroup::kRun;
  CommandHelp help;
  std::map<const CLI::Option*, std::vector<std::string>> words;  // possible
  std::map<const CLI::Option*, ValueKind> kinds;
};

// Every application of the program is one; see AddCommands.
CommandApp& AsCommand(CLI::App& app) { return static_cast<CommandApp&>(app); }
const CommandApp& AsCommand(const CLI::App& app) {
  return static_cast<const CommandApp&>(app);
}

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
  const CLI::Option* color =
      app.add_option_function<std::string>(
             "--color",
             [&globals](const std::string& word) {
               globals.color = ColorFromName(word);
             },
             "Use colors: auto, always or never (default: auto)")
          ->type_name("WHEN");
  AsCommand(app).words[color] = {"auto", "always", "never"};
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
    CLI::App* sub =
        app.add_subcommand(std::make_shared<CommandApp>(command, app));
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

// Commands that completion scripts, the build and runners call. Their words are
// not options, so CLI11 does not see them.
using HiddenCommand = int(const std::vector<std::string>& words);

HiddenCommand* FindHiddenCommand(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == kCompleteCommand) return Complete;
  if (name == kShareCommand) return WriteShare;
  if (name == kReferenceCommand) return WriteReference;
  if (name == kNotifyCommand) return SendNotifications;
  return nullptr;
}

void SetUpProgram(CommandApp& app, Invocation& invocation) {
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", std::string("dtrain ") + kVersion,
                       "Show the version");
  app.require_subcommand(0, 1);
  app.fallthrough();
  AddGlobalOptions(app, invocation.globals);
  AddCommands(app, Commands(), invocation);
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
    const bool runs = SelectedWords(app) == "run ";
    return "unknown option '" + name + "'" + guess +
           (runs ? "; write -- before the program and its options" : "") +
           (guess.empty() ? "; see " + HelpHint(app) : "");
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
bool AsksForHelp(const std::vector<std::string>& words) {
  return !words.empty() && words.front() == "help";
}

// True if a word stands where the name of a command is expected.
bool HasUnknownCommand(const CLI::App& app) {
  if (SubcommandNames(Selected(app)).empty()) return false;
  return std::ranges::any_of(
      app.remaining(/*recurse=*/true),
      [](const std::string& word) { return !word.starts_with('-'); });
}

// Returns the words of a command line in reverse order, as CLI11 wants them.
// "--name=" becomes "--name" with an empty value; CLI11 would take the next
// word as its value. "help COMMAND" becomes "COMMAND --help".
std::vector<std::string> ReversedWords(
    const std::vector<std::string>& arguments) {
  const bool is_help = AsksForHelp(arguments);
  std::vector<std::string> words;
  bool options = true;
  for (const std::string& word :
       std::span(arguments).subspan(is_help ? 1 : 0)) {
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

ValueKind FindValueKind(std::string_view value) {
  static const std::map<std::string_view, ValueKind> kKinds = {
      {"CHECKPOINT", ValueKind::kSource}, {"CONFIG", ValueKind::kFile},
      {"CONTEXT", ValueKind::kDirectory}, {"DIR", ValueKind::kDirectory},
      {"EXP", ValueKind::kExperiment},    {"FILE", ValueKind::kFile},
      {"INPUT", ValueKind::kFile},        {"LABEL", ValueKind::kLabel},
      {"METRIC", ValueKind::kMetric},     {"SOURCE", ValueKind::kSource},
      {"TARGET", ValueKind::kSource},     {"TRIAL", ValueKind::kTrial},
      {"URL|DIR", ValueKind::kDirectory}, {"UUID", ValueKind::kCheckpoint},
      {"hp.NAME", ValueKind::kHparam}};
  const auto kind = kKinds.find(value);
  return kind == kKinds.end() ? ValueKind::kText : kind->second;
}

OptionInfo Describe(const CommandApp& app, const CLI::Option& option) {
  OptionInfo info{.required = option.get_required()};
  for (const std::string& name : option.get_snames()) {
    info.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    info.names.push_back("--" + name);
  }
  if (option.get_positional()) {
    info.names = {option.get_name(/*positional=*/true)};
    info.repeats = option.get_items_expected_max() > 1;
  } else if (option.get_type_size() != 0) {
    info.value = option.get_type_name();
  }
  const std::string initial = option.get_default_str();
  info.text = option.get_description() +
              (initial.empty() ? "" : " (default: " + initial + ")");
  const auto words = app.words.find(&option);
  if (words != app.words.end()) info.words = words->second;
  const auto kind = app.kinds.find(&option);
  info.kind =
      kind != app.kinds.end()
          ? kind->second
          : FindValueKind(info.value.empty() ? info.names[0] : info.value);
  return info;
}

// `parent`: "checkpoint " for its subcommands.
CommandInfo Describe(const CommandApp& app, const std::string& parent) {
  CommandInfo info{.name = app.get_name(),
                   .words = parent + app.get_name(),
                   .summary = app.get_description(),
                   .group = app.group,
                   .help = app.help};
  if (!app.get_aliases().empty()) info.alias = app.get_aliases().front();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    auto& list = option->get_positional() ? info.arguments : info.options;
    list.push_back(Describe(app, *option));
  }
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    info.subcommands.push_back(Describe(AsCommand(*sub), info.words + " "));
  }
  return info;
}

CommandInfo DescribeAll(const CommandApp& app) {
  CommandInfo program{
      .summary =
          "Run deep learning experiments and search their hyperparameters.",
      .help = CommandHelp{
          .notes =
              "An experiment is named by its number (3), by 'last' for "
              "the newest one, or by a name that no other one has; a "
              "trial by both numbers (3.7), a checkpoint by the first "
              "characters of its ID (0a1b2c3d). Several experiments may "
              "be a range (3-7). 'dtrain COMMAND --help' shows the options, "
              "exit codes and examples of a command. Commands of Determined's "
              "CLI work too: 'dtrain experiment --help' lists them."}};
  for (const CLI::Option* option : app.get_options()) {
    program.options.push_back(Describe(app, *option));
  }
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    program.subcommands.push_back(Describe(AsCommand(*sub), ""));
  }
  return program;
}

// The help of the command that stands before --help.
std::string Help(const CommandApp& app) {
  const CLI::App& selected = Selected(app);
  if (&selected == &app) return HelpText(DescribeAll(app));
  const std::string words = SelectedWords(app);
  const std::string parent =
      words.substr(0, words.size() - selected.get_name().size() - 1);
  return HelpText(Describe(AsCommand(selected), parent));
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

namespace {

// `name`: "path" for one; shells complete paths.
CLI::Validator RequireText(const std::string& what, const std::string& name) {
  return {[what](const std::string& text) {
            return text.empty() ? "is empty; give a " + what + ", or omit it"
                                : std::string();
          },
          /*description=*/"", name};
}

}  // namespace

const CliOption& CliOption::IsPath() const {
  option_->check(RequireText("path", "path"));
  return *this;
}

const CliOption& CliOption::NotEmpty() const {
  option_->check(RequireText("value", ""));
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
  AsCommand(*app_).words[option_] = words;
  return *this;
}

const CliOption& CliOption::Suggests(
    const std::vector<std::string>& words) const {
  AsCommand(*app_).words[option_] = words;
  return *this;
}

const CliOption& CliOption::Completes(ValueKind kind) const {
  AsCommand(*app_).kinds[option_] = kind;
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
  return {app, option};
}

template <typename T>
CliOption AddOption(CLI::App& app, const std::string& names, T& to,
                    const std::string& help) {
  return {app, app.add_option(names, to, help)};
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
  AsCommand(app).help = std::move(help);
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

CommandInfo DescribeProgram(const std::vector<std::string>& words) {
  Invocation invocation{
      .globals = GlobalOptions{.argv = words, .write_notice = IgnoreNotice}};
  CommandApp app;
  SetUpProgram(app, invocation);
  return DescribeAll(app);
}

CommandInfo DescribeProgram() {
  std::vector<std::string> names = CommandNames();
  for (const Command& command : Commands()) {
    if (command.subcommands == nullptr) continue;
    for (const Command& sub : command.subcommands()) {
      names.emplace_back(sub.name);
    }
  }
  return DescribeProgram(names);
}

namespace {

// Parses words of dtrain. REQUIRES: invocation.globals.argv has them.
void Parse(const std::vector<std::string>& words, Invocation& invocation) {
  CommandApp app;
  SetUpProgram(app, invocation);
  try {
    app.parse(ReversedWords(words));
    if (!invocation.run) invocation.run = Print(Help(app));
  } catch (const CLI::CallForVersion& version) {
    invocation.run = Print(std::string(version.what()) + "\n");
  } catch (const CLI::CallForHelp&) {
    if (HasUnknownCommand(app) ||
        (AsksForHelp(words) && !app.remaining(/*recurse=*/true).empty())) {
      throw Error(ErrorKind::kUsage, ExplainExtra(app));
    }
    invocation.run = Print(Help(app));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, Explain(app, error));
  }
}

}  // namespace

void ParseCommandLine(int argc, char** argv, Invocation& invocation) {
  invocation.globals.argv.assign(argv, argv + argc);
  if (const HiddenCommand* hidden = FindHiddenCommand(argc, argv)) {
    invocation.run = [hidden, argc, argv] {
      return hidden(std::vector<std::string>(argv + 2, argv + argc));
    };
    return;
  }
  const std::vector<std::string> arguments(argv + std::min(argc, 1),
                                           argv + argc);
  if (auto help = DeterminedHelp(arguments)) {
    invocation.run = Print(*std::move(help));
    return;
  }
  const std::vector<std::string> words = FromDetermined(arguments);
  invocation.globals.argv.resize(std::min(argc, 1));
  invocation.globals.argv.insert(invocation.globals.argv.end(), words.begin(),
                                 words.end());
  Parse(words, invocation);
}

}  // namespace dtrain
