// `dtrain validate`: what `create` would refuse, without creating anything.

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
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kDigitsYaml[] =
    "name: digits\n"
    "entrypoint: digits:LeNetTrial\n"
    "hyperparameters:\n"
    "  global_batch_size: 64\n"
    "searcher: {name: single, metric: val_loss, max_length: 10}\n";

constexpr char kScript[] =
    "name: script\n"
    "entrypoint: [sh, train.sh]\n"
    "searcher: {name: single, metric: loss, max_length: 10}\n";

class ValidateTest : public testing::Test {
 protected:
  CliResult Validate(std::vector<std::string> arguments,
                     const CliCall& call = {}) const {
    arguments.insert(arguments.begin(), "validate");
    return dtrain_.Run(arguments, call);
  }
  // Expects that validate and create both refuse the file and say `message`.
  void ExpectBothRefuse(std::vector<std::string> arguments,
                        const std::string& message) const {
    const CliResult valid = Validate(arguments);
    EXPECT_EQ(valid.code, 2) << valid.err;
    EXPECT_THAT(valid.err, HasSubstr(message));
    arguments.insert(arguments.begin(), "create");
    const CliResult created = dtrain_.Run(arguments);
    EXPECT_EQ(created.code, 2) << created.err;
    EXPECT_THAT(created.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
  }

  const CliRunner dtrain_;
};

struct HparamCase {
  std::string entrypoint;
  std::string hparam;   // of `validate --set hyperparameters.`
  std::string message;  // empty: valid
};

// For a constant, each value of a category and the bounds of a range.
TEST_F(ValidateTest, RefusesWhatTheModelWouldRefuse) {
  dtrain_.Write("c.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {global_batch_size: 8}\n"
                "searcher: {name: random, metric: val_loss, max_length: 5, "
                "max_trials: 2}\n");
  const std::string digits = "digits:LeNetTrial";
  const std::string cifar = "cifar10:CNNTrial";
  const std::string images = "model_def:ImageNetTrial";
  const std::string seed = "expected a number from 0 to 4294967295, got ";
  const std::string rate = "expected a number of at least 0, got ";
  const std::string sum = "expected fractions above 0 whose sum is 1, got ";
  const HparamCase cases[] = {
      {digits, "optimizer=lamb",
       "expected sgd, adam, adamw, rmsprop, adagrad, got \"lamb"},
      {digits, "optimizer=Adam", "got \"Adam\"; did you mean 'adam'?"},
      {digits, "optimizer={type: categorical, vals: [adam, adamax]}",
       "optimizer.vals[1]: expected sgd, adam, adamw, rmsprop, adagrad, got "
       "\"adamax\""},
      {digits, "optimizer={type: const, val: lion}", "optimizer.val: expected"},
      {digits, "schedule=poly", "cyclic, one_cycle, plateau, got \"poly\""},
      {digits, "power=0", "expected a number above 0, got 0"},
      {images, "restart_factor=0", "expected a number from 1 to 1000000000"},
      {digits, "dataset=fashion", "expected auto, mnist, strokes, got"},
      {images, "dataset=mnist", "expected imagefolder, cifar10, fake, got"},
      {images, "arch=densenet121", "wide_resnet101_2, got \"densenet121\""},
      {images, "arch=resnet19", "did you mean 'resnet18'?"},
      {images, "crop_size=0", "expected a number from 1 to 16384, got 0"},
      {images, "crop_size={type: int, minval: 0, maxval: 64}",
       "crop_size.minval: expected a number from 1 to 16384, got 0"},
      {images, "workers=257", "expected a number from 0 to 256, got 257"},
      {images, "num_classes=0", "expected a number from 1 to 1000000000"},
      {cifar, "split=[0.8, 0.3]", sum + "[0.8,0.3]"},
      {cifar, "split=[]", sum + "[]"},
      {cifar, "split=[1.2, -0.2]", sum},
      {cifar, "split={type: categorical, vals: [[0.8, 0.2], [0.8, a]]}",
       "split.vals[1]: " + sum},
      {cifar, "split_seed=-1", seed + "-1"},
      {digits, "dataset_seed=4294967296", seed + "4294967296"},
      {digits, "dataset_seed=-1", seed + "-1"},
      {"xception:XceptionTrial", "dataset_seed=5000000000", seed},
      {digits, "lr=-1", "hyperparameters.lr: " + rate + "-1"},
      {digits, "lr={type: double, minval: -0.5, maxval: 1}",
       "lr.minval: " + rate + "-0.5"},
      {digits, "lr={type: int, minval: -2, maxval: -1}", "lr.maxval: " + rate},
      {digits, "momentum=-0.1", rate},
      {digits, "weight_decay=-1e-4", rate},
      {digits, "betas=[0.9]", "expected two numbers from 0 to below 1"},
      {digits, "betas=[0.9, 1]", "expected two numbers from 0 to below 1"},
      {digits, "gamma=0", "expected a number above 0, got 0"},
      {"builtin:FaultTrial", "exit_code=256",
       "expected a number from 0 to 255"},
      {digits, "dataset_seed=4294967295", ""},
      {digits, "lr=0", ""},
      {digits, "lr={type: log, base: 10, minval: -4, maxval: -1}", ""},
      {digits, "betas=[0, 0.5]", ""},
      {digits, "optimizer=null", ""},
      {cifar, "split=[0.5, 0.3, 0.2]", ""},
      {images, "crop_size=16384", ""},
  };
  for (const HparamCase& one : cases) {
    SCOPED_TRACE(one.entrypoint + " " + one.hparam);
    const CliResult result =
        Validate({"c.yaml", "--set", "entrypoint=" + one.entrypoint, "--set",
                  "hyperparameters." + one.hparam});
    EXPECT_EQ(result.code, one.message.empty() ? 0 : 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.message));
  }
}

