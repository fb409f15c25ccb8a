#include <charconv>
#include <cstdio>
#include <string_view>

#include "engine/process/trial_host.h"
#include "engine/program/command_trial.h"

// `command-host SOCKET [--cuda]`: executed by the runner with a socket of that
// number, which it serves. Opens nothing that a GPU would need: that is the
// program's to do.
int main(int argc, char** argv) {
  int socket = -1;
  const std::string_view number = argc > 1 ? argv[1] : "";
  std::from_chars(number.data(), number.data() + number.size(), socket);
  if (socket < 0 || argc > 3) {
    std::fprintf(stderr,
                 "command-host: runs commands as trials for dtrain; not to be "
                 "called by hand, use 'dtrain create'\n");
    return 2;
  }
  return dtrain::RunTrialHost(socket, {.run_trial = dtrain::RunCommandTrial});
}
