// dtrain init.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class InitTest : public testing::Test {
 protected:
  const CliRunner dtrain_;
};

TEST_F(InitTest, WritesAModelItsYamlAndATest) {
  const CliResult result = dtrain_.Run({"init", "a/mine"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "a/mine/model_def.cpp\na/mine/const.yaml\na/mine/test.sh\n");
  EXPECT_THAT(result.err, HasSubstr("dtrain create a/mine/const.yaml --test"));
  const fs::path test = dtrain_.directory() / "a/mine/test.sh";
  EXPECT_NE(fs::status(test).permissions() & fs::perms::owner_exec,
            fs::perms::none);
  // It is known there, and nowhere else.
  const CliResult valid = dtrain_.Run({"validate", "a/mine/const.yaml"});
  EXPECT_EQ(valid.code, 0);
#ifdef DTRAIN_HAS_TRIALS
  EXPECT_EQ(valid.err, "");
#else
  EXPECT_THAT(valid.err,
              HasSubstr("settings for compiling models are missing"));
#endif
  fs::remove(dtrain_.directory() / "a/mine/model_def.cpp");
  EXPECT_THAT(dtrain_.Run({"validate", "a/mine/const.yaml"}).err,
              HasSubstr("unknown model 'model_def:MyTrial'"));
}

TEST_F(InitTest, WritesATestThatFindsThisProgram) {
  ASSERT_EQ(dtrain_.RunProgram({DTRAIN_BINARY, "init", "mine"}).code, 0);
  dtrain_.Write("mine/const.yaml", "name: broken\n");
  const CliResult result =
      dtrain_.RunProgram({"env", "PATH=/usr/bin:/bin", "sh", "mine/test.sh"});
  EXPECT_THAT(result.err, HasSubstr("const.yaml: entrypoint: required"));

  const CliResult other =
      dtrain_.RunProgram({"env", "DTRAIN=echo", "sh", "mine/test.sh"});
  EXPECT_THAT(other.out, HasSubstr("create const.yaml --test"));
  // If the named program is missing, the test must not use another one.
  const CliResult none =
      dtrain_.RunProgram({"env", "DTRAIN=./typo", "sh", "mine/test.sh"});
  EXPECT_EQ(none.code, 127);
  EXPECT_THAT(none.err, HasSubstr("dtrain not found: ./typo"));
}

TEST_F(InitTest, WritesATestThatFindsAProgramInPath) {
  ASSERT_EQ(dtrain_.RunProgram({"sh", "-c", "dtrain init mine"}).code, 0);
  dtrain_.Write("mine/const.yaml", "name: broken\n");
  const CliResult result =
      dtrain_.RunProgram({"env", "PATH=/usr/bin:/bin", "sh", "mine/test.sh"});
  EXPECT_THAT(result.err, HasSubstr("const.yaml: entrypoint: required"));
}

class InitNameTest : public InitTest,
                     public testing::WithParamInterface<std::string> {};

TEST_P(InitNameTest, IsQuotedInThePrintedCommand) {
  const CliResult made = dtrain_.Run({"init", "--", GetParam()});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::size_t begin = made.err.find("dtrain create ");
  const std::size_t end = made.err.find(" --test");
  ASSERT_NE(end, std::string::npos) << made.err;

  const CliResult checked =
      dtrain_.RunProgram({"sh", "-c",
                          "dtrain validate --keys " +
                              made.err.substr(begin + 14, end - begin - 14)});

  EXPECT_EQ(checked.code, 0) << checked.err << made.err;
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "canary"));
}

TEST_P(InitNameTest, IsQuotedInTheWrittenTest) {
  fs::create_directory(dtrain_.directory() / GetParam());
  fs::create_symlink(DTRAIN_BINARY,
                     dtrain_.directory() / GetParam() / "dtrain");
  ASSERT_EQ(
      dtrain_.RunProgram({"./" + GetParam() + "/dtrain", "init", "mine"}).code,
      0);
  dtrain_.Write("mine/const.yaml", "name: broken\n");

  const CliResult result =
      dtrain_.RunProgram({"env", "PATH=/usr/bin:/bin", "sh", "mine/test.sh"});

  EXPECT_THAT(result.err, HasSubstr("const.yaml: entrypoint: required"));
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "canary"));
}

INSTANTIATE_TEST_SUITE_P(Names, InitNameTest,
                         testing::Values("a b", "it's", "$(touch canary)", "-x",
                                         "`touch canary`", "a}\"b",
                                         "*;touch canary"));

TEST_F(InitTest, PrintsJson) {
  const auto json = dtrain_.Run({"init", "mine", "--json"}).Json();
  EXPECT_EQ(json["directory"], "mine");
  EXPECT_EQ(json["files"].size(), 3u);
}

TEST_F(InitTest, OverwritesNothing) {
  dtrain_.Write("const.yaml", "mine");
  const CliResult result = dtrain_.Run({"init", "."});

  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("const.yaml: already exists"));
  EXPECT_FALSE(fs::exists(dtrain_.directory() / "model_def.cpp"));
}

TEST_F(InitTest, ExplainsWhatToDoWithAPythonModel) {
  fs::create_directory(dtrain_.directory() / "theirs");
  dtrain_.Write("theirs/model_def.py", "class Trial: pass");
  dtrain_.Write("theirs/const.yaml",
                "entrypoint: model_def:MNistTrial\n"
                "searcher: {name: single, metric: loss, max_length: 5}\n");
  for (const char* command : {"create", "validate"}) {
    const CliResult result = dtrain_.Run({command, "theirs/const.yaml"});
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("theirs/const.yaml:1:13: entrypoint: "),
                      HasSubstr("theirs/model_def.py is Python"),
                      HasSubstr("'import dtrain'"),
                      HasSubstr("entrypoint: python3 train.py"),
                      HasSubstr("docs/python.md"), HasSubstr("'dtrain init'")));
  }
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(InitTest, RefusesAnInvalidDirectory) {
  dtrain_.Write("file", "");
  const CliResult file = dtrain_.Run({"init", "file"});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.err, HasSubstr("file: cannot create the directory"));
  EXPECT_EQ(dtrain_.Run({"init", "file/below"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"init"}).code, 2);
}

}  // namespace
}  // namespace dtrain
