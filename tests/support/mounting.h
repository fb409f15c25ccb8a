#pragma once

#include <string>
#include <vector>

#include <unistd.h>

#include "tests/support/cli_runner.h"

namespace dtrain {

/// Returns the beginning of a command line that may mount file systems, which
/// disappear with its processes.
inline std::vector<std::string> InOwnMounts() {
  std::vector<std::string> argv = {"unshare", "-m"};
  if (::geteuid() != 0) argv.insert(argv.end(), {"-U", "-r"});
  return argv;
}

/// True if mounting is permitted. A container may forbid it.
inline bool MayMount(const CliRunner& runner) {
  std::vector<std::string> argv = InOwnMounts();
  argv.insert(argv.end(), {"mount", "-t", "tmpfs", "tmpfs", "/mnt"});
  return runner.RunProgram(argv).code == 0;
}

/// Runs a bash script that may mount, in the runner's directory.
inline CliResult RunInOwnMounts(const CliRunner& runner,
                                const std::string& script) {
  std::vector<std::string> argv = InOwnMounts();
  argv.insert(argv.end(), {"bash", "-c", script});
  return runner.RunProgram(argv);
}

}  // namespace dtrain

/// Must begin every test that mounts.
#define SKIP_WHERE_MOUNTING_IS_FORBIDDEN(runner) \
  if (!MayMount(runner)) GTEST_SKIP() << "one may not mount here"
