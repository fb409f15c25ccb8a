#pragma once

#include <string>
#include <vector>

#include "engine/base/clock.h"

namespace dtrain {

/// One test case of a JUnit report.
struct JunitCase {
  enum class Outcome { kPassed, kFailed, kSkipped };

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

/// The suite as a JUnit XML document. Valid whatever the texts hold: what XML
/// cannot carry is written as `\x1b`.
std::string JunitXml(const JunitSuite& suite);

}  // namespace dtrain
