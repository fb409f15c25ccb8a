// Every command of the README, in its order, as a reader would type it.

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// Creates the files that the README's commands name but do not create.
void LayOutCheckout(const fs::path& directory) {
  fs::create_directory(directory / "scripts");
  fs::create_symlink(DTRAIN_BINARY, directory / "scripts/dtrain");
  fs::create_symlink(fs::path(DTRAIN_SOURCE_DIR) / "configs",
                     directory / "configs");
}

// Accuracy of the model after as many batches as the search gives its best,
// with the default hyperparameters.
double UntunedAccuracy(const CliRunner& dtrain) {
  dtrain.Write("untuned.yaml",
               "entrypoint: digits:LeNetTrial\n"
               "hyperparameters: {dataset: strokes, global_batch_size: 64}\n"
               "searcher: {name: single, metric: val_accuracy,\n"
               "           smaller_is_better: false, max_length: 3200}\n"
               "reproducibility: {experiment_seed: 7}\n");
  const CliResult result = dtrain.Run({"create", "untuned.yaml", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  return result.Json()["best"]["value"];
}

// Number of trials of experiment 1 that gave their slot away and resumed later.
int PausedAndPromoted(const CliRunner& dtrain) {
  int trials = 0;
  const json listed = dtrain.Run({"trials", "1", "--json"}).Json();
  for (const json& trial : listed["trials"]) {
    trials += trial["rung"] > 1 && trial["runs"] > 1;
  }
  return trials;
}

TEST(ReadmeTest, CommandsWork) {
  const std::vector<std::string> commands = ReadmeCommands();
  ASSERT_GE(commands.size(), 8);
  const CliRunner dtrain;
  LayOutCheckout(dtrain.directory());
  for (const std::string& command : commands) {
    const CliResult result = dtrain.RunProgram({"bash", "-c", command});
    EXPECT_EQ(result.code, 0) << command << '\n' << result.err;
    // A command that shows lines prints some.
    const bool lists = command.find(" logs ") != command.npos;
    EXPECT_FALSE(lists && result.out.empty()) << command << '\n' << result.err;
  }
  const json search = dtrain.Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(search["state"], "COMPLETED");
  EXPECT_GE(search["best"]["value"], 0.98);
  EXPECT_GT(search["best"]["value"], UntunedAccuracy(dtrain));
  EXPECT_GT(PausedAndPromoted(dtrain), 0);
}

}  // namespace
}  // namespace dtrain
