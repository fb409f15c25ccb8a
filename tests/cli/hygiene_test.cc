// Names and texts that terminals, shells or file systems could obey; secrets.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/support/fault_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Nasty {
  const char* label;
  std::string text;
};

void PrintTo(const Nasty& nasty, std::ostream* out) { *out << nasty.label; }

class NastyNameTest : public FaultRun,
                      public testing::WithParamInterface<Nasty> {
 protected:
  NastyNameTest() { dtrain_.Write("fault.yaml", FaultYaml("", 20)); }

  // Files created since, other than the store and the test's own files.
  std::string UnexpectedFiles() const {
    return Shell(
               "find . -newer fault.yaml -not -path './store*' -not -path "
               "./.input -not -path './slots*' -not -path . -not -path "
               "./typescript -not -path ./all")
        .out;
  }
};

TEST_P(NastyNameTest, IsOnlyALabel) {
  const std::string& name = GetParam().text;
  const CliResult created =
      Run({"create", "fault.yaml", "-q", "--label=" + name, "--name=" + name});
  ASSERT_EQ(created.code, 0) << created.err;

  EXPECT_EQ(Run({"describe", "1", "--json"}).Json().at("name"), name);
  EXPECT_EQ(UnexpectedFiles(), "");
  EXPECT_EQ(Shell("ls store/experiments").out, "1\n");
  EXPECT_EQ(Run({"list", "--label=" + name, "--json"})
                .Json()
                .at("experiments")
                .size(),
            1);
  EXPECT_EQ(Run({"delete", "1", "--yes"}).code, 0);
  EXPECT_EQ(UnexpectedFiles(), "");
}

TEST_P(NastyNameTest, IsEscapedOnATerminal) {
  const std::string& name = GetParam().text;
  ASSERT_EQ(Run({"create", "fault.yaml", "-q", "--name=" + name}).code, 0);
  ASSERT_EQ(Run({"note", "1", "--", name}).code, 0);
  const CliResult shown = dtrain_.RunProgram(
      {"script", "-qec",
       "stty -opost; for c in list 'describe 1' 'trials 1' 'best 1' "
       "'checkpoints 1' 'logs 1' doctor 'resume 1'; do dtrain $c; done",
       "/dev/null"},
      {.environment = {{"TERM", "dumb"}}});
  EXPECT_THAT(shown.out, HasSubstr("COMPLETED"));
  // C0 but newlines (and script's own carriage returns), DEL, C1, bidi.
  dtrain_.Write("all", shown.out);
  const CliResult found = Shell(
      "python3 -c 'import re; t = open(\"all\", newline=\"\")"
      ".read().replace(\"\\r\\n\", \"\\n\"); "
      "print(re.findall(\"[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c"
      "\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]\", t))'");
  EXPECT_EQ(found.out, "[]\n") << found.err;
}

TEST_P(NastyNameTest, LeavesJsonValid) {
  ASSERT_EQ(
      Run({"create", "fault.yaml", "-q", "--name=" + GetParam().text}).code, 0);
  const CliResult result = Shell(
      "for c in list 'describe 1' 'resume 1'; do dtrain $c --json 2>/dev/null "
      "| iconv -f utf-8 -t utf-8 | python3 -c 'import json, sys; "
      "json.load(sys.stdin)' || echo $c; done");
  EXPECT_EQ(result.out, "") << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Names, NastyNameTest,
    testing::Values(Nasty{"UpAndAway", "../../x"}, Nasty{"Absolute", "/etc/x"},
                    Nasty{"LikeAnOption", "-rf"},
                    Nasty{"ShellCommand", "$(touch canary); touch canary|`id`"},
                    Nasty{"Long", std::string(300, 'n')},
                    Nasty{"Newline", "a\nb\tc"},
                    Nasty{"Escapes", "\x1b[2J\x1b]0;gone\x07!"},
                    Nasty{"Bidi", "a\u202e\u2066gpj.exe"},
                    Nasty{"Decomposed", "e\u0301\u00e9"}),
    [](const auto& info) { return info.param.label; });

class HygieneTest : public FaultRun {};

// Cut texts and separators of a live search and of tables.
TEST_F(HygieneTest, TerminalsWithoutUtf8GetAscii) {
  dtrain_.Write("search.yaml",
                SearchYaml("name: async_halving, max_length: 40, max_trials: "
                           "6, num_rungs: 2"));
  const auto shown = [this](const char* locale) {
    return dtrain_
        .RunProgram({"script", "-qec",
                     "stty rows 8 cols 30; dtrain create search.yaml --name="
                     "'a search with a long name'; dtrain list; dtrain trials "
                     "1; dtrain best 1; dtrain describe 1",
                     "/dev/null"},
                    {.environment = {{"TERM", "xterm"}, {"LC_ALL", locale}}})
        .out;
  };
  const std::string ascii = shown("C");
  EXPECT_TRUE(std::ranges::all_of(ascii, [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  })) << ascii;
  EXPECT_THAT(ascii, AllOf(HasSubstr("..."), HasSubstr(" | ")));
  EXPECT_THAT(shown("C.UTF-8"), AllOf(HasSubstr("…"), HasSubstr(" · ")));
}

