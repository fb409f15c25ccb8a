// File formats of CI reports.
//
// Formats are pure functions from suites to text. Texts of users may contain
// anything; control characters and characters that XML forbids are escaped, so
// that a report is valid XML whatever a trial printed.

#include "engine/report/ci_formats.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {
namespace {

std::string Attribute(const char* name, const std::string& value) {
  return " " + std::string(name) + "=\"" + EscapeXml(value) + "\"";
}

std::string Seconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", std::max(seconds, 0.0));
  return text.data();
}

std::string CaseXml(const CiCase& test) {
  std::string xml = "    <testcase" + Attribute("name", test.name) +
                    Attribute("classname", test.class_name) +
                    Attribute("time", Seconds(test.seconds)) + ">\n";
  if (test.outcome == CiCase::Outcome::kFailed) {
    xml += "      <failure" + Attribute("message", test.message) + "/>\n";
  }
  if (test.outcome == CiCase::Outcome::kError) {
    xml += "      <error" + Attribute("message", test.message) + "/>\n";
  }
  if (test.outcome == CiCase::Outcome::kSkipped) {
    xml += "      <skipped" + Attribute("message", test.message) + "/>\n";
  }
  if (!test.output.empty()) {
    xml += "      <system-out>" + EscapeXml(test.output) + "</system-out>\n";
  }
  return xml + "    </testcase>\n";
}

// Returns the number of cases of each outcome, and their time, as attributes.
std::string Numbers(const CiSuite& suite) {
  const auto count = [&](CiCase::Outcome outcome) {
    return std::to_string(
        std::ranges::count(suite.cases, outcome, &CiCase::outcome));
  };
  return Attribute("tests", std::to_string(suite.cases.size())) +
         Attribute("failures", count(CiCase::Outcome::kFailed)) +
         Attribute("errors", count(CiCase::Outcome::kError)) +
         Attribute("skipped", count(CiCase::Outcome::kSkipped)) +
         Attribute("time", Seconds(suite.seconds));
}

std::string SuiteXml(const CiSuite& suite) {
  const std::string time = FormatTimestamp(suite.time);
  std::string xml = "  <testsuite" + Attribute("name", suite.name) +
                    Numbers(suite) +
                    Attribute("timestamp", time.substr(0, time.find('.'))) +
                    Attribute("hostname", suite.host) + ">\n";
  for (const CiCase& test : suite.cases) xml += CaseXml(test);
  return xml + "  </testsuite>\n";
}

}  // namespace

std::string JunitXml(std::span<const CiSuite> suites) {
  CiSuite all;
  std::string xml;
  for (const CiSuite& suite : suites) {
    xml += SuiteXml(suite);
    all.seconds += suite.seconds;
    all.cases.insert(all.cases.end(), suite.cases.begin(), suite.cases.end());
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         Numbers(all) + ">\n" + xml + "</testsuites>\n";
}

std::span<const CiFormat> CiFormats() {
  static constexpr std::array kFormats = {
      CiFormat{"--junit", "Write a JUnit XML report", JunitXml},
  };
  return kFormats;
}

}  // namespace dtrain
