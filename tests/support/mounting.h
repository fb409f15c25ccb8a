#pragma once

#include <string>
#include <vector>

#include <unistd.h>

#include "tests/support/cli_runner.h"

namespace dtrain {

/// What a command line begins with that is to mount file systems of its own:
/// they go with its processes.
inline std::vector<std::string> InOwnMounts() {
  std::vector<std::string> argv = {"unshare", "-m"};
  if (::geteuid() != 0) argv.insert(argv.end(), {"-U", "-r"});
  return argv;
}

/// Whether mounting works there. A container may forbid it.
inline bool MayMount(const CliRunner& runner) {
  std::vector<std::string> argv = InOwnMounts();
  argv.insert(argv.end(), {"mount", "-t", "tmpfs", "tmpfs", "/mnt"});
  return runner.RunProgram(argv).code == 0;
}

/// A script of bash there, in the runner's directory.
inline CliResult RunInOwnMounts(const CliRunner& runner,
                                const std::string& script) {
  std::vector<std::string> argv = InOwnMounts();
  argv.insert(argv.end(), {"bash", "-c", script});
  return runner.RunProgram(argv);
}

}  // namespace dtrain

/// At the beginning of a test that mounts.
#define SKIP_WHERE_MOUNTING_IS_FORBIDDEN(runner) \
  if (!MayMount(runner)) GTEST_SKIP() << "one may not mount here"
