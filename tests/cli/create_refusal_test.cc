// What `create` and `validate` refuse: exit 2, and nothing is created.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kGood[] =
    "name: good\n"
    "entrypoint: builtin:FaultTrial\n"
    "searcher: {name: single, metric: loss, max_length: 10}\n";

class CreateRefusalTest : public testing::Test {
 protected:
  // Expects that `create` with these arguments refuses and says `message`.
  void ExpectRefused(std::vector<std::string> arguments,
                     const std::string& message) {
    arguments.insert(arguments.begin(), "create");
    const CliResult result = dtrain_.Run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
  }

  CliRunner dtrain_;
};

TEST_F(CreateRefusalTest, RefusesWhatIsNoFile) {
  ExpectRefused({"missing.yaml"}, "missing.yaml: there is no such file");
  ExpectRefused({"."}, ".: is a directory");
  ExpectRefused({"/dev/zero"}, "larger than 1 MB");
}

TEST_F(CreateRefusalTest, SaysAllErrorsWithTheirPlaces) {
  dtrain_.Write("bad.yaml",
                "name: bad\n"
                "entrypoint: builtin:FaultTrial\n"
                "max_restart: 3\n"
                "searcher: {name: single, metric: loss, max_length: -1}\n");
  const CliResult result = dtrain_.Run({"create", "bad.yaml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("bad.yaml:3:1"), HasSubstr("max_restarts"),
                    HasSubstr("bad.yaml:4"),
                    HasSubstr("bad.yaml: 2 errors; nothing was created\n")));
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(CreateRefusalTest, RefusesAnUnregisteredTrialWithTheNearest) {
  const auto path = dtrain_.Write("good.yaml", kGood);
  ExpectRefused({"good.yaml", "--set", "entrypoint=builtin:FaultTrail"},
                "did you mean 'builtin:FaultTrial'?");
}

TEST_F(CreateRefusalTest, RefusesATrialWhoseFilesAreMissing) {
  dtrain_.Write("images.yaml",
                "name: images\n"
                "entrypoint: model_def:ImageNetTrial\n"
                "hyperparameters: {global_batch_size: 4, pretrained: true}\n"
                "searcher: {name: single, metric: val_loss, max_length: 10}\n");
  ExpectRefused({"images.yaml"}, "'dataset: fake' for made-up images");
  ExpectRefused({"images.yaml", "--set", "hyperparameters.dataset=fake"},
                "no weights of resnet18; looked for resnet18.safetensors");
  ExpectRefused({"images.yaml", "--set", "hyperparameters.arch=resnet81"},
                "did you mean 'resnet18'");
  EXPECT_EQ(dtrain_.Run({"create", "images.yaml", "--dry-run"}).code, 0);
}

TEST_F(CreateRefusalTest, RefusesBadOptionsBeforeAnythingIsThere) {
  dtrain_.Write("good.yaml", kGood);
  ExpectRefused({"good.yaml", "--require", "loss"}, "--require: 'loss'");
  ExpectRefused({"good.yaml", "--timeout", "soon"}, "--timeout: 'soon'");
  ExpectRefused({"good.yaml", "--junit", "no/such/dir/x.xml"},
                "--junit: cannot write");
  ExpectRefused({"good.yaml", "no-such-context"}, "no-such-context");
  ExpectRefused({"good.yaml", "--set", "max_restarts=many"}, "max_restarts");
  ExpectRefused({"good.yaml", "-d", "--require", "loss<1"}, "excludes");
}

TEST_F(CreateRefusalTest, AsksWhichSlotsANumberMeans) {
  dtrain_.Write("good.yaml", kGood);
  ExpectRefused({"good.yaml", "--slots", "4"},
                "--slots: '4' may be a number of slots or a GPU; write gpu:4 "
                "for so many GPUs, [4] for that GPU, or cpu:4 for so many CPU "
                "slots");
}

TEST_F(CreateRefusalTest, HasNoResourcesForWhatIsNotThere) {
  dtrain_.Write("good.yaml", kGood);
  const CliResult result =
      dtrain_.Run({"create", "good.yaml", "--slots", "[97]"});
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(CreateRefusalTest, CreatesNothingInADryRun) {
  dtrain_.Write("good.yaml", kGood);
  const CliResult result =
      dtrain_.Run({"create", "good.yaml", "--dry-run", "--name", "x\n$(y)",
                   "--label", "a", "--label", "b", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["name"], "x\n$(y)");
  EXPECT_EQ(result.Json()["config"]["labels"], nlohmann::json({"a", "b"}));
  EXPECT_EQ(result.Json()["max_trials"], 1);
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(CreateRefusalTest, ValidatesWithoutAStore) {
  dtrain_.Write("good.yaml", kGood);
  const CliResult good = dtrain_.Run({"validate", "good.yaml"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.out, "good.yaml: valid\n");
  const CliResult bad =
      dtrain_.Run({"validate", "good.yaml", "--set", "nmae=x", "--json"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.Json()["valid"], false);
  EXPECT_EQ(bad.Json()["diagnostics"][0]["severity"], "error");
}

TEST_F(CreateRefusalTest, ReadsTheConfigurationFromStdin) {
  const CliResult result = dtrain_.Run({"validate", "-"}, {.input = kGood});
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace dtrain
