// A SlurmCluster for scripts. Prints "SLURM_CONF=FILE" when it is ready, then
// "done" after each line "stop" or "start" of standard input, which ends or
// starts the controller. The cluster ends with standard input. Exits with 77
// and the reason if this machine cannot have a cluster.

#include <exception>
#include <iostream>
#include <optional>
#include <string>

#include "tests/support/slurm_cluster.h"

int main() try {
  std::optional<dtrain::SlurmCluster> cluster;
  if (const std::string why = dtrain::StartSlurm(cluster); !why.empty()) {
    std::cerr << why << std::endl;
    return 77;
  }
  std::cout << "SLURM_CONF=" << cluster->configuration() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "stop") cluster->StopController();
    if (line == "start") cluster->StartController();
    std::cout << "done" << std::endl;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
