#include "engine/app/notices.h"

#include <type_traits>

#include <unistd.h>

#include "engine/base/text.h"

namespace dtrain {

// `PrintNotice({}, text)` would print nothing.
static_assert(!std::is_default_constructible_v<GlobalOptions>);

void IgnoreNotice(const std::string& /*text*/) {}

void WriteNotice(const GlobalOptions& globals, const std::string& text) {
  globals.write_notice(text);
}

void PrintNotice(const GlobalOptions& globals, const std::string& text) {
  if (globals.quiet) return;
  WriteNotice(globals, "dtrain: " + EscapeForTerminal(text) + "\n");
}

void PrintError(const GlobalOptions& globals, const std::string& text) {
  const TerminalMode mode = GetTerminalMode(STDERR_FILENO, globals.color);
  WriteNotice(globals, "dtrain: " + Paint(mode, Tone::kBad, "error:") + " " +
                           EscapeForTerminal(text) + "\n");
}

}  // namespace dtrain
