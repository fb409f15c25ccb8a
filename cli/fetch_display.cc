#include "cli/fetch_display.h"

#include <algorithm>
#include <iostream>

#include <unistd.h>

#include "cli/output.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kRedraw{100};
constexpr seconds kSparse{10};

}  // namespace

FetchDisplay::FetchDisplay(const GlobalOptions& globals)
    : globals_(globals), mode_(ModeOf(STDERR_FILENO, globals.color)) {}

void FetchDisplay::Begin(std::string_view file, std::int64_t bytes,
                         Instant now) {
  Clear();
  file_ = file;
  began_ = now;
  began_with_ = bytes;
  // At first after a moment: what is done by then needs no line.
  shown_ = mode_.redraw ? now - kRedraw : now;
}

std::string FetchDisplay::Line(std::int64_t bytes, std::int64_t expected,
                               Instant now) const {
  const std::int64_t percent =
      expected > 0 ? std::min<std::int64_t>(100, bytes * 100 / expected) : 0;
  std::string line = file_ + ": " + FormatBytes(bytes) + " of " +
                     FormatBytes(expected) + ", " + std::to_string(percent) +
                     "%";
  const double elapsed = std::chrono::duration<double>(now - began_).count();
  const std::int64_t came = bytes - began_with_;
  if (elapsed < 0.5 || came <= 0) return line;
  const double speed = static_cast<double>(came) / elapsed;
  const double left =
      static_cast<double>(std::max<std::int64_t>(0, expected - bytes)) / speed;
  return line + ", " + FormatBytes(static_cast<std::int64_t>(speed)) + "/s, " +
         FormatElapsed(std::chrono::duration_cast<Duration>(
             std::chrono::duration<double>(std::min(left, 1e6)))) +
         " left";
}

void FetchDisplay::Show(std::string_view file, std::int64_t bytes,
                        std::int64_t expected) {
  if (globals_.quiet) return;
  const Instant now = steady_clock::now();
  // Fewer than before: it was begun anew.
  if (file != file_ || bytes < began_with_) Begin(file, bytes, now);
  if (now - shown_ < (mode_.redraw ? steady_clock::duration(kRedraw)
                                   : steady_clock::duration(kSparse))) {
    return;
  }
  shown_ = now;
  std::string line = "dtrain: " + EscapeForTerminal(Line(bytes, expected, now));
  if (!mode_.redraw) {
    std::cerr << line << '\n';
    return;
  }
  if (mode_.width > 1) line = Truncate(line, mode_.width - 1);
  std::cerr << "\r\x1b[K" << line << std::flush;
  drawn_ = true;
}

void FetchDisplay::Say(const std::string& text) {
  Clear();
  dtrain::Say(globals_, text);
}

void FetchDisplay::Clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace dtrain