TEST_F(ValidateTest, RefusesAModelOfDtrainBesideAPythonFileOfItsName) {
  dtrain_.Write("digits.yaml", kDigitsYaml);
  EXPECT_EQ(Validate({"digits.yaml"}).code, 0);
  dtrain_.Write("model_def.py", "class ImageNetTrial: pass\n");
  EXPECT_EQ(Validate({"digits.yaml"}).code, 0);
  ExpectBothRefuse(
      {"digits.yaml", "--set", "entrypoint=model_def:ImageNetTrial"},
      "model_def.py, which may be meant, would not run");
  ExpectBothRefuse(
      {"digits.yaml", "--set", "entrypoint=model_def:OtherTrial"},
      "model_def.py is Python, but models named like this are written in C++");
  fs::create_directories(dtrain_.directory() / "digits");
  fs::create_directories(dtrain_.directory() / "other");
  dtrain_.Write("digits/__init__.py", "");
  ExpectBothRefuse({"digits.yaml"},
                   "'digits:LeNetTrial' is a model of dtrain, and ");
  EXPECT_EQ(Validate({"digits.yaml", "other"}).code, 0);
}

TEST_F(ValidateTest, RefusesUnreadHyperparameters) {
  dtrain_.Write("f.yaml", std::string(kDigitsYaml) + "# end\n");
  ExpectBothRefuse({"f.yaml", "--set", "hyperparameters.learning_rate=0.1"},
                   "'learning_rate'; did you mean 'lr'?");
  dtrain_.Write("g.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "searcher: {name: grid, metric: val_loss, max_length: 10}\n"
                "hyperparameters:\n"
                "  global_batch_size: 64\n"
                "  learning_rate: {type: categorical, vals: [0.1, 0.01]}\n"
                "  optimiser: {type: categorical, vals: [sgd, adam]}\n"
                "  momentum: '0.9'\n"
                "  lr: [0.1, 0.01]\n");
  const CliResult result = Validate({"g.yaml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("g.yaml:5:3: hyperparameters.learning_rate: "),
            HasSubstr("did you mean 'lr'?"),
            HasSubstr("g.yaml:6:3: hyperparameters.optimiser: "),
            HasSubstr("did you mean 'optimizer'?"),
            HasSubstr("g.yaml:7:13: hyperparameters.momentum: expected a "
                      "number, got the string '0.9'; remove the quotes"),
            HasSubstr("write {type: categorical, vals: [0.1,0.01]}"),
            HasSubstr("g.yaml: 4 errors")));
  ExpectBothRefuse({"g.yaml"}, "g.yaml: 4 errors");
  // The preview of the search and the keys do not depend on the model.
  EXPECT_EQ(dtrain_.Run({"preview-search", "g.yaml"}).code, 0);
  EXPECT_EQ(Validate({"g.yaml", "--keys"}).code, 0);
}

