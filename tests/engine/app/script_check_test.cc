// Commands that are only checked, in a context of their own.

#include "engine/app/script_check.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/read_config.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

class FindScriptProblemTest : public testing::Test {
 protected:
  ScriptFindings Check(const std::string& entrypoint) const {
    return FindScriptProblem(Config(entrypoint), context());
  }
  void ExpectRefused(const std::string& entrypoint,
                     const std::string& why) const {
    EXPECT_THAT(Check(entrypoint).problem.value_or(""), HasSubstr(why))
        << entrypoint;
  }
  void ExpectAccepted(const std::string& entrypoint) const {
    const ScriptFindings findings = Check(entrypoint);
    EXPECT_EQ(findings.problem, std::nullopt) << entrypoint;
    EXPECT_EQ(findings.warning, std::nullopt) << entrypoint;
    EXPECT_EQ(ScriptProblemHere(Config(entrypoint), context()), std::nullopt)
        << entrypoint;
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(context() / name) << text;
  }
  void WriteProgram(const std::string& name, const std::string& text) const {
    Write(name, text);
    fs::permissions(context() / name, fs::perms::owner_all);
  }
  /// A program that answers as Python 3.6 does and has a syntax of its own.
  void WriteOldPython() const {
    WriteProgram("python3.6",
                 "#!/bin/sh\n"
                 "printf 'version\\t3\\t6\\t9\\n'\n"
                 "for script; do :; done\n"
                 "if grep -q match \"$script\"; then\n"
                 "  printf 'error\\t1\\t7\\tinvalid syntax\\n'\n"
                 "elif grep -q '^import dtrain' \"$script\"; then\n"
                 "  echo imports\n"
                 "fi\n");
  }

  const fs::path& context() const { return directory_.path(); }

 private:
  static ExperimentConfig Config(const std::string& entrypoint) {
    return ReadConfig(
               "entrypoint: " + entrypoint +
                   "\nhyperparameters: {lr: 0.1}\n"
                   "searcher: {name: single, metric: loss, max_length: 9}\n"
                   "resources: {slots: cpu}\n",
               {.file_name = "x.yaml"})
        .config.value();
  }

  const TemporaryDirectory directory_;
};

TEST_F(FindScriptProblemTest, NamesTheScriptThatWasMeant) {
  Write("train.py", "");
  ExpectRefused("python3 trian.py", "no script 'trian.py'");
  ExpectRefused("python3 trian.py", "; did you mean 'train.py'?");
  fs::create_directory(context() / "src");
  Write("src/train.py", "");
  ExpectRefused("python3 -u -W ignore src/trian.py --lr {lr}",
                "; did you mean 'src/train.py'?");
  ExpectRefused("env A=1 python3 none.py", "no script 'none.py'");
}

TEST_F(FindScriptProblemTest, RefusesAScriptThatDoesNotCompile) {
  Write("train.py", "import os\nprint('a'\n");
  ExpectRefused("python3 train.py", "train.py:2:");
  ExpectRefused("python3 train.py", "/python3, Python 3.");
  ExpectRefused("env OMP_NUM_THREADS=1 python3 -u train.py --lr {lr}",
                "train.py:2:");
  Write("outside.py", "return 1\n");
  ExpectRefused("python3 outside.py", "'return' outside function");
  // Nothing was compiled into a file.
  EXPECT_FALSE(fs::exists(context() / "__pycache__"));
}

TEST_F(FindScriptProblemTest, CompilesAScriptThatNamesPythonItself) {
  WriteProgram("train.py", "#!/usr/bin/env python3\nif:\n");
  ExpectRefused("./train.py", "./train.py:2:");
}

TEST_F(FindScriptProblemTest, ExecutesNothingOfTheContext) {
  Write("sys.py", "open('executed', 'w')\n");
  Write("train.py", "open('executed', 'w')\n");
  ExpectAccepted("python3 train.py");
  EXPECT_FALSE(fs::exists(context() / "executed"));
}

TEST_F(FindScriptProblemTest, RefusesAProgramThatCannotBeExecuted) {
  Write("train.sh", "#!/bin/sh\n");
  ExpectRefused("./train.sh", "may not be executed; chmod +x it");
  ExpectRefused("./tarin.sh",
                "tarin.sh: there is no such file; did you mean "
                "'./train.sh'?");
  WriteProgram("windows.sh", "#!/bin/sh\r\nexit 1\r\n");
  ExpectRefused("./windows.sh",
                "./windows.sh:1: the line ends with a carriage "
                "return");
}