// An escape in a log, in an error of a trial, and in a hyperparameter.
TEST_F(HygieneTest, LogsAreEscapedOnATerminal) {
  dtrain_.Write("fault.yaml",
                FaultYaml("log_hex: '1b5d303b676f6e65071b5b324a9b00ff0d0ae280ae"
                          "0a', crash_at: 10",
                          20));
  const CliResult shown = dtrain_.RunProgram(
      {"script", "-qec",
       "dtrain create fault.yaml -q; dtrain logs 1; dtrain logs 1 --tail 5",
       "/dev/null"},
      {.environment = {{"TERM", "dumb"}}});
  EXPECT_THAT(shown.out,
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")),
                    Not(HasSubstr("\x9b")), Not(HasSubstr("\u202e"))));
  EXPECT_THAT(shown.out, HasSubstr("\\x1b]0;gone\\x07\\x1b[2J"));
  // The log keeps the printed bytes.
  EXPECT_THAT(Run({"logs", "1", "--raw"}).out,
              HasSubstr(std::string("\x1b]0;gone\x07\x1b[2J\x9b\0\xff", 15)));
  EXPECT_EQ(Shell("dtrain logs 1 --json | iconv -f utf-8 -t utf-8 | python3 -c "
                  "'import json, sys; json.load(sys.stdin)'")
                .code,
            0);
}

TEST_F(HygieneTest, HyperparametersAreEscapedOnATerminal) {
  dtrain_.Write("fault.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {global_batch_size: 8, dataset: strokes, "
                "training_samples: 64, data: {type: categorical, vals: "
                "[\"\\e[2J\\u202e\", b]}}\n"
                "searcher: {name: grid, metric: val_loss, max_length: 2}\n"
                "resources: {slots: cpu}\n");
  const CliResult shown = dtrain_.RunProgram(
      {"script", "-qec",
       "dtrain create fault.yaml -q; dtrain trials 1; dtrain best 1 -n 2; "
       "dtrain describe 1; dtrain config 1",
       "/dev/null"},
      {.environment = {{"TERM", "dumb"}}});
  EXPECT_THAT(shown.out, HasSubstr("[2J"));
  EXPECT_THAT(shown.out,
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\u202e"))));
  EXPECT_EQ(Trials().size(), 2);
}

TEST_F(HygieneTest, ControlCharacterInANameIsRefused) {
  dtrain_.Write("fault.yaml", FaultYaml("", 20));
  const CliResult result = Run({"create", "fault.yaml", "--name",
                                "a\xc2\x9b"
                                "31mb"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(": control character"));
  EXPECT_FALSE(fs::exists(dtrain_.store()));
}

TEST_F(HygieneTest, WarnsOfAStoreThatOthersCanEnter) {
  ASSERT_EQ(Create(FaultYaml("", 20)).code, 0);
  fs::permissions(dtrain_.store(), fs::perms::all);
  const CliResult result = Run({"doctor"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("mode 0777, so other users have access"));
}

// Secrets are neither in the store and its logs nor in the words that `ps`
// shows; `ps` does show what the user gives as arguments of the command.
TEST_F(HygieneTest, SecretsAreNotStoredOrShown) {
  dtrain_.Write("fault.yaml",
                FaultYaml("step_ms: 10", 1'000'000,
                          "environment:\n  environment_variables: {API_KEY: "
                          "canary-in-yaml}\n"));
  ASSERT_EQ(
      Shell(
          "export SECRET=canary-in-environment; umask 000; exec dtrain create "
          "fault.yaml -d --set environment.environment_variables.A=canary-set")
          .code,
      0);
  AwaitBatches(10);
  std::string words;
  for (const pid_t pid : Processes()) {
    std::ostringstream line;
    line << std::ifstream("/proc/" + std::to_string(pid) + "/cmdline").rdbuf();
    words += line.str();
  }
  EXPECT_THAT(words, HasSubstr("trial-host"));
  EXPECT_THAT(words, Not(HasSubstr("canary-in-")));
  EXPECT_EQ(Run({"cancel", "1"}).code, 0);
  EXPECT_EQ(Shell("grep -rla canary store").out, "");
  EXPECT_EQ(Shell("find store slots -perm /077").out, "");
}

}  // namespace
}  // namespace dtrain
