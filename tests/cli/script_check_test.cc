#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

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
  void WriteProgram(const std::string& name, const std::string& text) const {
    fs::permissions(dtrain_.Write(name, text), fs::perms::owner_all);
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

TEST_F(ScriptCheckTest, NamesAMissingInterpreter) {
  dtrain_.Write("train.py", "");
  ExpectRefusedHere("python9 train.py", "there is no program 'python9'");
  WriteProgram("a.py", "#!/usr/bin/python9\n");
  ExpectRefusedHere("./a.py", "./a.py:1: /usr/bin/python9: there is no such");
  WriteProgram("b.py", "#! /usr/bin/env -S python9 -u\n");
  ExpectRefusedHere("./b.py", "./b.py:1: there is no program 'python9'");
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

}  // namespace
}  // namespace dtrain
