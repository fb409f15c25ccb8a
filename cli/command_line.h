#pragma once

#include <string>

#include "cli/commands.h"

namespace dtrain {

/// Parses the words of the command line into `invocation`, whose `run` is set
/// afterwards (a call for help is a command too). Throws Error(kUsage) in our
/// words, with a suggestion for what was mistyped. `invocation` must outlive
/// what it then runs.
void ParseCommandLine(int argc, char** argv, Invocation& invocation);

/// What `dtrain` and `dtrain --help` print.
std::string MainHelp();

}  // namespace dtrain