TEST_F(FindScriptProblemTest, RefusesAPythonThatIsTooOldForTheModule) {
  WriteOldPython();
  Write("train.py", "import dtrain\n");
  ExpectRefused("./python3.6 train.py",
                "train.py: imports dtrain, which needs Python 3.8 (");
  Write("new.py", "match x:\n");
  ExpectRefused("./python3.6 new.py",
                "python3.6, Python 3.6.9); correct the script, or name a newer "
                "Python for it");
  Write("plain.py", "# import dtrain\n");
  ExpectAccepted("./python3.6 plain.py");
}

TEST_F(FindScriptProblemTest, ImportsOfDtrainMayBeOptional) {
  // As WriteOldPython, but with the parser of the real one.
  WriteProgram("python3",
               "#!/bin/sh\n/usr/bin/env -i PATH=/usr/bin:/bin "
               "python3 \"$@\" | sed 's/^version.*/version\\t3\\t6"
               "\\t9/'\n");
  Write("a.py", "import os, dtrain.core\n");
  ExpectRefused("./python3 a.py", "a.py: imports dtrain");
  Write("b.py", "from dtrain import init\n");
  ExpectRefused("./python3 b.py", "b.py: imports dtrain");
  Write("c.py",
        "try:\n  import dtrain\nexcept ImportError:\n  dtrain = None\n"
        "from . import dtrains\n");
  ExpectAccepted("./python3 c.py");
}

// True and false for an option that takes no value.
struct FlagOption {
  const char* name;
  const char* definition;  // of the option, in options.py
  const char* arguments;   // of the command
  const char* says;        // "": accepted
};

class FlagOptionTest : public testing::TestWithParam<FlagOption> {};

TEST_P(FlagOptionTest, IsNamedWithTheFormThatWorks) {
  const FlagOption& one = GetParam();
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "options.py")
      << "import argparse\nparser = argparse.ArgumentParser()\n"
      << one.definition << "\n";
  std::ofstream(directory.path() / "train.py")
      << "from options import parser\n";
  const ConfigResult config =
      ReadConfig(std::string("entrypoint: python3 train.py ") + one.arguments +
                     "\nhyperparameters:\n"
                     "  use_bn: {type: categorical, vals: [true, false]}\n"
                     "  lr: 0.1\n"
                     "searcher: {name: grid, metric: loss}\n",
                 {.file_name = "x.yaml"});
  const std::string problem =
      FindScriptProblem(config.config.value(), directory.path())
          .problem.value_or("");
  EXPECT_THAT(problem, HasSubstr(one.says));
  EXPECT_EQ(problem.empty(), *one.says == '\0');
}

INSTANTIATE_TEST_SUITE_P(
    Options, FlagOptionTest,
    testing::Values(
        FlagOption{"StoreTrue",
                   "parser.add_argument('--use-bn', action='store_true')",
                   "--use-bn {use_bn} --lr {lr}",
                   "--use-bn takes no value in train.py, "
                   "but {use_bn} is true or false; write '{use_bn:--use-bn}', "
                   "which gives the option if it is true"},
        FlagOption{"WithEquals",
                   "parser.add_argument(\"--use-bn\", action = \"store_true\")",
                   "--use-bn={use_bn}", "--use-bn takes no value"},
        FlagOption{"Both",
                   "parser.add_argument('--bn', "
                   "action=argparse.BooleanOptionalAction)",
                   "--bn {use_bn}", "write '{use_bn:--bn|--no-bn}'"},
        FlagOption{"OptionWithAValue",
                   "parser.add_argument('--use-bn', type=eval)",
                   "--use-bn {use_bn}", ""},
        FlagOption{"OtherValues",
                   "parser.add_argument('--verbose', action='store_true')",
                   "--verbose {lr} --x {use_bn}", ""},
        FlagOption{"TheForm",
                   "parser.add_argument('--use-bn', action='store_true')",
                   "{use_bn:--use-bn}", ""}),
    [](const auto& one) { return one.param.name; });

