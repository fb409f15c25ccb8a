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

TEST_F(OwnModelTest, ASearchOverWhatItDoesNotReadFails) {
  const std::vector<std::string> search = {
      "create",
      "mine/const.yaml",
      "--set",
      "searcher={name: grid, metric: val_accuracy, smaller_is_better: false, "
      "max_length: {batches: 20}}",
      "--set",
      "hyperparameters.learning_rate={type: categorical, vals: [0.1, 0.2]}"};
  const CliResult failed = dtrain_.Run(search);
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_THAT(
      failed.err,
      AllOf(HasSubstr("warning: trial 1.1 has not read the hyperparameter "
                      "learning_rate; correct its name"),
            HasSubstr("experiment 1 is ERROR: trial 1.1 was validated and has "
                      "not read learning_rate, which is searched"),
            HasSubstr("--allow-unread")));
  EXPECT_THAT(failed.out, HasSubstr("hyperparameters that no trial has read: "
                                    "learning_rate\n"));

  std::vector<std::string> allowed = search;
  allowed.insert(allowed.end(), {"--allow-unread", "--json"});
  const CliResult done = dtrain_.Run(allowed);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.Json()["unread_hyperparameters"],
            nlohmann::json({"learning_rate"}));
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
