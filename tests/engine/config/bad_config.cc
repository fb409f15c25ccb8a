#include "tests/engine/config/bad_config.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>

namespace dtrain {

Diagnostics FindingsOf(const std::string& text, Severity severity) {
  const ConfigResult result = ReadConfig(text, {.file_name = "bad.yaml"});
  Diagnostics found;
  std::copy_if(result.diagnostics.begin(), result.diagnostics.end(),
               std::back_inserter(found),
               [&](const auto& one) { return one.severity == severity; });
  return found;
}

void ExpectRefused(const BadConfig& bad) {
  EXPECT_FALSE(ReadConfig(bad.text, {.file_name = "bad.yaml"}).config);
  const Diagnostics errors = FindingsOf(bad.text, Severity::kError);
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

}  // namespace dtrain
