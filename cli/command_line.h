#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_help.h"
#include "cli/commands.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dtrain {

// A command describes its options with these; only command_line.cc includes the
// headers of CLI11, which cost a file 10 to 30 s of compiling.

/// An option, flag or positional argument of a command, to be described
/// further. A handle: copies are the same option.
class CliOption {
 public:
  CliOption(CLI::App& app, CLI::Option* option) : app_(&app), option_(option) {}

  /// Makes the option mandatory.
  const CliOption& Required() const;
  /// Sets the name of the value in the help.
  const CliOption& TypeName(const std::string& name) const;
  /// Shows the default in the help.
  const CliOption& ShowDefault() const;
  /// Requires a non-empty value, which an unset variable of the shell is not.
  const CliOption& NotEmpty() const;
  /// Requires a non-empty value, a path.
  const CliOption& IsPath() const;
  /// Takes one value per occurrence.
  const CliOption& OneEach() const;
  /// Requires an integer of at least `least`.
  const CliOption& AtLeast(std::int64_t least) const;
  /// Requires one of `words`.
  const CliOption& OneOf(const std::vector<std::string>& words) const;
  /// Lets shells complete these words, beside other values.
  const CliOption& Suggests(const std::vector<std::string>& words) const;
  /// Lets shells complete values of this kind. By default the name of the value
  /// decides: EXP, DIR, …
  const CliOption& Completes(ValueKind kind) const;
  /// Forbids, or requires, `other` on the same command line.
  const CliOption& Excludes(const CliOption& other) const;
  const CliOption& Needs(const CliOption& other) const;

 private:
  CLI::App* app_;
  CLI::Option* option_;
};

/// The flag "-f,--follow"; sets `to` to true. Empty `help`: not in the help.
CliOption AddFlag(CLI::App& app, const std::string& names, bool& to,
                  const std::string& help);

/// The option with these names, or the positional argument of this name; its
/// value goes to `to`: a string, an integer, an optional one, or a vector of
/// strings, which takes all that is given.
template <typename T>
CliOption AddOption(CLI::App& app, const std::string& names, T& to,
                    const std::string& help);

/// Sets the parts of the command's help that follow its options.
void SetHelp(CLI::App& app, CommandHelp help);

/// Exit codes of a command that reads a store.
std::vector<ExitMeaning> ReaderExits();

/// Exit codes of a command that runs an experiment.
std::vector<ExitMeaning> RunExits();

/// The command that the command line asks for.
struct Invocation {
  GlobalOptions globals;
  std::function<int()> run;  // returns the exit code
};

/// Parses the command line into `invocation` and sets its `run` (a request for
/// help is a command, too). Throws Error(kUsage), with a suggestion for a
/// mistyped word. `invocation` must outlive `run`.
void ParseCommandLine(int argc, char** argv, Invocation& invocation);

}  // namespace dtrain
