#include <charconv>
#include <cstdio>
#include <string_view>

#include "engine/process/trial_host.h"
#include "models/trial_api.h"

// `trial-host SOCKET [--cuda]`: executed by the runner with a socket of that
// number, which it serves. LibTorch is opened by the dynamic linker, before.
// `trial-host --trials LIBRARY` prints the names of the trials in it.
int main(int argc, char** argv) {
  int socket = -1;
  const std::string_view number = argc > 1 ? argv[1] : "";
  if (argc == 3 && number == "--trials") {
    return DtrainListModels(argv[2], [](const char* text) { std::puts(text); });
  }
  std::from_chars(number.data(), number.data() + number.size(), socket);
  const bool cuda = argc == 3 && std::string_view(argv[2]) == "--cuda";
  if (socket < 0 || argc > 3 || (argc == 3 && !cuda)) {
    std::fprintf(stderr,
                 "trial-host: runs trials for dtrain; not to be called by "
                 "hand, use 'dtrain create'\n");
    return 2;
  }
  // Without it every trial would fail on its GPU; the reason is printed.
  if (cuda && DtrainOpenCuda() != 0) return 1;
  return dtrain::RunTrialHost(socket, {.run_trial = DtrainRunTrial});
}
