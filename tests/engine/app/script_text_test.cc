#include "engine/app/script_text.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using testing::ElementsAre;

class ScriptTextTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    const auto path = directory_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  ScriptText Read(const std::vector<std::string>& command) const {
    return ReadScriptText(command, directory_.path());
  }
  ScriptText ReadScript(const std::string& text) const {
    Write("train.py", text);
    return Read({"python3", "train.py"});
  }

  const TemporaryDirectory directory_;
};

TEST_F(ScriptTextTest, FindsOptionsThatTakeNoValue) {
  using Flags = std::map<std::string, std::string>;
  struct Row {
    const char* definition;
    Flags flags;
  };
  for (const Row& row : {
           Row{"parser.add_argument('--amp', action='store_true')",
               {{"--amp", ""}}},
           Row{"parser.add_argument(\"--amp\", action = \"store_true\")",
               {{"--amp", ""}}},
           Row{"parser.add_argument(\n  '-n', '--no-amp',\n  "
               "action='store_false', help='a) b')",
               {{"-n", ""}, {"--no-amp", ""}}},
           Row{"parser.add_argument('--amp', action='store_const', const=3)",
               {{"--amp", ""}}},
           Row{"parser.add_argument('-v', action='count')", {{"-v", ""}}},
           Row{"parser.add_argument('--amp', "
               "action=argparse.BooleanOptionalAction)",
               {{"--amp", "--no-amp"}}},
           Row{"@click.option('--amp/--without-amp', default=True)",
               {{"--amp", "--without-amp"}}},
           Row{"@click.option('--amp', is_flag=True)", {{"--amp", ""}}},
           Row{"parser.add_argument('--amp', type=eval)", {}},
           Row{"# parser.add_argument('--amp', action='store_true')", {}},
           Row{"parser.add_argument('--amp', action='store_true')\n"
               "other.add_argument('--amp', type=int)",
               {}},
           Row{"parser.add_argument('amp', action='store_true')", {}},
       }) {
    EXPECT_EQ(ReadScript(std::string(row.definition) + "\n").flags, row.flags)
        << row.definition;
  }
}

TEST_F(ScriptTextTest, FollowsImportsOfTheContext) {
  Write("options.py", "parser.add_argument('--amp', action='store_true')\n");
  Write("package/__init__.py", "");
  Write("package/part.py", "import os\nfrom . import other\n");
  Write("package/other.py", "os.environ['DTRAIN_HPARAM_lr']\n");
  Write("src/far.py", "import dtrain.core\n");
  const ScriptText text = ReadScript(
      "import options, package.part\ntry: import far\nexcept: pass\n");
  EXPECT_EQ(text.name, "train.py");
  EXPECT_TRUE(text.is_python);
  EXPECT_EQ(text.flags.count("--amp"), 1u);
  EXPECT_THAT(text.variables, ElementsAre("lr"));
  EXPECT_TRUE(text.imports_dtrain);
  EXPECT_FALSE(ReadScript("# import far\nx = 'import far'\n").imports_dtrain);
}

TEST_F(ScriptTextTest, FollowsScriptsThatAShellStarts) {
  Write("train.py", "import dtrain\n");
  Write("run.sh", "cd .\nexec python3 train.py \"$@\"\n");
  const ScriptText text = Read({"sh", "run.sh"});
  EXPECT_EQ(text.name, "run.sh");
  EXPECT_FALSE(text.is_python);
  EXPECT_TRUE(text.imports_dtrain);
  EXPECT_TRUE(Read({"sh", "-c", "python3 train.py"}).imports_dtrain);
  EXPECT_TRUE(Read({"python3", "-m", "train"}).imports_dtrain);
  EXPECT_FALSE(Read({"sh", "-c", "true"}).imports_dtrain);
}

TEST_F(ScriptTextTest, KnowsWhichHyperparametersMayBeRead) {
  const ScriptText named =
      ReadScript("os.environ['DTRAIN_HPARAM_net_depth']\n");
  EXPECT_TRUE(named.MayRead("net.depth"));
  EXPECT_TRUE(named.MayRead("net_depth"));
  EXPECT_FALSE(named.MayRead("net"));
  for (const char* all :
       {"os.environ['DTRAIN_HPARAM_' + name]\n",
        "open(os.environ['DTRAIN_TRIAL'])\n", "import dtrain\n"}) {
    EXPECT_TRUE(ReadScript(all).MayRead("net")) << all;
  }
}

TEST_F(ScriptTextTest, KnowsWhetherAProgramContinuesAndReports) {
  struct Row {
    const char* script;
    bool continues;
    bool reports;
  };
  for (const Row& row : {
           Row{"print('loss 0.5')\n", false, false},
           Row{"os.environ['DTRAIN_UNTIL']\n", true, false},
           Row{"os.environ['DTRAIN_CHECKPOINT']\n", true, false},
           Row{"os.environ['DTRAIN_TRIAL']\n", true, false},
           Row{"open(3, 'w')\n", false, true},
           Row{"os.write(3, b'')\n", false, true},
           Row{"import dtrain\n", true, true},
       }) {
    const ScriptText text = ReadScript(row.script);
    EXPECT_EQ(text.Continues(), row.continues) << row.script;
    EXPECT_EQ(text.reports, row.reports) << row.script;
  }
}

TEST_F(ScriptTextTest, FindsAModuleThatHidesDtrain) {
  const std::string script = "import dtrain\n";
  EXPECT_EQ(ReadScript(script).hides_dtrain, "");
  Write("src/dtrain.py", "");
  EXPECT_EQ(ReadScript(script).hides_dtrain, "");  // not beside the script
  Write("src/train.py", script);
  EXPECT_EQ(Read({"python3", "src/train.py"}).hides_dtrain, "src/dtrain.py");
  Write("dtrain/__init__.py", "");
  EXPECT_EQ(ReadScript(script).hides_dtrain, "dtrain/__init__.py");
  EXPECT_EQ(ReadScript("import os\n").hides_dtrain, "");
  Write("dtrain/_trial.py", "");  // a copy of dtrain's own
  EXPECT_EQ(ReadScript(script).hides_dtrain, "");
}

}  // namespace
}  // namespace dtrain