TEST_F(ValidateTest, RefusesMissingHyperparametersAndTrials) {
  dtrain_.Write("f.yaml", kDigitsYaml);
  ExpectBothRefuse({"f.yaml", "--set", "hyperparameters.global_batch_size="},
                   "required by digits:LeNetTrial but missing");
  ExpectBothRefuse({"f.yaml", "--set", "entrypoint=digits:LeNetTrail"},
                   "did you mean 'digits:LeNetTrial'?");
  const CliResult keys =
      Validate({"f.yaml", "--keys", "--set", "entrypoint=model_def:SomeTrial"});
  EXPECT_EQ(keys.code, 0);
  EXPECT_THAT(keys.err,
              HasSubstr("warning: unknown model 'model_def:SomeTrial'"));
}

TEST_F(ValidateTest, TakesTheConfigurationOfTheTutorial) {
  dtrain_.Write("const.yaml",
                "description: ImageNet_PyTorch_const\n"
                "hyperparameters:\n"
                "    global_batch_size: 256\n"
                "    dense1: 128\n"
                "    data: /mnt/data\n"
                "    arch: resnet18\n"
                "    workers: 4\n"
                "    start-epoch: 0\n"
                "    lr: 0.1\n"
                "    momentum: 0.9\n"
                "    weight_decay: 1e-4\n"
                "    pretrained: True\n"
                "records_per_epoch: 60000\n"
                "searcher:\n"
                "    name: single\n"
                "    metric: val_loss\n"
                "    smaller_is_better: false\n"
                "    max_length:\n"
                "        epochs: 10\n"
                "entrypoint: model_def:ImageNetTrial\n"
                "max_restarts: 0\n");
  const CliResult result = Validate({"const.yaml"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("const.yaml:4:5: hyperparameters.dense1: note: "
                        "accepted for compatibility"));
  // Its data is not on this machine.
  EXPECT_THAT(result.err, HasSubstr("const.yaml: warning: "));
  EXPECT_EQ(Validate({"const.yaml", "--here"}).code, 2);
}

TEST_F(ValidateTest, CountsIgnoredKeysInOneNote) {
  dtrain_.Write("f.yaml", std::string(kDigitsYaml) +
                              "project: p\n"
                              "workspace: w\n"
                              "resources: {shm_size: 1}\n"
                              "checkpoint_storage: {type: s3, bucket: b}\n");
  const std::string count =
      "f.yaml: note: 3 keys of Determined have no effect here; -v shows them\n";
  const std::string each = "f.yaml:6:1: project: note: ignored: ";
  const std::string storage =
      "f.yaml:9:28: checkpoint_storage.type: note: s3 is not supported; ";

  const CliResult brief = Validate({"f.yaml", "--keys"});
  EXPECT_EQ(brief.code, 0) << brief.err;
  EXPECT_THAT(brief.err, AllOf(HasSubstr(count), HasSubstr(storage),
                               Not(HasSubstr(each))));
  const CliResult verbose = Validate({"f.yaml", "--keys", "-v"});
  EXPECT_THAT(verbose.err,
              AllOf(Not(HasSubstr(count)), HasSubstr(storage), HasSubstr(each),
                    HasSubstr("resources.shm_size: note: ")));
  EXPECT_THAT(Validate({"f.yaml", "--keys", "-q"}).err,
              Not(HasSubstr("note: ")));
  const CliResult json = Validate({"f.yaml", "--keys", "--json"});
  EXPECT_EQ(json.Json()["diagnostics"].size(), 4u);
}

TEST_F(ValidateTest, ShowsASingleIgnoredKeyAndThoseOfOverrides) {
  dtrain_.Write("f.yaml", std::string(kDigitsYaml) + "project: p\n");
  const CliResult result =
      Validate({"f.yaml", "--keys", "--set", "workspace=w"});
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("f.yaml:6:1: project: note: ignored: "),
                    HasSubstr("--set workspace: workspace: note: ignored: "),
                    Not(HasSubstr("no effect here"))));
}

