#include "engine/report/junit.h"

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

std::string CaseXml(const JunitCase& test) {
  std::string xml = "    <testcase" + Attribute("name", test.name) +
                    Attribute("classname", test.class_name) +
                    Attribute("time", Seconds(test.seconds)) + ">\n";
  if (test.outcome == JunitCase::Outcome::kFailed) {
    xml += "      <failure" + Attribute("message", test.message) + "/>\n";
  }
  if (test.outcome == JunitCase::Outcome::kError) {
    xml += "      <error" + Attribute("message", test.message) + "/>\n";
  }
  if (test.outcome == JunitCase::Outcome::kSkipped) {
    xml += "      <skipped" + Attribute("message", test.message) + "/>\n";
  }
  if (!test.output.empty()) {
    xml += "      <system-out>" + EscapeXml(test.output) + "</system-out>\n";
  }
  return xml + "    </testcase>\n";
}

// How many cases there are of each outcome, and how long they took.
std::string Numbers(const JunitSuite& suite) {
  const auto count = [&](JunitCase::Outcome outcome) {
    return std::to_string(
        std::ranges::count(suite.cases, outcome, &JunitCase::outcome));
  };
  return Attribute("tests", std::to_string(suite.cases.size())) +
         Attribute("failures", count(JunitCase::Outcome::kFailed)) +
         Attribute("errors", count(JunitCase::Outcome::kError)) +
         Attribute("skipped", count(JunitCase::Outcome::kSkipped)) +
         Attribute("time", Seconds(suite.seconds));
}

std::string SuiteXml(const JunitSuite& suite) {
  const std::string time = FormatTimestamp(suite.time);
  std::string xml = "  <testsuite" + Attribute("name", suite.name) +
                    Numbers(suite) +
                    Attribute("timestamp", time.substr(0, time.find('.'))) +
                    Attribute("hostname", suite.host) + ">\n";
  for (const JunitCase& test : suite.cases) xml += CaseXml(test);
  return xml + "  </testsuite>\n";
}

}  // namespace

std::string JunitXml(std::span<const JunitSuite> suites) {
  JunitSuite all;
  std::string xml;
  for (const JunitSuite& suite : suites) {
    xml += SuiteXml(suite);
    all.seconds += suite.seconds;
    all.cases.insert(all.cases.end(), suite.cases.begin(), suite.cases.end());
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         Numbers(all) + ">\n" + xml + "</testsuites>\n";
}

}  // namespace dtrain
