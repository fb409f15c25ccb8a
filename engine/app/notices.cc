#include "engine/app/notices.h"

#include <iostream>

#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {

void Say(const GlobalOptions& globals, const std::string& text) {
  if (globals.quiet) return;
  std::cerr << "dtrain: " << EscapeForTerminal(text) << '\n';
}

void SayError(const GlobalOptions& globals, const std::string& text) {
  // Keeps the order of stdout and stderr on a terminal.
  std::cout.flush();
  const TerminalMode mode = ModeOf(STDERR_FILENO, globals.color);
  std::cerr << "dtrain: " << Paint(mode, Tone::kBad, "error:") << ' '
            << EscapeForTerminal(text) << '\n';
}

}  // namespace dtrain
