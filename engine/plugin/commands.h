#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace dtrain {

/// A program to run; all that it prints goes to `output`.
struct ProgramRun {
  std::vector<std::string> argv;
  std::filesystem::path output;
};

/// How a program ended.
struct ProgramEnd {
  int exit_code = 0;  // −1: by `signal`, or it could not be started
  int signal = 0;
  std::string output;
  std::string not_started;  // why, or empty

  bool success() const { return exit_code == 0 && not_started.empty(); }
};

/// Runs the programs, without a shell and with no input, at most `at_once` at
/// the same time, and waits for all of them; what they print is cut at 1 MB.
/// The ends come in the order of `runs`.
std::vector<ProgramEnd> RunPrograms(const std::vector<ProgramRun>& runs,
                                    std::size_t at_once);

}  // namespace dtrain
