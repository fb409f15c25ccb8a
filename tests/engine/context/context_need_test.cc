#include <fstream>

#include <gtest/gtest.h>

#include "engine/context/context_list.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

TEST(ContextNeedTest, CommandsAndExistingModelsNeedAContext) {
  const TemporaryDirectory directory;
  ExperimentConfig config;
  config.entrypoint = "builtin:FaultTrial";
  EXPECT_FALSE(NeedsContext(config, directory.path()));
  config.entrypoint = std::vector<std::string>{"./train.sh"};
  EXPECT_TRUE(NeedsContext(config, directory.path()));
  config.entrypoint = "model_def:MyTrial";
  EXPECT_FALSE(NeedsContext(config, directory.path()));
  std::ofstream(directory.path() / "model_def.cpp") << "//";
  EXPECT_TRUE(NeedsContext(config, directory.path()));
  config.entrypoint = "model_definition:MyTrial";
  EXPECT_FALSE(NeedsContext(config, directory.path()));
}

}  // namespace
}  // namespace dtrain
