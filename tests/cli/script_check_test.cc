#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Commands in YAML files, which are only checked.
class ScriptCheckTest : public testing::Test {
 protected:
  CliResult Check(const std::string& entrypoint,
                  const std::string& command = "validate") const {
    dtrain_.Write("x.yaml",
                  "entrypoint: " + entrypoint +
                      "\nhyperparameters: {lr: 0.1}\n"
                      "searcher: {name: single, metric: loss, max_length: 9}\n"
                      "resources: {slots: cpu}\n");
    return dtrain_.Run({command, "x.yaml"});
  }
  void ExpectRefused(const std::string& entrypoint,
                     const std::string& why) const {
    for (const char* command : {"create", "validate"}) {
      const CliResult result = Check(entrypoint, command);
      EXPECT_EQ(result.code, 2) << command;
      EXPECT_THAT(result.err, HasSubstr("x.yaml: entrypoint: "));
      EXPECT_THAT(result.err, HasSubstr(why)) << command;
    }
    EXPECT_FALSE(fs::exists(dtrain_.store()));
  }
  /// It might run on another machine.
  void ExpectRefusedHere(const std::string& entrypoint,
                         const std::string& why) const {
    EXPECT_THAT(Check(entrypoint, "create").err, HasSubstr(why));
    const CliResult result = Check(entrypoint);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("warning"), HasSubstr(why)));
    EXPECT_FALSE(fs::exists(dtrain_.store()));
  }
  void ExpectAccepted(const std::string& entrypoint) const {
    const CliResult result = Check(entrypoint);
    EXPECT_EQ(result.code, 0) << entrypoint;
    EXPECT_THAT(result.err, Not(HasSubstr("entrypoint"))) << entrypoint;
  }
  void WriteProgram(const std::string& name, const std::string& text) const {
    fs::permissions(dtrain_.Write(name, text), fs::perms::owner_all);
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

  CliRunner dtrain_;
};

TEST_F(ScriptCheckTest, NamesTheScriptThatWasMeant) {
  dtrain_.Write("train.py", "");
  ExpectRefused("python3 trian.py", "no script 'trian.py'");
  EXPECT_THAT(Check("python3 trian.py").err,
              HasSubstr("; did you mean 'train.py'?"));
  fs::create_directory(dtrain_.directory() / "src");
  dtrain_.Write("src/train.py", "");
  ExpectRefused("python3 -u -W ignore src/trian.py --lr {lr}",
                "; did you mean 'src/train.py'?");
  ExpectRefused("env A=1 python3 none.py", "no script 'none.py'");
}

TEST_F(ScriptCheckTest, RefusesAScriptThatDoesNotCompile) {
  dtrain_.Write("train.py", "import os\nprint('a'\n");
  ExpectRefused("python3 train.py", ": train.py:2:");
  EXPECT_THAT(Check("python3 train.py").err, HasSubstr("/python3, Python 3."));
  ExpectRefused("env OMP_NUM_THREADS=1 python3 -u train.py --lr {lr}",
                ": train.py:2:");
  dtrain_.Write("outside.py", "return 1\n");
  ExpectRefused("python3 outside.py", "'return' outside function");
  // Nothing was compiled into a file.
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "__pycache__"));
}

TEST_F(ScriptCheckTest, CompilesAScriptThatNamesPythonItself) {
  WriteProgram("train.py", "#!/usr/bin/env python3\nif:\n");
  ExpectRefused("./train.py", ": ./train.py:2:");
}

TEST_F(ScriptCheckTest, ExecutesNothingOfTheContext) {
  dtrain_.Write("sys.py", "open('executed', 'w')\n");
  dtrain_.Write("train.py", "open('executed', 'w')\n");
  ExpectAccepted("python3 train.py");
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "executed"));
}

