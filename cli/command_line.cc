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

#include "cli/build_info.h"
#include "cli/exit_code.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

CLI::Validator WholeNumber(std::int64_t least) {
  // CLI11 takes a text as what is wrong, an empty one as consent.
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && value >= least) return "";
    return "wants a whole number of at least " + std::to_string(least) +
           ", not '" + text + "'";
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
  const std::string all = Join(words, ",");
  const auto check = [words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    return "wants " + Alternatives(words) + ", not '" + text + "'" +
           DidYouMean(text, words);
  };
  return {check, "{" + all + "}", "word"};
}

constexpr std::size_t kNameColumn = 18;

// CLI11's, without its words on what is required, repeated or excluded: they
// make the help long, and the errors say them.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    const std::string initial = option->get_default_str();
    return " " + option->get_type_name() +
           (initial.empty() ? "" : " [" + initial + "]");
  }
};

ColorChoice ColorFromName(const std::string& word) {
  if (word == "auto") return ColorChoice::kAuto;
  if (word == "always") return ColorChoice::kAlways;
  if (word == "never") return ColorChoice::kNever;
  throw Error(ErrorKind::kUsage,
              "--color: wants auto, always or never, not '" + word + "'");
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& globals) {
  AddOption(app, "--store", globals.store, "Directory of the store")
      .TypeName("DIR")
      .IsPath();
  app.add_option_function<std::string>(
         "--color",
         [&globals](const std::string& word) {
           globals.color = ColorFromName(word);
         },
         "auto, always or never")
      ->type_name("WHEN");
  auto* verbose = app.add_flag("-v,--verbose", globals.verbose, "Say more");
  app.add_flag("-q,--quiet", globals.quiet, "Say only facts and errors")
      ->excludes(verbose);
  app.add_flag("--allow-network-fs", globals.allow_network_fs,
               "Write to a store on a network file system")
      ->envname("DTRAIN_ALLOW_NETWORK_FS");
}

std::vector<std::string> SubcommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    names.push_back(sub->get_name());
  }
  return names;
}

// A callback and not require_subcommand, whose message would hide the one about
// a mistyped subcommand.
void RequireSubcommand(CLI::App& app) {
  app.callback([&app] {
    if (!app.get_subcommands().empty()) return;
    throw Error(ErrorKind::kUsage, app.get_name() + ": what of it? give " +
                                       Alternatives(SubcommandNames(app)) +
                                       "; see 'dtrain " + app.get_name() +
                                       " --help'");
  });
}

void AddCommands(CLI::App& app, std::span<const Command> commands,
                 Invocation& invocation) {
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name),
                                       std::string(command.summary));
    if (!command.alias.empty()) sub->alias(std::string(command.alias));
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

// The subcommand that was named, the innermost, or the program itself.
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
           (guess.empty() ? "; 'dtrain --help' lists them all" : guess);
  }
  const auto subcommands = SubcommandNames(Selected(app));
  if (!subcommands.empty()) {
    return "unknown command '" + SelectedWords(app) + word + "'; there are " +
           Join(subcommands, ", ");
  }
  return Where(app) + "unexpected argument " + shown + "; see " + HelpHint(app);
}

// CLI11's own words, as one lowercase line.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return ExplainExtra(app);
  }
  std::string text = error.what();
  text.erase(std::min(text.find('\n'), text.size()));
  const bool word = text.size() > 1 && std::islower(text[1]) != 0;
  if (word) text[0] = static_cast<char>(std::tolower(text[0]));
  if (text.ends_with('?')) return Where(app) + text;
  return Where(app) + text + "; see " + HelpHint(app);
}

// Returns the words after the program's name in reverse order, as CLI11 wants
// them. "--name=" becomes "--name" with an empty value; CLI11 would take the
// next word as its value.
std::vector<std::string> ReversedWords(int argc, char** argv) {
  std::vector<std::string> words;
  bool options = true;
  for (const std::string word : std::span(argv, argc).subspan(1)) {
    options = options && word != "--";
    const bool empty =
        options && word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(empty ? word.substr(0, word.size() - 1) : word);
    if (empty) words.emplace_back();
  }
  std::ranges::reverse(words);
  return words;
}

std::function<int()> Print(std::string text) {
  return [text = std::move(text)] {
    std::cout << text;
    return kExitDone;
  };
}

std::string MainHelp() {
  std::string text =
      "dtrain runs experiments and searches hyperparameters.\n"
      "Usage: dtrain [--store DIR] [--color WHEN] [-v|-q] "
      "[--allow-network-fs] COMMAND\n\n";
  std::string line = "\nmore:";
  std::string more;
  for (const Command& command : Commands()) {
    std::string name = "  " + std::string(command.name);
    if (command.rare) {
      if (line.size() + name.size() > 79) {
        more += line + "\n";
        line = "     ";
      }
      line += name;
      continue;
    }
    name.resize(std::max(name.size() + 1, kNameColumn), ' ');
    text += name + std::string(command.summary) + "\n";
  }
  return text + more + line + "\n" +
         "\n'dtrain COMMAND --help' says more; 'dtrain --version' the "
         "version.\n";
}

// Of what was named before --help.
std::string Help(const CLI::App& app) {
  const CLI::App& selected = Selected(app);
  if (&selected == &app) return MainHelp();
  std::string words = "dtrain " + SelectedWords(app);
  words.resize(words.size() - selected.get_name().size() - 2);
  std::string text = selected.help(words);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
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
        return text.empty() ? "is empty; give a path, or leave it out" : "";
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

void SetFooter(CLI::App& app, const std::string& text) { app.footer(text); }

void ParseCommandLine(int argc, char** argv, Invocation& invocation) {
  invocation.globals.argv.assign(argv, argv + argc);
  CLI::App app("", "dtrain");
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", std::string("dtrain ") + kVersion);
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(0, 1);
  app.fallthrough();
  AddGlobalOptions(app, invocation.globals);
  AddCommands(app, Commands(), invocation);
  try {
    app.parse(ReversedWords(argc, argv));
    if (!invocation.run) invocation.run = Print(MainHelp());
  } catch (const CLI::CallForVersion& version) {
    invocation.run = Print(std::string(version.what()) + "\n");
  } catch (const CLI::CallForHelp&) {
    invocation.run = Print(Help(app));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, Explain(app, error));
  }
}

}  // namespace dtrain
