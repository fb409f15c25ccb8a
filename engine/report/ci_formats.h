#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// A test case of a CI report: a trial, a requirement or a configuration.
struct CiCase {
  // kError: it could not be run.
  enum class Outcome { kPassed, kFailed, kError, kSkipped };

  std::string name;
  std::string class_name;
  double seconds = 0;
  Outcome outcome = Outcome::kPassed;
  std::string message;  // why it failed or was skipped
  std::string output;   // what it printed
};

/// The test cases of an experiment.
struct CiSuite {
  std::string name;
  std::string host;
  Timestamp time{0};
  double seconds = 0;
  std::vector<CiCase> cases;
};

/// Returns the suites as a JUnit XML document. Characters that XML does not
/// allow are escaped as `\x1b`.
std::string JunitXml(std::span<const CiSuite> suites);

/// A file format for test results, which an option selects.
struct CiFormat {
  const char* option;  // "--junit"
  const char* help;
  std::string (*render)(std::span<const CiSuite> suites);
};

/// All formats. Adding one is a function and a row here, a section of
/// docs/ci.md and proofs in tests/cli/cli_page.txt.
std::span<const CiFormat> CiFormats();

}  // namespace dtrain
