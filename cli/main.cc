#include <csignal>
#include <exception>
#include <iostream>
#include <new>

#include <fcntl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "engine/base/error.h"

namespace dtrain {
namespace {

// A closed stdin, stdout or stderr would give its number to the next file that
// is opened, and a message would be written into that file. Reading only: what
// is written to a closed stdout is then an error, as it should be.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) {
      [[maybe_unused]] const int opened = open("/dev/null", O_RDONLY);
    }
  }
}

int Complain(const std::string& text, int code, const Invocation& invocation) {
  SayError(invocation.globals, text);
  return code;
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  // Whoever started us may ignore it: `dtrain logs | head` ends quietly.
  std::signal(SIGPIPE, SIG_DFL);
  std::ios::sync_with_stdio(false);
  Invocation invocation;
  try {
    ParseCommandLine(argc, argv, invocation);
    const int code = invocation.run();
    FinishOutput();
    return code;
  } catch (const Error& error) {
    return Complain(error.what(), ExitCodeOf(error.kind()), invocation);
  } catch (const std::bad_alloc&) {
    return Complain("out of memory; free some, or ask for less at once",
                    kExitFailed, invocation);
  } catch (const std::exception& error) {
    return Complain(std::string("unexpected: ") + error.what() +
                        "; this is a bug of dtrain, please report it",
                    kExitFailed, invocation);
  }
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) { return dtrain::Main(argc, argv); }
