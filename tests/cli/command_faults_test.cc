// Commands that go wrong, and what is done to them.

#include <csignal>
#include <filesystem>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/files.h"
#include "engine/store/layout.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_run.h"
#include "tests/support/mounting.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Trains as it should, 10 ms a batch: says where it is, and checkpoints every
// ten batches and where it is asked to stop. At batch `held_at` it waits for as
// long as there is a file `held_file`, or until it is asked to stop.
constexpr char kTrainer[] = R"(
import json, os, select, sys, time
t = json.load(open(os.environ["DTRAIN_TRIAL"]))
reports, operations = open(3, "w", buffering=1), open(4, "rb", buffering=0)
say = lambda **report: print(json.dumps(report), file=reports)
batches = 0
if t["checkpoint"]:
    batches = int(open(t["checkpoint"]["path"] + "/at").read())
print("begins at", batches, flush=True)
def save():
    path = "%s/%d" % (t["directory"], batches)
    os.makedirs(path, exist_ok=True)
    open(path + "/at", "w").write(str(batches))
    say(type="checkpoint", batches=batches, path=path)
order = {"type": "train", "until": t["until"]}
while order["type"] == "train":
    while batches < order["until"]["batches"]:
        time.sleep(0.01)
        batches += 1
        say(type="training", batches=batches, metrics={"loss": 1 / batches})
        while batches == held_at and os.path.exists(held_file):
            if select.select([operations], [], [], 0.01)[0]:
                break
        if select.select([operations], [], [], 0)[0]:
            save()
            sys.exit(0)
        saves = t["hyperparameters"].get("save", True)
        if saves and batches % 10 == 0 and batches < order["until"]["batches"]:
            save()
    save()
    say(type="validation", batches=batches, metrics={"loss": 1 / batches})
    order = json.loads(operations.readline() or '{"type": "stop"}')
)";

class CommandFaultsTest : public FaultRun {
 protected:
  static std::string Yaml(const std::string& script, int batches,
                          const std::string& rest = "max_restarts: 0\n") {
    return "name: command\nentrypoint: " + script +
           "\nsearcher: {name: single, metric: loss, max_length: " +
           std::to_string(batches) + "}\nresources: {slots: cpu}\n" + rest;
  }
  CliResult CreateShell(const std::string& script,
                        const std::string& rest = "max_restarts: 0\n") const {
    dtrain_.Write("program.sh", script);
    return Create(Yaml("sh program.sh", 10, rest));
  }
  pid_t StartTrainer(int batches, const std::string& rest = "max_restarts: 2\n",
                     int held_at = 0) const {
    dtrain_.Write("trainer.py", "held_at = " + std::to_string(held_at) +
                                    "\nheld_file = '" + HeldFile().string() +
                                    "'\n" + kTrainer);
    return Start(Yaml("python3 trainer.py", batches, rest));
  }
  // Starts a trainer and returns the runner's process once batch `at` is
  // recorded, where each process of the trial waits until ReleaseTrainer.
  pid_t StartHeldTrainer(int batches, int at,
                         const std::string& rest = "max_restarts: 2\n") const {
    dtrain_.Write(HeldFile().filename(), "");
    const pid_t runner = StartTrainer(batches, rest, at);
    AwaitBatches(at);
    return runner;
  }
  void ReleaseTrainer() const { std::filesystem::remove(HeldFile()); }
  std::filesystem::path HeldFile() const {
    return dtrain_.directory() / "trainer-is-held";
  }
  // Creates an experiment whose program has a secret, and writes it to its log.
  // Returns the reason of its trial.
  std::string ReasonWithKey(const std::string& script) {
    const CliResult result =
        CreateShell("echo \"the key is $KEY\"\n" + script,
                    "max_restarts: 0\n"
                    "environment: {environment_variables: [KEY=canary-123]}\n");
    EXPECT_THAT(result.out, Not(HasSubstr("canary")));
    EXPECT_THAT(result.err, HasSubstr("REDACTED"));
    const std::string id = std::to_string(++created_);
    return Run({"trials", id, "--json"}).Json()["trials"][0]["reason"];
  }
  static std::string End(const std::string& reason) {
    return "echo '{\"type\":\"end\",\"reason\":\"" + reason +
           "\",\"message\":\"bad key '$KEY'\"}' >&3\n";
  }
  bool HaveAllEnded() const {
    return Within(Seconds(60), [&] { return Processes().empty(); });
  }
  std::string Reason() const { return Trial().at("reason"); }
  std::string Logs() const { return Run({"logs", "1"}).out; }

