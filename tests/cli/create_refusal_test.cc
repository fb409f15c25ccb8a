// Configurations that `create` and `validate` refuse: exit 2, nothing is
// created.

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

TEST_F(CreateRefusalTest, RefusesAPathThatIsNotAFile) {
  ExpectRefused({"missing.yaml"}, "missing.yaml: no such file");
  ExpectRefused({"."}, ".: is a directory");
  ExpectRefused({"/dev/zero"}, "larger than 1 MB");
}

TEST_F(CreateRefusalTest, ReportsAllErrorsWithTheirPlaces) {
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

constexpr char kBad[] =
    "name: bad\n"
    "entrypoint: builtin:FaultTrial\n"
    "max_restart: 3\n"
    "searcher: {name: single, metric: loss, max_length: 10}\n";

TEST_F(CreateRefusalTest, PrintsOneJsonDocument) {
  dtrain_.Write("bad.yaml", kBad);
  const CliResult result = dtrain_.Run({"create", "bad.yaml", "--json"});
  EXPECT_EQ(result.code, 2);
  const auto document = result.Json();
  EXPECT_EQ(document["experiment"], nullptr);
  EXPECT_EQ(document["exit_code"], 2);
  EXPECT_EQ(document["error"], "bad.yaml: 1 error; nothing was created");
  EXPECT_EQ(document["diagnostics"][0]["line"], 3);
  EXPECT_EQ(document["diagnostics"][0]["key"], "max_restart");

  const CliResult lines = dtrain_.Run({"create", "bad.yaml", "--jsonl"});
  EXPECT_EQ(lines.Json()["event"], "refused");
  EXPECT_EQ(lines.Json()["diagnostics"], document["diagnostics"]);
  const CliResult missing = dtrain_.Run({"create", "none.yaml", "--json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.Json()["error"].get<std::string>(),
              HasSubstr("no such file"));
  const CliResult resumed = dtrain_.Run({"resume", "7", "--json"});
  EXPECT_EQ(resumed.code, 3);
  EXPECT_EQ(resumed.Json()["exit_code"], 3);
  const CliResult invalid = dtrain_.Run({"validate", "none.yaml", "--json"});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_EQ(invalid.Json()["valid"], false);
}

TEST_F(CreateRefusalTest, WritesOneErrorIntoAJunitReport) {
  dtrain_.Write("bad.yaml", kBad);
  const std::string print =
      "import sys, xml.etree.ElementTree as t;"
      "s = t.parse(sys.argv[1]).getroot()[0];"
      "print(s.get('tests'), s.get('errors'), s[0].find('error').get("
      "'message'))";
  for (const char* command : {"create", "validate"}) {
    const std::string file = std::string(command) + ".xml";
    EXPECT_EQ(dtrain_.Run({command, "bad.yaml", "--junit", file}).code, 2);
    const CliResult read = dtrain_.RunProgram({"python3", "-c", print, file});
    EXPECT_THAT(read.out, HasSubstr("1 1 bad.yaml: 1 error")) << read.err;
  }
}

TEST_F(CreateRefusalTest, RemovesTheReportOfAnEarlierCall) {
  dtrain_.Write("good.yaml", kGood);
  dtrain_.Write("r.xml", "<testsuites/>");
  dtrain_.Write("occupied", "no directory");
  const CliResult result =
      dtrain_.RunProgram({DTRAIN_BINARY, "--store", "occupied", "create",
                          "good.yaml", "--json", "--junit", "r.xml"});
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_EQ(result.Json()["exit_code"], 5);
  EXPECT_EQ(result.Json()["diagnostics"][0]["severity"], "error");
  const std::string report = dtrain_.RunProgram({"cat", "r.xml"}).out;
  EXPECT_THAT(report, HasSubstr("errors=\"1\""));
  EXPECT_THAT(report, HasSubstr("occupied: cannot be created"));

  EXPECT_EQ(
      dtrain_.Run({"create", "good.yaml", "--dry-run", "--junit", "r.xml"})
          .code,
      0);
  EXPECT_THAT(dtrain_.RunProgram({"cat", "r.xml"}).out,
              HasSubstr("errors=\"0\""));
}

TEST_F(CreateRefusalTest, AnnotatesFindingsForGithub) {
  dtrain_.Write("bad.yaml", std::string(kBad) + "description: 'a%b'\n");
  const CliResult result =
      dtrain_.Run({"create", "bad.yaml", "--annotate", "github"},
                  {.environment = {{"GITHUB_STEP_SUMMARY", "summary.md"}}});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("\n::error file=bad.yaml,line=3,col=1::max_restart: "
                        "unknown key; did you mean 'max_restarts'?\n"));
  const CliResult summary = dtrain_.RunProgram({"cat", "summary.md"});
  EXPECT_THAT(summary.out, HasSubstr("### dtrain: error: `bad.yaml`"));
  EXPECT_THAT(summary.out, HasSubstr("max_restart"));

  const CliResult missing =
      dtrain_.Run({"create", "none.yaml", "--annotate", "github"});
  EXPECT_THAT(missing.err, HasSubstr("::error::none.yaml: no such file"));
  EXPECT_EQ(dtrain_.Run({"create", "bad.yaml", "--annotate", "x"}).code, 2);
}

TEST_F(CreateRefusalTest, ReportsMissingDataBeforeRecordingAnything) {
  const std::string rest =
      "searcher: {name: random, metric: val_loss, max_trials: 4, "
      "max_length: 10}\n"
      "hyperparameters: {global_batch_size: 8, ";
  dtrain_.Write("a.yaml", "entrypoint: lenet:MNISTTrial\n" + rest + "lr: 1}\n");
  dtrain_.Write("b.yaml", "entrypoint: digits:LeNetTrial\n" + rest +
                              "dataset: mnist, data: nowhere}\n");
  dtrain_.Write("c.yaml", "entrypoint: cifar10:CNNTrial\n" + rest + "lr: 1}\n");
  dtrain_.Write("d.yaml", "entrypoint: model_def:ImageNetTrial\n" + rest +
                              "dataset: cifar10}\n");
  ExpectRefused({"a.yaml"}, "a.yaml: no mnist data; looked in ");
  ExpectRefused({"b.yaml"},
                "'dtrain data fetch mnist --to nowhere' downloads it");
  ExpectRefused({"c.yaml"}, "'dtrain data fetch cifar10' downloads it");
  ExpectRefused({"d.yaml"}, "'dtrain data fetch cifar10' downloads it");
}

TEST_F(CreateRefusalTest, RefusesAScriptOutsideTheContext) {
  const std::string rest =
      "searcher: {name: single, metric: loss, max_length: 10}\n";
  std::filesystem::create_directory(dtrain_.directory() / "job");
  dtrain_.Write("job/.gitignore", "train.sh\n");
  dtrain_.Write("job/train.sh", "exit 1\n");
  dtrain_.Write("job/ignored.yaml", "entrypoint: sh train.sh\n" + rest);
  dtrain_.Write("job/outside.yaml", "entrypoint: sh ../other.sh\n" + rest);
  dtrain_.Write("other.sh", "exit 1\n");
  for (const char* command : {"create", "validate"}) {
    const CliResult ignored = dtrain_.Run({command, "job/ignored.yaml"});
    EXPECT_EQ(ignored.code, 2);
    EXPECT_THAT(ignored.err, HasSubstr("'train.sh' is excluded"));
    const CliResult outside = dtrain_.Run({command, "job/outside.yaml"});
    EXPECT_EQ(outside.code, 2);
    EXPECT_THAT(outside.err, HasSubstr("'../other.sh' is outside job"));
  }
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(CreateRefusalTest, LooksForDataWhereTrialsDo) {
  dtrain_.Write(
      "c.yaml",
      "entrypoint: cifar10:CNNTrial\n"
      "hyperparameters: {global_batch_size: 8}\n"
      "searcher: {name: single, metric: val_loss, max_length: 10}\n"
      "environment: {environment_variables: {DTRAIN_DATA: /there}}\n");
  ExpectRefused({"c.yaml"}, "looked in /there");
}

TEST_F(CreateRefusalTest, SuggestsTheNearestRegisteredTrial) {
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
  ExpectRefused({"images.yaml"}, "'dataset: fake' for synthetic images");
  ExpectRefused({"images.yaml", "--set", "hyperparameters.dataset=fake"},
                "no weights of resnet18; looked for resnet18.safetensors");
  ExpectRefused({"images.yaml", "--set", "hyperparameters.arch=resnet81"},
                "did you mean 'resnet18'");
  EXPECT_EQ(dtrain_.Run({"create", "images.yaml", "--dry-run"}).code, 0);
}

TEST_F(CreateRefusalTest, RefusesBadOptionsBeforeCreatingAnything) {
  dtrain_.Write("good.yaml", kGood);
  ExpectRefused({"good.yaml", "--require", "loss"}, "--require: 'loss'");
  ExpectRefused({"good.yaml", "--timeout", "soon"}, "--timeout: 'soon'");
  ExpectRefused({"good.yaml", "--junit", "no/such/dir/x.xml"},
                "--junit: cannot write");
  ExpectRefused({"good.yaml", "no-such-context"}, "no-such-context");
  ExpectRefused({"good.yaml", "--set", "max_restarts=many"}, "max_restarts");
  ExpectRefused({"good.yaml", "-d", "--require", "loss<1"}, "excludes");
}

TEST_F(CreateRefusalTest, RefusesAnAmbiguousNumberOfSlots) {
  dtrain_.Write("good.yaml", kGood);
  ExpectRefused({"good.yaml", "--slots", "4"},
                "--slots: '4' is ambiguous; write gpu:4 for 4 GPUs, [4] for "
                "GPU 4, or cpu:4 for 4 CPU slots");
}

TEST_F(CreateRefusalTest, RefusesMissingResources) {
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

// ---- Invalid environment variables.

struct VariableCase {
  std::string name;
  std::string assignment;
  std::vector<std::string> words;
  int code;
  std::string message;
};

class VariableTest : public testing::TestWithParam<VariableCase> {};

TEST_P(VariableTest, RefusesItBeforeAnythingIsRecorded) {
  const CliRunner dtrain;
  dtrain.Write("good.yaml",
               "entrypoint: 'true'\n"
               "resources: {slots: cpu}\n"
               "searcher: {name: single, metric: loss, max_length: 10}\n");
  std::vector<std::string> words = GetParam().words;
  words.insert(words.begin(), {"env", GetParam().assignment, "dtrain"});

  const CliResult result = dtrain.RunProgram(words);

  EXPECT_EQ(result.code, GetParam().code);
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(dtrain.Run({"list", "--json"}).Json()["experiments"],
            nlohmann::json::array());
}

const std::vector<std::string> kCreate = {"create", "good.yaml"};
const std::vector<std::string> kResume = {"resume", "1"};
const std::vector<std::string> kWorker = {"worker", "--connect", "localhost:1",
                                          "--experiment", "1"};

INSTANTIATE_TEST_SUITE_P(
    Variables, VariableTest,
    testing::Values(
        VariableCase{"grace", "DTRAIN_STOP_GRACE=soon", kCreate, 2,
                     "DTRAIN_STOP_GRACE: 'soon' is not a duration; write"},
        VariableCase{"period", "DTRAIN_SYSTEM_PERIOD=0", kCreate, 2,
                     "DTRAIN_SYSTEM_PERIOD: '0' is not from 10ms to 1d; "},
        VariableCase{"period_at_resume", "DTRAIN_SYSTEM_PERIOD=x", kResume, 2,
                     "DTRAIN_SYSTEM_PERIOD: 'x' is not a duration; write"},
        VariableCase{"period_of_a_worker", "DTRAIN_SYSTEM_PERIOD=x", kWorker, 2,
                     "DTRAIN_SYSTEM_PERIOD: 'x' is not a duration; write"},
        VariableCase{"interval", "DTRAIN_SLURM_INTERVAL=1ms", kCreate, 2,
                     "DTRAIN_SLURM_INTERVAL: '1ms' is less than 100ms; use"},
        VariableCase{"interval_at_resume", "DTRAIN_SLURM_INTERVAL=x", kResume,
                     2, "DTRAIN_SLURM_INTERVAL: 'x' is not a duration; write"},
        VariableCase{"slots", "DTRAIN_RUNTIME_DIR=good.yaml", kCreate, 6,
                     "good.yaml: is not a directory; set DTRAIN_RUNTIME_DIR"},
        VariableCase{"network", "DTRAIN_ALLOW_NETWORK_FS=maybe", kCreate, 2,
                     "create: could not convert: --allow-network-fs = maybe"},
        VariableCase{"store", "DTRAIN_STORE=good.yaml", kCreate, 5,
                     "good.yaml: cannot be created: File exists; choose"},
        VariableCase{"secret",
                     "DTRAIN_SECRET_FILE=none",
                     {"worker", "--connect", "localhost:1"},
                     2,
                     "DTRAIN_SECRET_FILE=none: the secret cannot be read"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dtrain
