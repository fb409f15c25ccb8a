#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace dtrain {

/// `--color`.
enum class ColorChoice { kAuto, kAlways, kNever };

/// What colours mean here; never the only carrier of a meaning.
enum class Tone { kPlain, kGood, kBad, kWarning, kDim, kStrong };

/// How to write to one stream.
struct TerminalMode {
  bool terminal = false;  // somebody looks at it
  bool color = false;
  bool redraw = false;    // lines may be drawn again in place
  std::size_t width = 0;  // columns; 0: no limit
  std::size_t height = 0;
};

/// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The rule of CONTRACT: no colour or redraw where `terminal` is false or
/// NO_COLOR, CI or TERM=dumb are set; a colour choice overrides that.
TerminalMode DecideMode(ColorChoice choice, bool terminal,
                        const Environment& environment);

/// The mode of this process's descriptor `fd`, its size included. Redrawing
/// also wants stdout to be a terminal.
TerminalMode ModeOf(int fd, ColorChoice choice);

/// `text` in the colour of `tone`, if there are colours.
std::string Paint(const TerminalMode& mode, Tone tone, std::string_view text);

}  // namespace dtrain