TEST_F(ScriptCheckTest, RefusesAProgramThatCannotBeExecuted) {
  dtrain_.Write("train.sh", "#!/bin/sh\n");
  ExpectRefused("./train.sh", "may not be executed; chmod +x it");
  ExpectRefused("./tarin.sh",
                "tarin.sh: there is no such file; did you mean "
                "'./train.sh'?");
  WriteProgram("windows.sh", "#!/bin/sh\r\nexit 1\r\n");
  ExpectRefused("./windows.sh",
                "./windows.sh:1: the line ends with a carriage "
                "return");
}

TEST_F(ScriptCheckTest, NamesAMissingInterpreter) {
  dtrain_.Write("train.py", "");
  ExpectRefusedHere("python9 train.py", "there is no program 'python9'");
  WriteProgram("a.py", "#!/usr/bin/python9\n");
  ExpectRefusedHere("./a.py", "./a.py:1: /usr/bin/python9: there is no such");
  WriteProgram("b.py", "#! /usr/bin/env -S python9 -u\n");
  ExpectRefusedHere("./b.py", "./b.py:1: there is no program 'python9'");
}

TEST_F(ScriptCheckTest, RefusesAPythonThatIsTooOldForTheModule) {
  WriteOldPython();
  dtrain_.Write("train.py", "import dtrain\n");
  ExpectRefused("./python3.6 train.py",
                "train.py: imports dtrain, which needs Python 3.8 (");
  dtrain_.Write("new.py", "match x:\n");
  ExpectRefused("./python3.6 new.py",
                "python3.6, Python 3.6.9); correct the script, or name a newer "
                "Python for it");
  dtrain_.Write("plain.py", "# import dtrain\n");
  ExpectAccepted("./python3.6 plain.py");
}