  int created_ = 0;  // experiments
};

TEST_F(CommandFaultsTest, EndsWithoutAResult) {
  const CliResult result = CreateShell("exit 0\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Trial().at("state"), "ERROR");
  EXPECT_THAT(Reason(), HasSubstr("ended at 0 of 10 batches without a "
                                  "validation of 'loss' there"));
}

TEST_F(CommandFaultsTest, LacksTheMetricOfTheSearch) {
  dtrain_.Write("program.sh",
                "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":"
                "{\"acc\":1}}' >&3; sleep 100\n");
  const CliResult result = Create(
      "entrypoint: sh program.sh\nresources: {slots: cpu}\n"
      "searcher: {name: random, metric: loss, max_length: 10, max_trials: "
      "1}\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(Reason(), HasSubstr("searcher.metric 'loss' was not reported; "
                                  "reported: acc"));
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
}

TEST_F(CommandFaultsTest, ReportsExitCodeAndLastLines) {
  const CliResult result =
      CreateShell("echo 'no such data' >&2; exit 3\n", "max_restarts: 1\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Reason(),
            "exited with code 3: no such data (twice, before its first "
            "report)");
  EXPECT_THAT(result.err, HasSubstr("no such data"));
  EXPECT_EQ(Trial().at("runs"), 2);
}

TEST_F(CommandFaultsTest, SyntaxErrorCostsFewProcesses) {
  dtrain_.Write("train.py", "for\n");
  dtrain_.Write("train.sh", "echo >> \"$STARTS\"; exec python3 train.py\n");
  const std::filesystem::path starts = dtrain_.Write("starts", "");

  const CliResult result = Create(
      "entrypoint: sh train.sh\n"
      "searcher: {name: random, metric: loss, max_length: 10, max_trials: 30, "
      "max_concurrent_trials: 2}\nresources: {slots: cpu}\n"
      "environment: {environment_variables: [STARTS=" +
      starts.string() + "]}\n");

  const std::string why =
      "3 of 3 trials failed before they reported: SyntaxError: invalid syntax";
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(why));
  EXPECT_EQ(State(), "ERROR");
  EXPECT_LE(std::filesystem::file_size(starts), 8u);
  // Every command that shows the experiment says why it failed.
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr(why));
  EXPECT_THAT(dtrain_.Run({"list", "--csv"}).out, Not(HasSubstr(why)));
  EXPECT_EQ(dtrain_.Run({"list", "--json"}).Json()["experiments"][0]["error"],
            why);
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out, HasSubstr(why));
  const CliResult wait = dtrain_.Run({"wait", "1", "--junit", "report.xml"});
  EXPECT_EQ(wait.code, 1);
  EXPECT_THAT(wait.err, HasSubstr(why));
  EXPECT_THAT(ReadFile(dtrain_.directory() / "report.xml").value_or(""),
              HasSubstr(why));
}

TEST_F(CommandFaultsTest, FatalErrorIsNotRestarted) {
  const CliResult result = CreateShell(
      "echo '{\"type\":\"end\",\"reason\":\"fatal\","
      "\"message\":\"no data in /x\"}' >&3\n",
      "max_restarts: 5\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(Reason(), "no data in /x");
  EXPECT_EQ(Trial().at("runs"), 1);
}

TEST_F(CommandFaultsTest, ReasonHasNoValueOfAnEnvironmentVariable) {
  const CliResult result =
      CreateShell("echo \"bad key $KEY\" >&2; exit 1\n",
                  "max_restarts: 0\n"
                  "environment: {environment_variables: [KEY=canary123]}\n");
  EXPECT_EQ(Reason(), "exited with code 1: bad key REDACTED");
  EXPECT_THAT(result.out + dtrain_.Run({"describe", "1", "--json"}).out,
              Not(HasSubstr("canary123")));
}

TEST_F(CommandFaultsTest, OnlyTheLogHasValuesOfEnvironmentVariables) {
  EXPECT_THAT(ReasonWithKey(End("fatal")), HasSubstr("bad key REDACTED"));
  EXPECT_THAT(ReasonWithKey(End("error")), HasSubstr("bad key REDACTED"));
  EXPECT_THAT(ReasonWithKey(End("invalid_hp")), HasSubstr("bad key REDACTED"));
  EXPECT_THAT(ReasonWithKey(End("user_stop")), HasSubstr("bad key REDACTED"));
  EXPECT_THAT(ReasonWithKey("echo \"no report, $KEY\" >&3\n"),
              HasSubstr("'no report, REDACTED'"));
  // The quotation is cut within the value.
  EXPECT_THAT(ReasonWithKey("printf '%091d%s\\n' 0 $KEY >&3\n"),
              HasSubstr("0REDACTED...'"));
  // A warning of the run.
  ReasonWithKey(
      "echo '{\"type\":\"checkpoint\",\"batches\":1,\"path\":\"/'$KEY'\"}' "
      ">&3\n");

  EXPECT_THAT(dtrain_.Run({"list"}).out, Not(HasSubstr("canary")));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              AllOf(HasSubstr("bad key REDACTED"), Not(HasSubstr("canary"))));
  EXPECT_EQ(Shell("grep -rla canary store | grep -v '/log$'").out, "");
  EXPECT_THAT(Logs(), HasSubstr("the key is canary-123"));
}

