// `dtrain create` with a model_def.cpp, compiled for real: a quarter of a
// minute each, so the tests are few and long.

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OwnModelTest : public testing::Test {
 protected:
  OwnModelTest() { EXPECT_EQ(dtrain_.Run({"init", "mine"}).code, 0); }

  // Replaces `what` in the model.
  void Edit(const std::string& what, const std::string& by) const {
    const fs::path file = dtrain_.directory() / "mine/model_def.cpp";
    std::ifstream in(file);
    std::string text(std::istreambuf_iterator<char>(in), {});
    const std::size_t at = text.find(what);
    ASSERT_NE(at, text.npos);
    std::ofstream(file, std::ios::trunc) << text.replace(at, what.size(), by);
  }
  bool HasStore() const { return fs::exists(dtrain_.store() / "dtrain.db"); }

  const CliRunner dtrain_;
};

TEST_F(OwnModelTest, TheNewModelPassesItsTest) {
  const CliResult result = dtrain_.RunProgram({"./mine/test.sh"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("compiling ./model_def.cpp"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("test passed in "), HasSubstr("restored"),
                    HasSubstr("experiment 1 completed")));
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
}

TEST_F(OwnModelTest, GoesOnAsItWasAfterTheDirectoryHasChanged) {
  const CliResult paused =
      dtrain_.Run({"create", "mine/const.yaml", "--timeout", "5", "--set",
                   "searcher.max_length=10000000"});
  ASSERT_EQ(paused.code, 124) << paused.err;
  EXPECT_THAT(paused.err, HasSubstr("compiling mine/model_def.cpp"));
  // Neither this change nor the place matters to it.
  Edit("net_->forward(batch.data)", "nonsense");
  fs::rename(dtrain_.directory() / "mine", dtrain_.directory() / "moved");

  const CliResult resumed = dtrain_.Run({"resume", "1", "--timeout", "2"});
  EXPECT_EQ(resumed.code, 124) << resumed.err;
  EXPECT_THAT(resumed.err, Not(HasSubstr("compiling")));

  const std::string uuid = dtrain_.Run({"checkpoints", "1", "--json"})
                               .Json()["checkpoints"][0]["uuid"];
  const CliResult evaluated = dtrain_.Run({"evaluate", uuid, "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_GT(evaluated.Json()["metrics"]["val_accuracy"], 0.3);

  // Without the cache it is compiled from what the store keeps.
  fs::remove_all(dtrain_.directory() / "cache/dtrain/models");
  const CliResult again = dtrain_.Run({"evaluate", uuid, "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.Json()["metrics"], evaluated.Json()["metrics"]);
}

TEST_F(OwnModelTest, SaysWhatTheCompilerSaysAndMakesNothing) {
  Edit("context_.Step(*optimizer_);", "context_.Stap(*optimizer_);");
  const CliResult result = dtrain_.Run({"create", "mine/const.yaml"});

  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("mine/model_def.cpp:"), HasSubstr("error: "),
                    HasSubstr("Stap"),
                    HasSubstr("mine/model_def.cpp: does not compile")));
  EXPECT_FALSE(HasStore());
}

TEST_F(OwnModelTest, NamesTheTrialsThatThereAre) {
  const CliResult first = dtrain_.Run(
      {"create", "mine/const.yaml", "--set", "entrypoint=model_def:MyTrail"});
  EXPECT_EQ(first.code, 2);
  EXPECT_THAT(first.err, HasSubstr("mine/model_def.cpp has no trial 'MyTrail'; "
                                   "did you mean 'MyTrial'?; its "
                                   "DTRAIN_TRIALS has MyTrial"));
  EXPECT_FALSE(HasStore());

  // The second start does not compile.
  const CliResult second = dtrain_.Run({"create", "mine/const.yaml", "--test"});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, Not(HasSubstr("compiling")));

  // What dtrain has itself needs no entry in the file.
  dtrain_.Write("mine/fault.yaml",
                "entrypoint: builtin:FaultTrial\n"
                "searcher: {name: single, metric: loss, max_length: 5}\n");
  const CliResult builtin =
      dtrain_.Run({"create", "mine/fault.yaml", "--dry-run"});
  EXPECT_EQ(builtin.code, 0) << builtin.err;
}

TEST_F(OwnModelTest, AModelWithoutTrialsIsRefused) {
  Edit("DTRAIN_TRIALS(MyTrial)", "");
  const CliResult result = dtrain_.Run({"create", "mine/const.yaml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("exports no trial; end model_def.cpp with "
                                    "DTRAIN_TRIALS(MyTrial)"));
}

}  // namespace
}  // namespace dtrain
