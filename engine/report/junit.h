#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// One test case of a JUnit report.
struct JunitCase {
  // kError: it could not even be run.
  enum class Outcome { kPassed, kFailed, kError, kSkipped };

  std::string name;
  std::string class_name;
  double seconds = 0;
  Outcome outcome = Outcome::kPassed;
  std::string message;  // why it failed or was skipped
  std::string output;   // what it printed
};

struct JunitSuite {
  std::string name;
  std::string host;
  Timestamp time{0};
  double seconds = 0;
  std::vector<JunitCase> cases;
};

/// The suites as a JUnit XML document. Valid whatever the texts hold: what XML
/// cannot carry is written as `\x1b`.
std::string JunitXml(std::span<const JunitSuite> suites);

}  // namespace dtrain