TEST_F(CommandFaultsTest, EventsOnATerminalAreEscaped) {
  dtrain_.Write("fault.yaml", Yaml("sh program.sh", 10));
  dtrain_.Write("program.sh", "printf 'bad \\033]0;x\\007 end\\n'; exit 3");
  const CliResult shown =
      dtrain_.RunProgram({"script", "-qec",
                          "dtrain create fault.yaml --jsonl --name \"$(printf "
                          "'\\342\\200\\256n')\"",
                          "/dev/null"},
                         {.environment = {{"TERM", "dumb"}}});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("\"name\":\"\\u202en\""),
                               HasSubstr("bad \\u001b]0;x\\u0007 end")));
  EXPECT_THAT(shown.out,
              testing::Not(testing::ContainsRegex("[\x1b\x07]|\xE2\x80\xAE")));
}

TEST_F(CommandFaultsTest, ReportsSignals) {
  EXPECT_EQ(CreateShell("kill -KILL $$\n").code, 1);
  EXPECT_THAT(Reason(), HasSubstr("killed by signal 9 (SIGKILL)"));
}

TEST_F(CommandFaultsTest, DistinguishesOutOfMemoryFromAKill) {
  dtrain_.Write("eat.py", "print(len(b'x' * 400_000_000))\n");
  dtrain_.Write("fault.yaml", Yaml("python3 eat.py", 10));
  const CliResult result = ShellWithLittleMemory("dtrain create fault.yaml");
  if (result.code == 77) GTEST_SKIP() << "no memory cgroup may be made here";
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(Reason(), HasSubstr("out of memory: killed by the kernel"));
}

TEST_F(CommandFaultsTest, LogsGarbage) {
  const CliResult result = CreateShell(
      "echo hello >&3\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}'"
      " >&3\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Logs(), HasSubstr("line 1 is not JSON: 'hello'"));
}

TEST_F(CommandFaultsTest, NanIsAValue) {
  const CliResult result = CreateShell(
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":NaN}"
      "}' >&3\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Reason(), HasSubstr("loss was NaN"));
}

TEST_F(CommandFaultsTest, SilenceIsAHang) {
  const CliResult result =
      CreateShell("exec sleep 100\n", "max_restarts: 0\nhang_timeout: 1s\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(Reason(), HasSubstr("timeout: no step for 1.0s, no report and no "
                                  "output (hang_timeout)"));
  EXPECT_THAT(Processes(), IsEmpty());
}

// The text of the program is the reason, and dtrain's line is another one.
TEST_F(CommandFaultsTest, TheLastLineNeedsNoNewline) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"printf boom >&2; exit 3", "exited with code 3: boom"},
      {"printf '10%%\\rboom' >&2; exit 3", "exited with code 3: boom"},
      {"exec 2>&1; printf boom; exit 3", "exited with code 3"},
      {"printf '\\033[31mboom' >&2; exit 3", "exited with code 3: boom"},
      {"printf '10%%\\r<3>boom' >&2; exit 3", "exited with code 3: boom"},
      {"printf boom >&2",
       "the program ended at 0 of 10 batches without a "
       "validation of 'loss' there"},
  };
  for (const auto& [script, reason] : cases) {
    const CliResult result = CreateShell(script + "\n");
    const std::string id = std::to_string(++created_);
    EXPECT_EQ(result.code, 1) << script;
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("<3>dtrain"))) << script;
    const json trials = Run({"trials", id, "--json"}).Json();
    EXPECT_EQ(trials["trials"][0]["reason"], reason) << script;
    const std::string log = Run({"logs", id}).out;
    EXPECT_THAT(log, AllOf(HasSubstr("boom\n"), Not(HasSubstr("<3>dtrain"))))
        << script;
    EXPECT_THAT(Run({"logs", id, "--level", "error"}).out,
                HasSubstr("dtrain: the program e"))
        << script;
  }
}

