#include "engine/report/terminal.h"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace dtrain {
namespace {

bool IsSet(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr && *value != '\0';
}

std::string_view Sequence(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[31m";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kDim:
      return "\x1b[2m";
    case Tone::kStrong:
      return "\x1b[1m";
  }
  return "";
}

}  // namespace

TerminalMode DecideMode(ColorChoice choice, bool terminal,
                        const Environment& environment) {
  const char* term = environment("TERM");
  const bool plain = !terminal || IsSet(environment, "NO_COLOR") ||
                     IsSet(environment, "CI") ||
                     (term != nullptr && std::string_view(term) == "dumb");
  const bool color = choice == ColorChoice::kAlways ||
                     (choice == ColorChoice::kAuto && !plain);
  return {.terminal = terminal, .color = color, .redraw = !plain};
}

TerminalMode ModeOf(int fd, ColorChoice choice) {
  TerminalMode mode = DecideMode(choice, isatty(fd) != 0,
                                 [](const char* name) { return getenv(name); });
  if (isatty(STDOUT_FILENO) == 0) mode.redraw = false;
  winsize size{};
  if (mode.terminal && ioctl(fd, TIOCGWINSZ, &size) == 0) {
    mode.width = size.ws_col;
    mode.height = size.ws_row;
  }
  return mode;
}

std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text) {
  if (!mode.color || tone == Tone::kPlain) return std::string(text);
  return std::string(Sequence(tone)) + std::string(text) + "\x1b[0m";
}

}  // namespace dtrain