// A module of the context named dtrain, which Python finds before dtrain's.
TEST_F(FindScriptProblemTest, RefusesAModuleThatHidesDtrain) {
  Write("train.py", "import dtrain\n");
  Write("other.py", "import json\n");
  Write("run.sh", "python3 train.py\n");
  for (const std::string directory : {"dtrain", "src", "src/dtrain"}) {
    fs::create_directory(context() / directory);
  }
  ExpectAccepted("python3 train.py");
  Write("dtrain/__init__.py", "");
  ExpectRefused("python3 train.py",
                "'dtrain/__init__.py' hides the module dtrain, which train.py "
                "imports; rename it");
  ExpectRefused("torchrun --nproc-per-node 2 train.py", "hides the module");
  ExpectRefused("python3 -m train", "hides the module dtrain");
  ExpectRefused("sh run.sh", "hides the module dtrain");
  ExpectAccepted("python3 other.py");
  fs::rename(context() / "dtrain/__init__.py", context() / "dtrain.py");
  ExpectRefused("python3 train.py", "'dtrain.py' hides the module dtrain");
  Write("src/train.py", "from dtrain import core\n");
  ExpectAccepted("python3 src/train.py");
  Write("src/dtrain/__init__.py", "");
  ExpectRefused("python3 src/train.py",
                "'src/dtrain/__init__.py' hides the module dtrain");
}

TEST_F(FindScriptProblemTest, NamesWhatDeterminedHasAndDtrainLacks) {
  const std::string core =
      "; use Determined's Core API, or dtrain's own module";
  const std::string lacks = " has no counterpart in dtrain";
  struct Case {
    std::string script;
    std::string place;
  };
  for (const Case& one : std::vector<Case>{
           {"from determined.pytorch import PyTorchTrial\n",
            "1: determined.pytorch" + lacks + core},
           {"from determined import pytorch\n",
            "1: determined.pytorch" + lacks + core},
           {"from determined import core, experimental as e\n",
            "1: determined.experimental" + lacks + core},
           {"import determined as det\ndef f():\n  det.keras.init()\n",
            "3: determined.keras" + lacks + "; use DtrainCallback"},
           {"import dtrain as det\ndef f():\n  return det.pytorch.init()\n",
            "3: determined.pytorch" + lacks + core},
           {"from dtrain import keras\n\nkeras.TFKerasTrial\n",
            "3: determined.keras" + lacks + "; use DtrainCallback"}}) {
    Write("a.py", one.script);
    const ScriptFindings findings = Check("python3 a.py");
    EXPECT_EQ(findings.problem, std::nullopt);
    EXPECT_THAT(findings.warning.value_or(""), HasSubstr("a.py:" + one.place));
  }
  // These are certain to fail.
  for (const std::string script :
       {"from dtrain import pytorch", "import dtrain.experimental",
        "from dtrain.keras import TFKerasTrial"}) {
    Write("a.py", script + "\n");
    ExpectRefused("python3 a.py", "a.py:1: determined.");
  }
  Write("a.py",
        "import dtrain as det\nfrom dtrain import core, keras\n"
        "from dtrain.keras import DtrainCallback\n"
        "det.core.init(); det.get_cluster_info(); keras.WEIGHTS\n"
        "class pytorch: pass\npytorch.init = 1\n");
  ExpectAccepted("python3 a.py");
  Write("b.py",
        "try:\n  import determined\nexcept ImportError:\n  pass\n"
        "from . import determined\n");
  ExpectAccepted("python3 b.py");
}

TEST_F(FindScriptProblemTest, AcceptsWhatItDoesNotUnderstand) {
  WriteProgram("torchrun", "#!/bin/sh\n");
  WriteProgram("python", "#!/bin/sh\nexit 3\n");  // does not answer
  Write("bad.py", "if:\n");
  Write("train.sh", "");
  ExpectAccepted("./torchrun --nproc_per_node 2 none.py");
  ExpectAccepted("python3 -m none.module");
  ExpectAccepted("python3 -c 'if:'");
  ExpectAccepted("python3 -q none.py");
  ExpectAccepted("./python bad.py");
  ExpectAccepted("python3 model_{lr}.py");
  ExpectAccepted("sh -c 'exec python3 none.py'");
  ExpectAccepted("env -i python3 none.py");
  ExpectAccepted("env PATH=/nowhere python3 none.py");
  ExpectAccepted("sh train.sh");
  fs::create_directory(context() / "package");
  Write("package/__main__.py", "");
  ExpectAccepted("python3 package");
  Write("app.pyz", std::string("PK\0\x03", 4));
  ExpectAccepted("python3 app.pyz");
}

}  // namespace
}  // namespace dtrain
