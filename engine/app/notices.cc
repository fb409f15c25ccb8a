#include "engine/app/notices.h"

#include <string_view>
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

void PrintLine(const GlobalOptions& globals, const std::string& text) {
  const TerminalMode mode = GetTerminalMode(STDERR_FILENO, globals.color);
  WriteNotice(
      globals,
      WrapText(EscapeForTerminal(text), 0, kWrapIndent, mode.width) + "\n");
}

void PrintNotice(const GlobalOptions& globals, const std::string& text) {
  if (!globals.quiet) PrintLine(globals, "dtrain: " + text);
}

void PrintError(const GlobalOptions& globals, const std::string& text) {
  const TerminalMode mode = GetTerminalMode(STDERR_FILENO, globals.color);
  constexpr std::string_view kBegin = "dtrain: error: ";
  WriteNotice(globals, "dtrain: " + Paint(mode, Tone::kBad, "error:") + " " +
                           WrapText(EscapeForTerminal(text), kBegin.size(),
                                    kWrapIndent, mode.width) +
                           "\n");
}

}  // namespace dtrain
