#include "engine/train/log_line.h"

#include <algorithm>
#include <string>

#include <unistd.h>

#include "engine/os/line_reader.h"

namespace dtrain {

void LogLine(LogLevel level, std::string_view text) {
  std::string line = "<" + std::to_string(static_cast<int>(level)) + ">";
  line += text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.insert(0, kLineBreak);
  line += '\n';
  // One write, so that lines of several threads do not mix. Errors are ignored:
  // the log is the only place to report them.
  (void)WriteAll(STDERR_FILENO, line);
}

}  // namespace dtrain
