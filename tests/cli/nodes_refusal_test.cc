// What `create` makes of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT that
// cannot be meant so: nothing.

#include <filesystem>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ranks/tcp.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class NodesRefusalTest : public testing::Test {
 protected:
  // As one of two processes on this machine, with `others` instead or besides.
  CliResult Create(std::map<std::string, std::string> others,
                   const std::string& yaml = "entrypoint: digits:LeNetTrial\n",
                   const std::vector<std::string>& flags = {}) const {
    dtrain_.Write("nodes.yaml",
                  yaml +
                      "searcher: {name: single, metric: val_loss, "
                      "max_length: {batches: 1}}\n"
                      "hyperparameters: {global_batch_size: 2}\n"
                      "resources: {slots: cpu:1}\n");
    others.merge(
        std::map<std::string, std::string>{{"RANK", "0"},
                                           {"WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", "29400"}});
    std::vector<std::string> words = {"create", "nodes.yaml"};
    words.insert(words.end(), flags.begin(), flags.end());
    return dtrain_.Run(words, {.environment = others});
  }
  void ExpectRefused(const CliResult& result, int code,
                     const std::string& text) const {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
  }

  CliRunner dtrain_;
};

TEST_F(NodesRefusalTest, VariablesThatCannotBe) {
  ExpectRefused(Create({{"RANK", "one"}}), 2, "RANK=one");
  ExpectRefused(Create({{"RANK", "2"}}), 2, "RANK=2");
  ExpectRefused(Create({{"WORLD_SIZE", "many"}}), 2, "WORLD_SIZE=many");
  ExpectRefused(Create({{"MASTER_ADDR", ""}}), 2, "MASTER_ADDR is not set");
  ExpectRefused(Create({{"MASTER_PORT", "0"}}), 2, "MASTER_PORT=0");
  ExpectRefused(Create({{"MASTER_ADDR", "no-such-host.invalid"}}), 2,
                "MASTER_ADDR=no-such-host.invalid");
}

TEST_F(NodesRefusalTest, APortInUse) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const std::string port = std::to_string(PortOf(listener.get()));
  const CliResult result = Create({{"MASTER_PORT", port}});
  ExpectRefused(result, 6, "127.0.0.1:" + port);
  EXPECT_THAT(result.err, HasSubstr("MASTER_PORT"));
}

TEST_F(NodesRefusalTest, ACommand) {
  ExpectRefused(Create({}, "entrypoint: ['true']\n"), 2,
                "WORLD_SIZE=2: a command is one process");
}

TEST_F(NodesRefusalTest, TheBackground) {
  ExpectRefused(Create({}, "entrypoint: digits:LeNetTrial\n", {"--detach"}), 2,
                "--detach");
}

TEST_F(NodesRefusalTest, NothingOfItMattersToADryRunOrToOneProcess) {
  EXPECT_EQ(Create({{"RANK", "one"}}, "entrypoint: digits:LeNetTrial\n",
                   {"--dry-run"})
                .code,
            0);
  EXPECT_EQ(Create({{"WORLD_SIZE", "1"}, {"RANK", "one"}},
                   "entrypoint: digits:LeNetTrial\n", {"--dry-run"})
                .code,
            0);
}

}  // namespace
}  // namespace dtrain
