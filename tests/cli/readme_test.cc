// Every command of the README, in its order, as a reader would type it.

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// The commands of the README's `sh` blocks, and of its `console` blocks, where
// they follow a dollar sign. scripts/test is left out: it is what runs this.
std::vector<std::string> ReadmeCommands() {
  std::ifstream readme(fs::path(DTRAIN_SOURCE_DIR) / "README.md");
  std::vector<std::string> commands;
  std::string block;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("```")) {
      block = line.substr(3);
    } else if (block == "sh" && !line.empty()) {
      commands.push_back(line);
    } else if (block == "console" && line.starts_with("$ ")) {
      commands.push_back(line.substr(2));
    }
  }
  std::erase(commands, "scripts/test");
  return commands;
}

// What the README's commands name, beside the files they make.
void LayOutCheckout(const fs::path& directory) {
  fs::create_directory(directory / "scripts");
  fs::create_symlink(DTRAIN_BINARY, directory / "scripts/dtrain");
  fs::create_symlink(fs::path(DTRAIN_SOURCE_DIR) / "configs",
                     directory / "configs");
}

TEST(ReadmeTest, HasCommandsThatWork) {
  const std::vector<std::string> commands = ReadmeCommands();
  ASSERT_GE(commands.size(), 8);
  const CliRunner dtrain;
  LayOutCheckout(dtrain.directory());
  for (const std::string& command : commands) {
    const CliResult result = dtrain.RunProgram({"bash", "-c", command});
    EXPECT_EQ(result.code, 0) << command << '\n' << result.err;
  }
  const CliResult digits = dtrain.Run({"describe", "1", "--json"});
  EXPECT_EQ(digits.Json()["state"], "COMPLETED");
  EXPECT_GE(digits.Json()["best"]["value"], 0.98);
}

}  // namespace
}  // namespace dtrain
