// The configurations that come with dtrain.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Configurations() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(DTRAIN_CONFIGS_DIR)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST(ConfigsTest, AllAreValid) {
  const std::vector<std::string> files = Configurations();
  ASSERT_GE(files.size(), 18);
  const CliRunner dtrain;
  for (const std::string& file : files) {
    const CliResult result = dtrain.Run({"create", file, "--dry-run"});
    EXPECT_EQ(result.code, 0) << file << '\n' << result.err;
    // Data missing on this machine is not an error of the file.
    EXPECT_THAT(result.err,
                testing::Not(testing::ContainsRegex("yaml:[0-9][^\n]*warning")))
        << file;
  }
}

}  // namespace
}  // namespace dtrain
