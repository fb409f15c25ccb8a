#pragma once

#include <algorithm>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"

namespace dtrain {

/// A configuration with one error, and the expected finding.
struct BadConfig {
  const char* name;  // of the test
  std::string text;
  int line;
  int column;
  const char* key;
  const char* says;  // part of the message
};

/// Returns the findings of one severity about `text`, read from "bad.yaml".
inline Diagnostics ReadFindings(const std::string& text, Severity severity) {
  const ConfigResult result = ReadConfig(text, {.file_name = "bad.yaml"});
  Diagnostics found;
  std::copy_if(result.diagnostics.begin(), result.diagnostics.end(),
               std::back_inserter(found),
               [&](const auto& one) { return one.severity == severity; });
  return found;
}

/// Expects exactly the one error that `bad` describes, and no configuration.
inline void ExpectRefused(const BadConfig& bad) {
  EXPECT_FALSE(ReadConfig(bad.text, {.file_name = "bad.yaml"}).config);
  const Diagnostics errors = ReadFindings(bad.text, Severity::kError);
  ASSERT_EQ(errors.size(), 1u) << testing::PrintToString([&] {
    std::string all;
    for (const auto& error : errors) all += error.ToString() + '\n';
    return all;
  }());
  EXPECT_EQ(errors[0].file, "bad.yaml");
  EXPECT_EQ(errors[0].line, bad.line);
  EXPECT_EQ(errors[0].column, bad.column);
  EXPECT_EQ(errors[0].key, bad.key);
  EXPECT_THAT(errors[0].message, testing::HasSubstr(bad.says));
}

/// A valid experiment of two lines; additions start at line 3.
inline const std::string kValid =
    "entrypoint: digits:LeNetTrial\n"
    "searcher: {name: single, metric: loss, max_length: 100}\n";

/// An experiment with an open section `searcher`; additions start at line 4.
inline const std::string kSearcher =
    "entrypoint: digits:LeNetTrial\n"
    "searcher:\n"
    "  metric: loss\n";

// Names a parametrised test after its case.
inline std::string CaseName(const testing::TestParamInfo<BadConfig>& info) {
  return info.param.name;
}

}  // namespace dtrain