TEST_F(ValidateTest, RefusesAScriptOutsideTheContext) {
  dtrain_.Write("f.yaml", kScript);
  ExpectBothRefuse({"f.yaml"}, "no script 'train.sh'");
  ExpectBothRefuse({"f.yaml", "--set", "entrypoint=[./train]"},
                   "there is no such file");

  std::filesystem::create_directory(dtrain_.directory() / "code");
  dtrain_.Write("code/train.sh", "exit 0\n");
  const CliResult found = Validate({"f.yaml", "code", "--here"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.out, "f.yaml: valid\n");
  EXPECT_EQ(Validate({"f.yaml", "nowhere"}).code, 2);
  // The word after -c is not a script file.
  const CliResult command =
      Validate({"f.yaml", "--set", "entrypoint=[sh, -c, train.sh]"});
  EXPECT_EQ(command.code, 0) << command.err;
}

TEST_F(ValidateTest, WarnsOfMissingResources) {
  dtrain_.Write("f.yaml", kScript);
  const std::vector<std::string> program = {
      "f.yaml", "--set", "entrypoint=[no-such-program-1, --lr, '1']"};
  const CliResult warned = Validate(program);
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_THAT(warned.err,
              AllOf(HasSubstr("f.yaml: entrypoint: warning: "),
                    HasSubstr("no program 'no-such-program-1' in PATH")));
  std::vector<std::string> here = program;
  here.push_back("--here");
  here.push_back("--json");
  const CliResult refused = Validate(here);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.Json()["valid"], false);
  EXPECT_EQ(refused.Json()["diagnostics"][0]["severity"], "error");
  EXPECT_EQ(refused.Json()["diagnostics"][0]["key"], "entrypoint");

  dtrain_.Write("g.yaml", kDigitsYaml);
  const std::vector<std::string> slots = {
      "g.yaml", "--set", "resources={slots: 'cpu:2', slots_per_trial: 64}"};
  const CliResult many = Validate(slots);
  EXPECT_EQ(many.code, 0) << many.err;
  EXPECT_THAT(many.err, HasSubstr("warning: "));
  std::vector<std::string> many_here = slots;
  many_here.push_back("--here");
  EXPECT_EQ(Validate(many_here).code, 2);
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
}

TEST_F(ValidateTest, ReadsTheTrialsOfAModelWithoutCompilingIt) {
  ASSERT_EQ(dtrain_.Run({"init", "mine"}).code, 0);
  const CliResult good = Validate({"mine/const.yaml"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.err, Not(HasSubstr("dtrain: compiling")));

  const CliResult bad =
      Validate({"mine/const.yaml", "--set", "entrypoint=model_def:MyTrail"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("mine/model_def.cpp has no model 'MyTrail'; "
                                 "did you mean 'MyTrial'?"));
}

TEST_F(ValidateTest, KeysNeedNoContext) {
  dtrain_.Write("f.yaml", kDigitsYaml);
  EXPECT_EQ(Validate({"f.yaml", ".", "--keys"}).code, 2);
  EXPECT_EQ(Validate({"f.yaml", "--keys", "--here"}).code, 2);
}

TEST_F(ValidateTest, WarnsOfALogRangeOfValues) {
  dtrain_.Write("f.yaml", kDigitsYaml);
  const CliResult result = Validate(
      {"f.yaml", "--set",
       "searcher={name: random, metric: val_loss, "
       "max_trials: 2, max_length: 10}",
       "--set", "hyperparameters.lr={type: log, minval: 0.0001, maxval: 0.1}"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the values are from 1.0002 to 1.259"));
}

// The configurations that come with dtrain.

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