// A program that interrupts its runner, and then does the rest.
TEST_F(CommandFaultsTest, APauseSaysWhatIsLost) {
  const std::string begin =
      "say() { echo \"$1\" >&3; }\n"
      "validate() { say '{\"type\":\"validation\",\"epochs\":'$1',"
      "\"metrics\":{\"loss\":1}}'; }\n"
      "save() { echo $1 > $DTRAIN_DIRECTORY/$1; say '{\"type\":\"checkpoint\","
      "\"epochs\":'$1',\"path\":\"'$DTRAIN_DIRECTORY/$1'\"}'\n"
      // It is deleted once it is saved, and the runner is told then.
      "while [ -e $DTRAIN_DIRECTORY/$1 ]; do sleep 0.1; done; }\n"
      "pause() { kill -INT $(awk '/^PPid/ { print $2 }' /proc/$PPID/status); "
      "read -r order <&4; }\n";
  const std::string lost = "; lost, because no checkpoint has it: ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"validate 1; validate 2; pause", lost + "epochs 1 to 2 of trial 1.1"},
      {"validate 1; pause; save 1", ", nothing is lost"},
      {"save 1; validate 2; pause", lost + "epoch 2 of trial 1.1"},
      {"save 2; validate 2; pause", ", nothing is lost"},
      {"pause", lost + "all that was done of trial 1.1"},
      {"save 2; pause; sleep 100",
       lost + "what came after epoch 2 of trial 1.1"},
  };
  for (const auto& [script, text] : cases) {
    dtrain_.Write("program.sh", begin + script + "\n");
    dtrain_.Write("pause.yaml",
                  "entrypoint: sh program.sh\nresources: {slots: cpu}\n"
                  "searcher: {name: single, metric: loss, max_length: {epochs: "
                  "9}}\n");
    const std::string id = std::to_string(++created_);
    // Only the program that sleeps is killed after it.
    const char* grace = script.ends_with("sleep 100") ? "1s" : "100s";
    const CliResult result =
        dtrain_.Run({"create", "pause.yaml"},
                    {.environment = {{"DTRAIN_STOP_GRACE", grace}}});
    std::string expected = text;
    if (const auto at = expected.find("1.1"); at != expected.npos) {
      expected.replace(at, 1, id);
    }
    EXPECT_EQ(result.code, 130) << script;
    EXPECT_THAT(result.err, HasSubstr("experiment " + id + " is paused" +
                                      expected + "; resume with: "))
        << script;
  }
}

// Without max_length, the end of a script is its result, also if it comes while
// the experiment is being paused.
TEST_F(CommandFaultsTest, AResultInTheGracePeriodIsKept) {
  dtrain_.Write(
      "program.sh",
      "kill -INT $(awk '/^PPid/ { print $2 }' /proc/$PPID/status); sleep 1\n"
      "echo '{\"type\":\"validation\",\"epochs\":1,\"metrics\":{\"loss\":1}}' "
      ">&3\n");
  const CliResult result = Create(
      "entrypoint: sh program.sh\nresources: {slots: cpu}\n"
      "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
      "searcher: {name: random, metric: loss, max_trials: 3, "
      "max_concurrent_trials: 1}\n");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is paused, nothing is lost"));
  EXPECT_EQ(Trial()["state"], "COMPLETED") << Trial();
  EXPECT_EQ(Run({"resume", "1"}).code, 130);
  EXPECT_EQ(Run({"resume", "1"}).code, 0);
  EXPECT_EQ(Trials().size(), 3u);
  for (const json& trial : Trials()) {
    EXPECT_EQ(trial["state"], "COMPLETED");
    EXPECT_EQ(trial["runs"], 1) << trial;
  }
}

