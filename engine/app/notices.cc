#include "engine/app/notices.h"

#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {

void WriteNotice(const GlobalOptions& globals, const std::string& text) {
  if (globals.write_notice) globals.write_notice(text);
}

void Say(const GlobalOptions& globals, const std::string& text) {
  if (globals.quiet) return;
  WriteNotice(globals, "dtrain: " + EscapeForTerminal(text) + "\n");
}

void SayError(const GlobalOptions& globals, const std::string& text) {
  const TerminalMode mode = ModeOf(STDERR_FILENO, globals.color);
  WriteNotice(globals, "dtrain: " + Paint(mode, Tone::kBad, "error:") + " " +
                           EscapeForTerminal(text) + "\n");
}

}  // namespace dtrain