TEST_F(ScriptCheckTest, ImportsOfDtrainMayBeOptional) {
  // As WriteOldPython, but with the parser of the real one.
  WriteProgram("python3",
               "#!/bin/sh\n/usr/bin/env -i PATH=/usr/bin:/bin "
               "python3 \"$@\" | sed 's/^version.*/version\\t3\\t6"
               "\\t9/'\n");
  dtrain_.Write("a.py", "import os, dtrain.core\n");
  ExpectRefused("./python3 a.py", "a.py: imports dtrain");
  dtrain_.Write("b.py", "from dtrain import init\n");
  ExpectRefused("./python3 b.py", "b.py: imports dtrain");
  dtrain_.Write("c.py",
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
  const CliRunner dtrain;
  dtrain.Write("options.py",
               std::string("import argparse\n"
                           "parser = argparse.ArgumentParser()\n") +
                   one.definition + "\n");
  dtrain.Write("train.py", "from options import parser\n");
  dtrain.Write("x.yaml", std::string("entrypoint: python3 train.py ") +
                             one.arguments +
                             "\nhyperparameters:\n"
                             "  use_bn: {type: categorical, vals: [true, "
                             "false]}\n  lr: 0.1\n"
                             "searcher: {name: grid, metric: loss}\n");
  for (const char* command : {"create", "validate"}) {
    if (*one.says == '\0' && command == std::string("create")) continue;
    const CliResult result = dtrain.Run({command, "x.yaml"});
    EXPECT_EQ(result.code, *one.says == '\0' ? 0 : 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, FlagOptionTest,
    testing::Values(
        FlagOption{"StoreTrue",
                   "parser.add_argument('--use-bn', action='store_true')",
                   "--use-bn {use_bn} --lr {lr}",
                   "x.yaml: entrypoint: --use-bn takes no value in train.py, "
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
TEST_F(ScriptCheckTest, RefusesAModuleThatHidesDtrain) {
  dtrain_.Write("train.py", "import dtrain\n");
  dtrain_.Write("other.py", "import json\n");
  dtrain_.Write("run.sh", "python3 train.py\n");
  for (const std::string directory : {"dtrain", "src", "src/dtrain"}) {
    fs::create_directory(dtrain_.directory() / directory);
  }
  ExpectAccepted("python3 train.py");
  dtrain_.Write("dtrain/__init__.py", "");
  ExpectRefused("python3 train.py",
                "'dtrain/__init__.py' hides the module dtrain, which train.py "
                "imports; rename it");
  ExpectRefused("torchrun --nproc-per-node 2 train.py", "hides the module");
  ExpectRefused("python3 -m train", "hides the module dtrain");
  ExpectRefused("sh run.sh", "hides the module dtrain");
  ExpectAccepted("python3 other.py");
  fs::rename(dtrain_.directory() / "dtrain/__init__.py",
             dtrain_.directory() / "dtrain.py");
  ExpectRefused("python3 train.py", "'dtrain.py' hides the module dtrain");
  dtrain_.Write("src/train.py", "from dtrain import core\n");
  ExpectAccepted("python3 src/train.py");
  dtrain_.Write("src/dtrain/__init__.py", "");
  ExpectRefused("python3 src/train.py",
                "'src/dtrain/__init__.py' hides the module dtrain");
}

TEST_F(ScriptCheckTest, WarnsAboutDetermined) {
  fs::create_directory(dtrain_.directory() / "src");
  dtrain_.Write("src/core.py", "import os\nimport determined as det\n");
  const CliResult missing = Check("python3 src/core.py");
  EXPECT_EQ(missing.code, 0);
  EXPECT_THAT(missing.err,
              AllOf(HasSubstr("x.yaml: entrypoint: warning: src/core.py:2: "
                              "imports determined, which "),
                    HasSubstr("python3 does not find; write 'dtrain' in its "
                              "place: it has Determined's Core API")));
  EXPECT_THAT(dtrain_.Run({"create", "x.yaml", "--dry-run"}).err,
              HasSubstr("warning: src/core.py:2: imports determined"));

  // A module beside the script is what it imports.
  dtrain_.Write("src/determined.py", "open('/proc/self/none')\n");
  EXPECT_THAT(Check("python3 src/core.py").err,
              HasSubstr("imports determined, which does not report to dtrain"));
}

TEST_F(ScriptCheckTest, NamesWhatDeterminedHasAndDtrainLacks) {
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
    dtrain_.Write("a.py", one.script);
    const CliResult result = Check("python3 a.py");
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr("warning: a.py:" + one.place));
  }
  // These are certain to fail.
  for (const std::string script :
       {"from dtrain import pytorch", "import dtrain.experimental",
        "from dtrain.keras import TFKerasTrial"}) {
    dtrain_.Write("a.py", script + "\n");
    ExpectRefused("python3 a.py", "a.py:1: determined.");
  }
  dtrain_.Write("a.py",
                "import dtrain as det\nfrom dtrain import core, keras\n"
                "from dtrain.keras import DtrainCallback\n"
                "det.core.init(); det.get_cluster_info(); keras.WEIGHTS\n"
                "class pytorch: pass\npytorch.init = 1\n");
  ExpectAccepted("python3 a.py");
  dtrain_.Write("b.py",
                "try:\n  import determined\nexcept ImportError:\n  pass\n"
                "from . import determined\n");
  ExpectAccepted("python3 b.py");
}

TEST_F(ScriptCheckTest, AcceptsWhatItDoesNotUnderstand) {
  WriteProgram("torchrun", "#!/bin/sh\n");
  WriteProgram("python", "#!/bin/sh\nexit 3\n");  // does not answer
  dtrain_.Write("bad.py", "if:\n");
  dtrain_.Write("train.sh", "");
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
  fs::create_directory(dtrain_.directory() / "package");
  dtrain_.Write("package/__main__.py", "");
  ExpectAccepted("python3 package");
  dtrain_.Write("app.pyz", std::string("PK\0\x03", 4));
  ExpectAccepted("python3 app.pyz");
}

}  // namespace
}  // namespace dtrain