// Such a program counts something else than the search.
TEST_F(CommandFaultsTest, AValidationFarBeyondTheSearchIsShown) {
  const std::string report =
      "echo '{\"type\":\"validation\",\"COUNT\":NUMBER,\"metrics\":{\"loss\":"
      "1}}' >&3\n";
  const auto say = [&](const std::string& unit, const std::string& number) {
    std::string text = report;
    text.replace(text.find("COUNT"), 5, unit);
    text.replace(text.find("NUMBER"), 6, number);
    return text;
  };
  struct Case {
    std::string length;
    std::string script;
    std::string more;
    std::string warning;  // or none
  };
  const std::vector<Case> cases = {
      {"{epochs: 3}", say("epochs", "1000000000000000"), "",
       "a validation at 1e+15 epochs, far beyond the 3 epochs of the search"},
      {"{epochs: 3}", say("epochs", "4"), "", ""},
      {"{batches: 30}", say("batches", "100"), "",
       "a validation at 100 batches, far beyond the 30 batches"},
      {"{epochs: 3}", "echo step 900 loss 1\n",
       "metrics: {loss: 'loss (.)', step: 'step (\\d+)'}\n",
       "a validation at 900 epochs, far beyond the 3 epochs"},
  };
  for (const Case& one : cases) {
    dtrain_.Write("program.sh", one.script);
    const CliResult result = Create(
        "entrypoint: sh program.sh\nresources: {slots: cpu}\n" + one.more +
        "searcher: {name: single, metric: loss, max_length: " + one.length +
        "}\n");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.find("far beyond") != std::string::npos,
              !one.warning.empty())
        << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.warning));
  }
}

