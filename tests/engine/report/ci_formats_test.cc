#include "engine/report/ci_formats.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

using Outcome = CiCase::Outcome;

TEST(JunitTest, WritesACaseForEachOutcome) {
  const CiSuite suite{
      .name = "digits",
      .host = "box",
      .time = Timestamp(0),
      .seconds = 2.5,
      .cases = {{.name = "trial 1.1", .class_name = "digits", .seconds = 1},
                {.name = "trial 1.2",
                 .class_name = "digits",
                 .outcome = Outcome::kFailed,
                 .message = "crashed",
                 .output = "one\ntwo"},
                {.name = "trial 1.3", .outcome = Outcome::kSkipped}}};

  EXPECT_EQ(JunitXml(std::span(&suite, 1)),
            R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" errors="0" skipped="1" time="2.500">
  <testsuite name="digits" tests="3" failures="1" errors="0" skipped="1" )"
            R"(time="2.500" timestamp="1970-01-01T00:00:00" hostname="box">
    <testcase name="trial 1.1" classname="digits" time="1.000">
    </testcase>
    <testcase name="trial 1.2" classname="digits" time="0.000">
      <failure message="crashed"/>
      <system-out>one&#10;two</system-out>
    </testcase>
    <testcase name="trial 1.3" classname="" time="0.000">
      <skipped message=""/>
    </testcase>
  </testsuite>
</testsuites>
)");
}

TEST(JunitTest, CountsErrorsAndSuites) {
  const CiSuite refused{.name = "a.yaml",
                        .cases = {{.name = "configuration",
                                   .outcome = Outcome::kError,
                                   .message = "2 errors"}}};
  const CiSuite passed{.name = "b", .cases = {{.name = "trial 1.1"}}};

  const std::string xml = JunitXml(std::vector{refused, passed});

  EXPECT_NE(xml.find("<testsuites tests=\"2\" failures=\"0\" errors=\"1\""),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("<error message=\"2 errors\"/>"), std::string::npos);
  EXPECT_NE(xml.find("<testsuite name=\"b\" tests=\"1\""), std::string::npos);
}

TEST(JunitTest, EscapesTexts) {
  const CiSuite suite{.name = "<&\">\x1b\xff\xEF\xBF\xBE"};

  EXPECT_NE(JunitXml(std::span(&suite, 1))
                .find(R"(name="&lt;&amp;&quot;&gt;\x1b\xff\ufffe")"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain
