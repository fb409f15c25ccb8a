// A program that does as docs/protocol.md says.

#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/engine/program/command_trial_fixture.h"

namespace dtrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

constexpr char kAtUntil[] =
    "printf '{\"type\":\"validation\",\"batches\":%d,\"metrics\":"
    "{\"loss\":0.5}}\\n' $DTRAIN_UNTIL >&3\n";

std::optional<RunnerMessage> CloseWhenDone(const TrialMessage& message) {
  if (!std::holds_alternative<OperationCompleted>(message)) return {};
  return CloseTrial{};
}

TEST_F(CommandTrialTest, TheShortestProgramIsATrial) {
  const CommandEnd end = Run(kAtUntil);

  EXPECT_EQ(EndText(end), "stopped") << Log();
  EXPECT_THAT(Messages<Ready>(), SizeIs(1));
  ASSERT_THAT(Messages<ValidationReport>(), SizeIs(1));
  EXPECT_EQ(Messages<ValidationReport>()[0].batches, 10);
  ASSERT_THAT(Messages<OperationCompleted>(), SizeIs(1));
  const OperationCompleted done = Messages<OperationCompleted>()[0];
  EXPECT_EQ(done.length, Length{10});
  EXPECT_EQ(done.batches, 10);
  EXPECT_FALSE(done.early);
  EXPECT_THAT(done.metrics, IsEmpty()) << "the validation has them";
  EXPECT_EQ(Messages<Progress>()[0].total, 10);
}

TEST_F(CommandTrialTest, EndsWhenAllIsDone) {
  answer_ = CloseWhenDone;
  const CommandEnd end = Run(std::string(kAtUntil) + "read -r order <&4\n");
  EXPECT_EQ(EndText(end), "completed");
}

TEST_F(CommandTrialTest, TrainsOnToTheNextLength) {
  int answers = 0;
  answer_ = [&](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<OperationCompleted>(message)) return {};
    if (++answers == 1) return RunOperation{{40}};
    return CloseTrial{};
  };
  const CommandEnd end = Run(std::string(kAtUntil) +
                             "read -r order <&4\n"
                             "[ \"$order\" = '{\"type\":\"train\",\"until\":{"
                             "\"batches\":40}}' ] || exit 9\n"
                             "DTRAIN_UNTIL=40\n" +
                             kAtUntil + "read -r order <&4\n");
  EXPECT_EQ(EndText(end), "completed") << end.exit.code;
  ASSERT_THAT(Messages<OperationCompleted>(), SizeIs(2));
  EXPECT_EQ(Messages<OperationCompleted>()[1].length, Length{40});
}

TEST_F(CommandTrialTest, RestartsAnEndedProgramForTheNextLength) {
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<OperationCompleted>(message)) return {};
    return RunOperation{{40}};
  };
  EXPECT_EQ(EndText(Run(std::string(kAtUntil) + "sleep 0.2\n")), "stopped");
}

TEST_F(CommandTrialTest, StopsAtTheReachedLength) {
  int answers = 0;
  answer_ = [&](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<OperationCompleted>(message)) return {};
    if (++answers == 1) return RunOperation{{12}};
    return CloseTrial{};
  };
  const CommandEnd end = Run(
      "printf '{\"type\":\"validation\",\"batches\":15,\"metrics\":{\"loss\":1}"
      "}\\n' >&3; while read -r order <&4; do case $order in *close*) exit;; "
      "esac; done\n");
  EXPECT_EQ(EndText(end), "completed");
  EXPECT_THAT(Log(), HasSubstr("trained to 15 batches instead of 10; the "
                               "operation counts as complete"));
  EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(2));
}

// A program that does not wait for the search.
constexpr char kToFour[] =
    "for i in 1 2 3 4; do\n"
    "  echo "
    "'{\"type\":\"validation\",\"batches\":'$i',\"metrics\":{\"loss\":1}}'"
    " >&3\n"
    "done\n";

TEST_F(CommandTrialTest, EachLengthHasTheResultThatWasMeasuredThere) {
  spec_.until = Length{1};
  spec_.stops_trials = true;
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    const auto* done = std::get_if<OperationCompleted>(&message);
    if (done == nullptr) return {};
    if (done->length.count == 4) return CloseTrial{};
    return RunOperation{{done->length.count == 1 ? 3 : 4}};
  };
  const CommandEnd end = Run(kToFour);
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(4));
  ASSERT_THAT(Messages<OperationCompleted>(), SizeIs(3));
  EXPECT_EQ(Messages<OperationCompleted>()[0].batches, 1);
  EXPECT_EQ(Messages<OperationCompleted>()[1].batches, 3);
  EXPECT_EQ(Messages<OperationCompleted>()[2].batches, 4);
  EXPECT_THAT(Log(), Not(HasSubstr("instead of")));
}

TEST_F(CommandTrialTest, ReportsAfterTheSearchHasStoppedItAreNotRecorded) {
  spec_.until = Length{1};
  spec_.stops_trials = true;
  answer_ = CloseWhenDone;
  const CommandEnd end = Run(kToFour);
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(1));
  EXPECT_THAT(Log(), HasSubstr("reports beyond 1 batch, where the trial has "
                               "ended, are not recorded"));
}

TEST_F(CommandTrialTest, PassesTheTrialToTheProgram) {
  spec_.hparams = {{"lr", 0.1},
                   {"name", "a b"},
                   {"net", {{"width-2", 3}, {"deep", true}}},
                   {"list", {1, 2}}};
  spec_.seed = 7;
  spec_.threads = 2;
  spec_.until = Length{3, Unit::kEpochs};
  const CommandEnd end = Run(
      "python3 -c 'import json, os; t = json.load(open(os.environ["
      "\"DTRAIN_TRIAL\"])); print(t[\"protocol\"], t[\"until\"], "
      "t[\"hyperparameters\"][\"lr\"], t[\"checkpoint\"], t[\"metric\"])' >&2\n"
      "echo '{\"type\":\"validation\",\"epochs\":3,\"metrics\":{}}' >&3\n"
      "env | grep -E '^DTRAIN_(HPARAM|U|S|DONE)' | sort >&2; pwd >&2\n");
  EXPECT_EQ(EndText(end), "stopped");
  EXPECT_THAT(Log(), HasSubstr("1 {'epochs': 3} 0.1 None loss\n"));
  EXPECT_THAT(Log(), HasSubstr("DTRAIN_DONE=0\n"
                               "DTRAIN_HPARAM_lr=0.1\n"
                               "DTRAIN_HPARAM_name=a b\n"
                               "DTRAIN_HPARAM_net_deep=true\n"
                               "DTRAIN_HPARAM_net_width_2=3\n"
                               "DTRAIN_SEED=7\n"));
  EXPECT_THAT(Log(), HasSubstr("DTRAIN_UNIT=epochs\nDTRAIN_UNTIL=3\n"));
  EXPECT_THAT(Log(), HasSubstr(directory_.path().string() + "\n"));
  EXPECT_EQ(Messages<ValidationReport>()[0].epoch, 3);
}

TEST_F(CommandTrialTest, FillsPlaceholders) {
  spec_.command = {"sh",          "program.sh",   "--lr={lr}", "{model.layers}",
                   "{on}",        "{name}",       "{sizes}",   "{{lr}}",
                   "{length}",    "{checkpoint}", "{trial}",   "{seed}",
                   "{model.a.b}", "{directory}"};
  spec_.placeholders = true;
  spec_.hparams = {{"lr", 1e-4},
                   {"model", {{"layers", 3}, {"a.b", 0.1}}},
                   {"on", true},
                   {"name", "a {lr} 'b' $(c)"},
                   {"sizes", {1, 2}}};
  spec_.seed = 7;
  Run("for word; do echo \"[$word]\" >> words; done");
  std::string all;
  std::ifstream words(directory_.path() / "words");
  for (std::string line; std::getline(words, line);) all += line;
  EXPECT_EQ(all,
            "[--lr=1e-04][3][true][a {lr} 'b' $(c)][[1,2]][{lr}][10][]"
            "[1.1][7][0.1][" +
                directory_.path().string() + "]");
}

TEST_F(CommandTrialTest, HyperparametersPrecedeNamesOfDtrain) {
  spec_.command = {"sh", "program.sh", "{seed}"};
  spec_.placeholders = true;
  spec_.hparams = {{"seed", "mine"}};
  Run("echo $1 > word");
  std::string word;
  std::ifstream(directory_.path() / "word") >> word;
  EXPECT_EQ(word, "mine");
}

TEST_F(CommandTrialTest, RefusesAZeroByteInAnArgument) {
  spec_.command = {"sh", "program.sh", "--name={name}"};
  spec_.placeholders = true;
  spec_.hparams = {{"name", std::string("a\0b", 3)}};
  try {
    Run("exit 0");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "a value for '--name={name}' has a zero byte, which no "
                 "argument can have");
  }
}

TEST_F(CommandTrialTest, LeavesBracesOfLiteralCommands) {
  spec_.command = {"sh", "program.sh", "{lr}{{"};
  spec_.hparams = {{"lr", 1}};
  Run("echo $1 > word");
  std::string word;
  std::ifstream(directory_.path() / "word") >> word;
  EXPECT_EQ(word, "{lr}{{");
}

TEST_F(CommandTrialTest, EstimatesTheBatchesOfItsEpochs) {
  spec_.until = Length{4, Unit::kEpochs};
  Run("echo '{\"type\":\"validation\",\"epochs\":2,\"batches\":50,"
      "\"metrics\":{\"loss\":1}}' >&3\n");

  const auto progress = Messages<Progress>();
  ASSERT_THAT(progress, Not(IsEmpty())) << Log();
  EXPECT_EQ(progress.back().batches, 50);
  EXPECT_EQ(progress.back().total, 100);
  EXPECT_EQ(progress.back().batches_per_epoch, 25);
}

TEST_F(CommandTrialTest, StopsAndReportsItsCheckpoint) {
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<TrainingReport>(message)) return {};
    return StopTrial{};
  };
  const std::string train =
      "echo '{\"type\":\"training\",\"batches\":5,\"metrics\":{\"loss\":1}}' "
      ">&3\nread -r order <&4\n[ \"$order\" = '{\"type\":\"stop\"}' ] || exit 9"
      "\n";
  EXPECT_EQ(EndText(Run(train + "exit 4")), "stopped");
  EXPECT_THAT(Log(), HasSubstr("stopped at 5 of 10 batches; will start from "
                               "scratch, because it has no checkpoint"));
  EXPECT_EQ(
      EndText(Run(train +
                  "echo x > $DTRAIN_DIRECTORY/x\n"
                  "echo '{\"type\":\"checkpoint\",\"batches\":5,\"path\":\"'"
                  "$DTRAIN_DIRECTORY'/x\"}' >&3\n")),
      "stopped");
  EXPECT_THAT(Messages<CheckpointSaved>(), SizeIs(1));
  EXPECT_THAT(Log(), HasSubstr("will resume from its checkpoint at 5 batches"));
}

// Without a planned length, the end of a program is its result, unless it knows
// that it was to stop.
TEST_F(CommandTrialTest, AnEndThatDoesNotFollowTheStopIsTheResult) {
  spec_.until = Length{0};
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    if (!std::holds_alternative<TrainingReport>(message)) return {};
    return StopTrial{};
  };
  // Knows that the order has come without reading it.
  const std::string begin =
      "import json, os, select, socket, sys\n"
      "say = lambda **report: os.write(3, (json.dumps(report) + '\\n')"
      ".encode())\n"
      "validate = lambda: say(type='validation', epochs=2, metrics={'loss': 1})"
      "\n"
      "link = socket.socket(socket.AF_UNIX)\n"
      "connect = lambda: link.connect(os.environ['DTRAIN_SOCKET'])\n"
      "def train():\n"
      "    say(type='training', epochs=1, metrics={'loss': 1})\n"
      "    select.select([4], [], [])\n";
  const std::string hello =
      "link.sendall(b'{\"type\":\"hello\",\"rank\":0}\\n')\n";
  const std::string read = "while b'stop' not in link.recv(200): pass\n";
  const std::string welcome = "while b'welcome' not in link.recv(200): pass\n";
  struct Case {
    std::string name;
    std::string program;
    bool is_result;
  };
  const std::vector<Case> cases = {
      {"ends", "train(); validate()\n", true},
      {"had validated", "validate(); train()\n", true},
      {"fails", "train(); validate(); sys.exit(3)\n", false},
      {"has no result", "train()\n", false},
      {"reads descriptor 4", "train(); os.read(4, 200); validate()\n", false},
      {"saves a checkpoint",
       "train(); path = os.environ['DTRAIN_DIRECTORY'] + '/x'\n"
       "open(path, 'w').write('x')\n"
       "say(type='checkpoint', epochs=1, path=path); validate()\n",
       false},
      {"connects", "connect(); train(); validate()\n", true},
      {"can not read the socket",
       "connect(); link.shutdown(socket.SHUT_RD); train(); validate()\n", true},
      {"reads the socket", "connect(); train()\n" + read + "validate()\n",
       false},
      {"greets", "connect()\n" + hello + welcome + "train(); validate()\n",
       true},
      {"greets and reads",
       "connect()\n" + hello + welcome + "train()\n" + read + "validate()\n",
       false},
      {"greets late", "train(); connect()\n" + hello + welcome + "validate()\n",
       true},
      {"greets late and follows",
       "train(); connect()\n" + hello + welcome +
           "say(type='stopping'); validate()\n",
       false},
      {"reads late", "train(); connect()\n" + read + "validate()\n", false},
  };
  spec_.command = {"python3", "program.sh"};
  for (const Case& one : cases) {
    const CommandEnd end = Run(begin + one.program);
    EXPECT_EQ(EndText(end), "stopped") << one.name << Log();
    EXPECT_THAT(Messages<OperationCompleted>(), SizeIs(one.is_result ? 1 : 0))
        << one.name << Log();
    EXPECT_EQ(Log().find("has ended with its result") != std::string::npos,
              one.is_result)
        << one.name;
  }
}

// Whatever writes it, and wherever: no newline is needed.
TEST_F(CommandTrialTest, AllOutputIsASignOfLife) {
  // Ends a program whose output the runner has heard of.
  answer_ = [](const TrialMessage& message) -> std::optional<RunnerMessage> {
    const auto* progress = std::get_if<Progress>(&message);
    if (progress == nullptr || progress->activity.value_or(0) == 0) return {};
    return StopTrial{};
  };
  for (const std::string script :
       {"printf x", "printf x >&2", "(printf x)", "exec 3>&-; printf x",
        "sh -c 'printf x'", "printf 'x\\r'"}) {
    EXPECT_EQ(EndText(Run(script + "\nread -r order <&4\n")), "stopped")
        << script;
  }
  Run("sleep 0.7\n");
  for (const Progress& progress : Messages<Progress>()) {
    EXPECT_EQ(progress.activity.value_or(0), 0) << "it printed nothing";
  }
}

TEST_F(CommandTrialTest, ReportsTheProgramsReason) {
  const auto say = [](const std::string& reason) {
    return "echo '{\"type\":\"end\",\"reason\":\"" + reason +
           "\",\"message\":\"because\"}' >&3; exit 3\n";
  };
  EXPECT_EQ(EndText(Run(say("invalid_hp"))), "invalid_hp: because");
  EXPECT_EQ(EndText(Run(say("user_stop"))), "user_stop: because");
  EXPECT_EQ(EndText(Run(say("error"))), "error: because");
  EXPECT_EQ(EndText(Run(say("fatal"))), "refused: because");
  EXPECT_THAT(Log(), HasSubstr("reports its end: fatal: because"));
}

TEST_F(CommandTrialTest, ReportsOverTheSocketToo) {
  const CommandEnd end =
      Run("exec 3>&- 4<&-\n"
          "python3 - <<'P'\n"
          "import json, os, socket\n"
          "s = socket.socket(socket.AF_UNIX)\n"
          "s.connect(os.environ['DTRAIN_SOCKET'])\n"
          "s.sendall(b'{\"type\":\"validation\",\"batches\":10,\"metrics\":{"
          "\"loss\":2}}\\n')\n"
          "P\n");
  EXPECT_EQ(EndText(end), "stopped") << Log();
  EXPECT_THAT(Messages<ValidationReport>(), SizeIs(1));
}

TEST_F(CommandTrialTest, SocketRepeatsEarlierOperations) {
  answer_ = CloseWhenDone;
  const CommandEnd end = Run(std::string(kAtUntil) +
                             "sleep 0.3\n"
                             "python3 - <<'P'\n"
                             "import os, socket\n"
                             "s = socket.socket(socket.AF_UNIX)\n"
                             "s.connect(os.environ['DTRAIN_SOCKET'])\n"
                             "assert b'close' in s.recv(100)\n"
                             "P\n");
  EXPECT_EQ(EndText(end), "completed") << Log();
  EXPECT_EQ(end.exit.code, 0);
}

TEST_F(CommandTrialTest, UsesAnotherDirectoryIfTheSocketPathIsTooLong) {
  spec_.directory += "/" + std::string(100, 'd');
  const CommandEnd end =
      Run(std::string("[ ${#DTRAIN_SOCKET} -lt 108 ] || exit 9\n") + kAtUntil);
  EXPECT_EQ(EndText(end), "stopped") << end.exit.code;
}

TEST_F(CommandTrialTest, EarlyStoppingIsObeyed) {
  spec_.settings.early_stopping =
      EarlyStopping{.metric = "loss", .patience = 1};
  const CommandEnd end =
      Run("for i in 1 2 3; do echo '{\"type\":\"validation\",\"batches\":'$i',"
          "\"metrics\":{\"loss\":1}}' >&3; done\nread -r order <&4\n"
          "[ \"$order\" = '{\"type\":\"close\"}' ] || exit 9\n");
  EXPECT_EQ(EndText(end), "stopped") << end.exit.code;
  ASSERT_THAT(Messages<OperationCompleted>(), SizeIs(1));
  EXPECT_TRUE(Messages<OperationCompleted>()[0].early);
  EXPECT_EQ(Messages<OperationCompleted>()[0].batches, 2);
}

TEST_F(CommandTrialTest, LeavesNothingInItsDirectory) {
  Run(std::string("echo x > $DTRAIN_DIRECTORY/rest\n") + kAtUntil);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "trial/scratch"));
}

}  // namespace
}  // namespace dtrain