TEST_F(CommandFaultsTest, ProgressIsNotAHang) {
  const CliResult result = CreateShell(
      "for i in 1 2 3 4 5 6 7; do sleep 1; echo '{\"type\":\"progress\","
      "\"batches\":'$i'}' >&3; done\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}'"
      " >&3\n",
      "max_restarts: 0\nhang_timeout: 6s\n");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(CommandFaultsTest, KillsLeftoverProcesses) {
  const CliResult result = CreateShell(
      "setsid sh -c 'sleep 1000 3>&-' >/dev/null 2>&1 &\n(sleep 1000 &)\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}'"
      " >&3\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Processes(), IsEmpty());
}

TEST_F(CommandFaultsTest, SurvivesAFloodOfOutputAndReports) {
  const CliResult result = CreateShell(
      "awk 'BEGIN { for (i = 0; i < 300000; i++) { print \"xxxxxxxxxxxxxxxx\"; "
      "if (i % 3 == 0) printf \"{\\\"type\\\":\\\"training\\\",\\\"batches\\\""
      ":%d,\\\"metrics\\\":{\\\"loss\\\":1}}\\n\", i / 30000 >\"/dev/fd/3\" } "
      "}'\n"
      "echo '{\"type\":\"validation\",\"batches\":10,\"metrics\":{\"loss\":1}}'"
      " >&3\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Values("training", "loss").size(), 10u);
}

TEST_F(CommandFaultsTest, ResumesFromItsCheckpointAfterAPause) {
  StartHeldTrainer(150, /*at=*/25);
  EXPECT_EQ(Run({"pause", "1"}).code, 0);
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_EQ(Trial().at("state"), "PAUSED");
  ReleaseTrainer();

  ExpectResumes();

  EXPECT_EQ(Trial().at("runs"), 2);
  EXPECT_EQ(Trial().at("restarts"), 0);
  EXPECT_EQ(Values("training", "loss").size(), 150u);
  EXPECT_THAT(Logs(), HasSubstr("begins at 25"));
}

TEST_F(CommandFaultsTest, RestartsFromScratchWithoutACheckpoint) {
  const pid_t runner =
      StartHeldTrainer(60, /*at=*/5, "hyperparameters: {save: false}\n");
  ::kill(runner, SIGSTOP);
  // No runner receives its final message and its checkpoint.
  Shell("pkill -KILL -P " + std::to_string(runner) + "; kill -KILL " +
        std::to_string(runner));
  EXPECT_TRUE(HaveAllEnded());
  ReleaseTrainer();

  ExpectResumes();

  EXPECT_EQ(Values("training", "loss").size(), 60u);
  EXPECT_THAT(Logs(), AllOf(HasSubstr("begins at 0"),
                            testing::Not(HasSubstr("begins at 1"))));
}

TEST_F(CommandFaultsTest, ASearchNeedsNoCheckpoints) {
  dtrain_.Write("program.sh",
                "printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":"
                "{\"loss\":%s}}\\n' $DTRAIN_UNTIL $DTRAIN_HPARAM_x >&3\n");
  const CliResult result = Create(
      "name: command\nentrypoint: sh program.sh\n"
      "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
      "searcher: {name: async_halving, metric: loss, max_trials: 8, divisor: "
      "2, num_rungs: 3, max_length: 40}\n"
      "reproducibility: {experiment_seed: 1}\nmax_restarts: 0\n"
      "resources: {slots: 'cpu:2'}\n");
  ASSERT_EQ(result.code, 0) << result.err;
  int longest = 0;
  for (const json& trial : Trials()) {
    EXPECT_NE(trial.at("state"), "ERROR");
    if (trial.at("batches") == 40) ++longest;
  }
  EXPECT_GE(longest, 1);
  EXPECT_THAT(Logs(), HasSubstr("no checkpoint; starting from scratch"));
}

TEST_F(CommandFaultsTest, PausesAProgramThatIgnoresTheStop) {
  dtrain_.Write("program.sh",
                "trap '' TERM INT\ni=0; while :; do i=$((i+1)); sleep 0.1; "
                "echo '{\"type\":\"training\",\"batches\":'$i',\"metrics\":{"
                "\"loss\":1}}' >&3; done\n");
  dtrain_.Write("fault.yaml", Yaml("sh program.sh", 1'000'000));
  EXPECT_EQ(dtrain_
                .Run({"create", "-d", "fault.yaml"},
                     {.environment = {{"DTRAIN_STOP_GRACE", "2s"}}})
                .code,
            0);
  AwaitBatches(2);
  EXPECT_EQ(Run({"pause", "1"}).code, 0);
  EXPECT_EQ(State(), "PAUSED");
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_EQ(Trial().at("restarts"), 0);
}

TEST_F(CommandFaultsTest, KilledProgramResumesFromItsCheckpoint) {
  StartHeldTrainer(100, /*at=*/25);
  Shell("kill -KILL $(pgrep -P " + Trial().at("pid").dump() + ")");
  ReleaseTrainer();

  EXPECT_EQ(Run({"wait", "1", "--timeout", "2m"}).code, 0);

  EXPECT_EQ(Trial().at("restarts"), 1);
  EXPECT_EQ(Values("training", "loss").size(), 100u);
  EXPECT_THAT(Logs(), HasSubstr("begins at 20"));
}

TEST_F(CommandFaultsTest, KilledTrialLeavesNoProgramBehind) {
  StartHeldTrainer(100, /*at=*/25);
  ::kill(Trial().at("pid").get<pid_t>(), SIGKILL);
  ReleaseTrainer();
  EXPECT_EQ(Run({"wait", "1", "--timeout", "2m"}).code, 0);
  EXPECT_EQ(Trial().at("restarts"), 1);
  EXPECT_TRUE(HaveAllEnded());
  EXPECT_FALSE(
      std::filesystem::exists(StoreLayout(dtrain_.store()).Scratch({1, 1})));
}

TEST_F(CommandFaultsTest, ResumesAfterItsRunnerWasKilled) {
  const pid_t runner = StartHeldTrainer(200, /*at=*/25);
  ::kill(runner, SIGKILL);
  EXPECT_TRUE(HaveAllEnded());
  EXPECT_EQ(State(), "INTERRUPTED");
  ReleaseTrainer();

  ExpectResumes();

  EXPECT_EQ(Trial().at("restarts"), 0);
  EXPECT_EQ(Values("training", "loss").size(), 200u);
  EXPECT_EQ(Run({"doctor"}).code, 0);
  EXPECT_EQ(Run({"checkpoint", "verify"}).code, 0);
}

// The index of SQLite's log is memory that all share: reading what was cut off
// it is a SIGBUS.
TEST_F(CommandFaultsTest, EndsIfAnotherProgramTruncatesTheWalIndex) {
  StartHeldTrainer(100, /*at=*/15);

  const CliResult waiting = Shell(
      "dtrain wait 1 & w=$!; for i in $(seq 3000); do grep -qs dtrain.db-shm "
      "/proc/$w/maps && break; sleep 0.02; done; truncate -s 0 "
      "store/dtrain.db-shm; wait $w; echo $?");
  ReleaseTrainer();

  EXPECT_EQ(waiting.out, "5\n");
  EXPECT_THAT(
      waiting.err,
      AllOf(StartsWith("dtrain: error: " + dtrain_.store().string() +
                       "/dtrain.db-shm: was truncated by another program"),
            HasSubstr("`dtrain resume`"), EndsWith("resume`\n")));
  EXPECT_TRUE(Within(Seconds(60), [&] { return Processes().empty(); }));
  EXPECT_THAT(Shell("cat store/experiments/1/runner.log").out,
              HasSubstr("dtrain.db-shm: was truncated"));
  EXPECT_EQ(State(), "INTERRUPTED");
  ExpectResumes();
}

// The big checkpoint fits on the disk once, and not a second time.
TEST_F(CommandFaultsTest, AbandonedCheckpointFreesItsSpace) {
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain_);
  std::filesystem::create_directory(dtrain_.directory() / "program");
  dtrain_.Write("program/program.sh",
                "report() { echo '{\"type\":\"checkpoint\",\"batches\":'$1',"
                "\"path\":\"'$DTRAIN_DIRECTORY/$1'\"}' >&3; }\n"
                "mkdir $DTRAIN_DIRECTORY/1 $DTRAIN_DIRECTORY/2\n"
                "echo small >$DTRAIN_DIRECTORY/2/model\n"
                "head -c $DTRAIN_HPARAM_bytes /dev/zero "
                ">$DTRAIN_DIRECTORY/1/model\n"
                "report 1\n"
                "for i in $(seq 1200); do [ -e $DTRAIN_DIRECTORY/1 ] || break; "
                "sleep 0.1; done\n"
                "[ -e $DTRAIN_DIRECTORY/1 ] && echo is kept || echo is gone\n"
                "report 2\n"
                "echo '{\"type\":\"validation\",\"batches\":2,\"metrics\":{"
                "\"loss\":1}}' >&3\n");
  dtrain_.Write("program/fault.yaml",
                "name: command\nentrypoint: bash program.sh\n"
                "hyperparameters: {bytes: 10}\n"
                "searcher: {name: single, metric: loss, max_length: 2}\n"
                "max_restarts: 0\nresources: {slots: cpu}\n");
  const CliResult result = RunInOwnMounts(
      dtrain_,
      "mkdir disk && mount -t tmpfs -o size=24m tmpfs disk\n"
      "export DTRAIN_STORE=$PWD/disk/store\n"
      "dtrain -q create program/fault.yaml >&2; echo code $?\n"
      "free=$(df -k --output=avail disk | tail -1)\n"
      "dd if=/dev/zero of=disk/ballast bs=1k count=$((free - 5000)) "
      "2>/dev/null\n"
      "dtrain create program/fault.yaml --set hyperparameters.bytes=3000000 "
      ">&2\n"
      "echo code $?; dtrain logs 2 | grep -o 'is gone\\|is kept'\n"
      "dtrain checkpoints 2 --json >checkpoints.json");
  EXPECT_EQ(result.out, "code 0\ncode 0\nis gone\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("no checkpoint at batch 1"));
  const json saved =
      dtrain_.RunProgram({"cat", "checkpoints.json"}).Json()["checkpoints"];
  ASSERT_EQ(saved.size(), 1u) << saved;
  EXPECT_EQ(saved[0]["batches"], 2);
}

TEST_F(CommandFaultsTest, FallsBackFromADamagedCheckpoint) {
  StartHeldTrainer(
      150, /*at=*/35,
      "max_restarts: 2\ncheckpoint_storage: {save_trial_latest: 2}\n");
  EXPECT_EQ(Run({"pause", "1"}).code, 0);
  ReleaseTrainer();
  const std::string latest = Trial().at("checkpoint");
  Shell("echo x >store/experiments/1/trials/1/checkpoints/" + latest +
        "/files/at");

  ExpectResumes();

  EXPECT_EQ(Run({"checkpoint", "show", latest, "--json"}).Json().at("state"),
            "CORRUPT");
  EXPECT_THAT(Logs(), HasSubstr("begins at 30"));
  EXPECT_EQ(Values("training", "loss").size(), 150u);
}

// --disk-wait of each command that runs trials, on a disk that is full: a
// program whose checkpoints do not fit there, and that would wait ten minutes.

TEST(DiskWaitTest, PausesEveryCommandThatRunsTrials) {
  const CliRunner dtrain;
  SKIP_WHERE_MOUNTING_IS_FORBIDDEN(dtrain);
  std::filesystem::create_directory(dtrain.directory() / "program");
  dtrain.Write("program/train.sh",
               "bytes=100; [ -e $HOME/full ] && bytes=3000000\n"
               "for i in 1 2 3 4 5 6 7 8; do\n"
               "  c=$HOME/$i; mkdir -p $c\n"
               "  head -c $bytes /dev/zero >$c/model\n"
               "  echo '{\"type\": \"checkpoint\", \"batches\": '$i', "
               "\"path\": \"'$c'\"}' >&3\n"
               "  echo '{\"type\": \"validation\", \"batches\": '$i', "
               "\"metrics\": {\"loss\": 1}}' >&3\n"
               "  sleep 0.1\n"
               "done\n");
  dtrain.Write("program/program.yaml",
               "entrypoint: [bash, train.sh]\n"
               "searcher: {name: single, metric: loss, max_length: 8}\n"
               "hyperparameters: {x: {type: categorical, vals: [1, 2]}}\n"
               "max_restarts: 0\nresources: {slots: cpu}\n");
  const CliResult result = RunInOwnMounts(dtrain, R"(
mkdir disk && mount -t tmpfs -o size=24m tmpfs disk
export DTRAIN_STORE=$PWD/disk/store
dtrain -q create program/program.yaml >&2 || exit
dd if=/dev/zero of=disk/ballast bs=1k count=$(($(df -k --output=avail disk | tail -1) - 1500)) 2>/dev/null
touch full
for command in 'create program/program.yaml' 'resume 2' 'continue 1.1' 'reproduce 1.1' 'rerun 1.1' 'confirm 1 --repeats 1' 'create --from 1'; do
  dtrain -q $command --disk-wait 200ms >&2; echo "$command $?"
done
cd program
dtrain -q run --metric loss --max-length batches=8 --slots cpu --disk-wait 200ms -- bash train.sh >&2; echo "run $?"
)");
  EXPECT_EQ(result.out,
            "create program/program.yaml 5\nresume 2 5\ncontinue 1.1 5\n"
            "reproduce 1.1 5\nrerun 1.1 5\nconfirm 1 --repeats 1 5\n"
            "create --from 1 5\nrun 5\n")
      << result.err;
}

// The checkpoint of the first process contains its validation, which had not
// been acknowledged when it was saved.
TEST(RestartedCommandTest, ShowsNoReportTwice) {
  const CliRunner dtrain;
  dtrain.Write("train.sh", R"(#!/bin/sh
set -eu
if [ -z "$DTRAIN_CHECKPOINT" ]; then
  echo '{"type":"validation","batches":1,"metrics":{"loss":3}}' >&3
  echo 1 > "$DTRAIN_DIRECTORY/state"
  printf '{"type":"checkpoint","batches":1,"path":"%s"}\n' \
    "$DTRAIN_DIRECTORY/state" >&3
  exit 3
fi
echo '{"type":"validation","batches":2,"metrics":{"loss":2}}' >&3
)");
  dtrain.Write("train.yaml",
               "name: restart\nentrypoint: [sh, train.sh]\nmax_restarts: 1\n"
               "searcher: {name: single, metric: loss, max_length: {batches: "
               "2}}\ncheckpoint_policy: all\n");
  const CliResult result = dtrain.Run({"create", "train.yaml", "--jsonl"});
  ASSERT_EQ(result.code, 0) << result.err;
  std::vector<int> shown;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["event"] == "validation") shown.push_back(event["batches"]);
  }
  EXPECT_THAT(shown, ElementsAre(1, 2));
  EXPECT_EQ(
      dtrain.Run({"trials", "1", "--json"}).Json()["trials"][0]["restarts"], 1);
  EXPECT_EQ(
      dtrain.Run({"metrics", "1", "--columns", "batches,run", "--csv"}).out,
      "batches,run\r\n1,1\r\n2,2\r\n");
}

}  // namespace
}  // namespace dtrain
