// Messages about experiments, through the program.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli_runner.h"
#include "tests/support/http_server.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class NotifyCliTest : public testing::Test {
 protected:
  // Two trials; the second is better. With a file `fail` they fail.
  void SetUp() override {
    dtrain_.Write("train.sh",
                  "test -e \"$DTRAIN_CONTEXT/fail\" && { echo no data >&2; "
                  "exit 9; }\n"
                  "echo loss: $1\n");
    dtrain_.Write(".detignore", "fail\ngo\npid\nmessages\n");
  }

  std::string Yaml(const std::string& notify,
                   const std::string& hparams =
                       "hyperparameters: {x: {type: categorical, vals: [1, "
                       "2]}}\n") const {
    return "name: told\n"
           "entrypoint: {command: [sh, train.sh, '{x}']}\n"
           "metrics: {loss: 'loss: (\\S+)'}\n" +
           hparams +
           "max_restarts: 0\n"
           "resources: {slots: 'cpu:1'}\n"
           "searcher: {name: grid, metric: loss, max_length: {epochs: 1}}\n" +
           (notify.empty() ? "" : "notify: " + notify + "\n");
  }
  CliResult Create(const std::string& notify,
                   std::vector<std::string> options = {},
                   const CliCall& call = {}) const {
    dtrain_.Write("x.yaml", Yaml(notify));
    std::vector<std::string> words = {"create", "x.yaml"};
    words.insert(words.end(), options.begin(), options.end());
    return dtrain_.Run(words, call);
  }
  // Appends each message to the file `messages`.
  std::string Collect() const {
    return "[sh, -c, 'cat >> \"$0\"', " + File("messages").string() + "]";
  }
  fs::path File(const std::string& name) const {
    return dtrain_.directory() / name;
  }
  json Notifications() const {
    return dtrain_.Run({"describe", "1", "--json"}).Json()["notifications"];
  }
  // Waits until every message was sent or given up.
  json AwaitNotifications() const {
    while (true) {
      json rows = Notifications();
      const bool waits = std::ranges::any_of(
          rows, [](const json& row) { return row["ended"].is_null(); });
      if (!waits) return rows;
    }
  }
  static void AwaitText(const fs::path& file) {
    while (!fs::exists(file) || fs::file_size(file) == 0) {
      std::this_thread::yield();
    }
  }
  std::vector<json> Messages() const {
    std::vector<json> messages;
    std::ifstream in(File("messages"));
    for (std::string line; std::getline(in, line);) {
      messages.push_back(json::parse(line));
    }
    return messages;
  }
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    for (const json& message : Messages()) events.push_back(message["event"]);
    return events;
  }

  CliRunner dtrain_;
};

TEST_F(NotifyCliTest, CommandReadsTheEndAsJson) {
  ASSERT_EQ(Create("{command: " + Collect() + "}").code, 0);

  const json rows = AwaitNotifications();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["event"], "completed");
  EXPECT_EQ(rows[0]["target"], "command sh");
  EXPECT_EQ(rows[0]["error"], nullptr);
  ASSERT_EQ(Messages().size(), 1u);
  const json message = Messages()[0];
  EXPECT_EQ(message["id"], rows[0]["id"]);
  EXPECT_EQ(message["experiment"], 1);
  EXPECT_EQ(message["state"], "COMPLETED");
  EXPECT_EQ(message["best"]["trial"], "1.2");
  EXPECT_EQ(message["best"]["value"], 1);
  EXPECT_EQ(message["best"]["hyperparameters"], json({{"x", 1}}));
  EXPECT_EQ(message["text"],
            "experiment 1 'told' is COMPLETED; best loss 1, trial 1.2");
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out,
              HasSubstr("completed to command sh: sent"));
}

TEST_F(NotifyCliTest, BestTrialsAndFailedTrialsAreEvents) {
  const std::string notify =
      "{command: " + Collect() + ", on: [best, trial_error, error]}";
  ASSERT_EQ(Create(notify).code, 0);
  AwaitNotifications();
  // A best trial that was not told yet is replaced by the next one.
  ASSERT_FALSE(Messages().empty());
  EXPECT_EQ(Messages().back()["best"]["trial"], "1.2");
  EXPECT_THAT(Events(), testing::Each("best"));
  fs::remove(File("messages"));
  dtrain_.Write("fail", "");

  EXPECT_EQ(dtrain_.Run({"create", "x.yaml"}).code, 1);

  AwaitText(File("messages"));
  while (Messages().size() < 3) std::this_thread::yield();
  EXPECT_THAT(Events(), ElementsAre("trial_error", "trial_error", "error"));
  EXPECT_EQ(Messages()[0]["trial"]["id"], "2.1");
  EXPECT_THAT(Messages()[0]["trial"]["reason"].get<std::string>(),
              HasSubstr("no data"));
  EXPECT_THAT(Messages()[2]["error"].get<std::string>(), Not(IsEmpty()));
}

TEST_F(NotifyCliTest, RunDoesNotWaitAndItsExitCodeStays) {
  const std::string go = File("go").string();

  const CliResult run =
      Create("{command: [sh, -c, 'until test -e \"$0\"; do :; done; exit 7', " +
             go + "]}");

  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(Notifications()[0]["ended"], nullptr);
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out, HasSubstr("not sent yet"));
  dtrain_.Write("go", "x");
  const json row = AwaitNotifications()[0];
  EXPECT_EQ(row["error"], "exited with code 7");
  EXPECT_EQ(row["attempts"], 3);
  std::ifstream log(dtrain_.store() / "experiments/1/runner.log");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(log), {}),
              HasSubstr("dtrain: notification completed to command sh: not "
                        "sent: exited with code 7, 3 attempts, id " +
                        row["id"].get<std::string>()));
}

TEST_F(NotifyCliTest, ResumeSendsWhatAKillHasLeft) {
  // The first process is killed before it has sent.
  const std::string script =
      "cat >> \"$0/messages\"; test -e \"$0/go\" || { echo $PPID > "
      "\"$0/pid\"; until test -e \"$0/go\"; do :; done; }";
  const CliCall with_key = {.environment = {{"KEY", "k"}}};
  ASSERT_EQ(Create("{command: [sh, -c, '" + script + "', " +
                       dtrain_.directory().string() + "], secret_env: KEY}",
                   {}, with_key)
                .code,
            0);
  AwaitText(File("pid"));
  pid_t pid = 0;
  std::ifstream(File("pid")) >> pid;
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  dtrain_.Write("go", "x");
  EXPECT_EQ(Notifications()[0]["ended"], nullptr);
  // Without its variable it waits further.
  EXPECT_EQ(dtrain_.Run({"resume", "1"}).code, 0);
  const auto log = [&] {
    std::ifstream in(dtrain_.store() / "experiments/1/runner.log");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  while (log().find("variable KEY is not set; set it and resume") ==
         std::string::npos) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Notifications()[0]["ended"], nullptr);

  EXPECT_EQ(dtrain_.Run({"resume", "1"}, with_key).code, 0);

  EXPECT_EQ(AwaitNotifications()[0]["error"], nullptr);
  ASSERT_EQ(Messages().size(), 2u);
  EXPECT_EQ(Messages()[0]["id"], Messages()[1]["id"]);
  EXPECT_EQ(dtrain_.Run({"resume", "1"}).code, 0);
  EXPECT_EQ(Messages().size(), 2u);
}

TEST_F(NotifyCliTest, AddressIsShownWithoutItsPath) {
  HttpServer server([](const HttpRequest&) { return HttpAnswer{}; });
  const std::string url = server.address() + "/services/SECRET?key=SECRET";
  ASSERT_EQ(Create("{url: \"" + url + "\", on: [completed]} # mine").code, 0);
  ASSERT_EQ(dtrain_.Run({"create", "x.yaml", "--notify", url}).code, 0);
  ASSERT_EQ(
      dtrain_.Run({"create", "x.yaml", "--set", "notify.url=" + url}).code, 0);
  AwaitNotifications();
  while (server.Requests().size() < 3) std::this_thread::yield();

  const std::string shown = server.address() + "/...";
  EXPECT_EQ(server.Requests()[0].path, "/services/SECRET?key=SECRET");
  EXPECT_EQ(Notifications()[0]["target"], shown);
  EXPECT_THAT(dtrain_.Run({"config", "1"}).out, HasSubstr(shown));
  EXPECT_THAT(dtrain_.Run({"describe", "1", "--json"})
                  .Json()["yaml"]
                  .get<std::string>(),
              AllOf(HasSubstr(shown), HasSubstr("# mine")));
  for (const char* id : {"1", "2", "3"}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{
             {"describe", id},
             {"describe", id, "--json"},
             {"config", id},
             {"config", id, "--json"},
             {"report", id, "--html", std::string("r") + id},
             {"files", std::string(id) + ".1"},
             {"create", "x.yaml", "--dry-run", "--json"},
             {"validate", "x.yaml", "--json"}}) {
      const CliResult result = dtrain_.Run(words);
      EXPECT_THAT(result.out + result.err, Not(HasSubstr("SECRET")))
          << testing::PrintToString(words);
    }
    std::ifstream page(File(std::string("r") + id));
    EXPECT_THAT(std::string(std::istreambuf_iterator<char>(page), {}),
                AllOf(Not(IsEmpty()), Not(HasSubstr("SECRET"))));
  }
  std::ifstream log(dtrain_.store() / "experiments/1/runner.log");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(log), {}),
              AllOf(HasSubstr("to " + shown + ": sent, 1 attempt"),
                    Not(HasSubstr("SECRET"))));
}

TEST_F(NotifyCliTest, DerivedExperimentsTellNobody) {
  ASSERT_EQ(Create("{command: " + Collect() + "}").code, 0);
  AwaitNotifications();

  ASSERT_EQ(dtrain_.Run({"rerun", "1.1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"reproduce", "1.1"}).code, 0);
  ASSERT_EQ(dtrain_.Run({"create", "--from", "1"}).code, 0);

  for (const char* id : {"2", "3", "4"}) {
    const json detail = dtrain_.Run({"describe", id, "--json"}).Json();
    EXPECT_THAT(detail["notifications"], IsEmpty());
    EXPECT_EQ(detail["config"]["notify"], nullptr);
  }
  EXPECT_EQ(Messages().size(), 1u);
}

TEST_F(NotifyCliTest, PausedAndCanceledExperimentsTell) {
  dtrain_.Write("x.yaml", Yaml("{command: " + Collect() + "}"));
  ASSERT_EQ(dtrain_.Run({"create", "x.yaml", "--paused"}).code, 0);
  EXPECT_THAT(Notifications(), IsEmpty());

  ASSERT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);

  AwaitNotifications();
  EXPECT_THAT(Events(), ElementsAre("canceled"));
  ASSERT_EQ(dtrain_.Run({"create", "x.yaml", "--timeout", "1ms"}).code, 124);
  while (Messages().size() < 2) std::this_thread::yield();
  EXPECT_THAT(Events(), ElementsAre("canceled", "paused"));
}

TEST_F(NotifyCliTest, OptionsOfRunSetTargets) {
  HttpServer server([](const HttpRequest&) { return HttpAnswer{}; });
  const std::string out = File("one message").string();

  ASSERT_EQ(dtrain_
                .Run({"run", "--notify", server.address(), "--notify-command",
                      "sh -c 'cat > \"$0\"' \"" + out + "\"", "--pattern",
                      "loss=loss: (\\S+)", "--metric", "loss", "--", "sh",
                      "train.sh", "3"})
                .code,
            0);

  AwaitNotifications();
  EXPECT_EQ(server.Requests().size(), 1u);
  EXPECT_TRUE(fs::exists(out));
}

TEST_F(NotifyCliTest, VariablesAreNeededAndNeverStored) {
  HttpServer server([](const HttpRequest&) { return HttpAnswer{}; });
  const std::string notify = "{url_env: HOOK, secret_env: KEY}";
  const CliResult refused = Create(notify);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("notify: environment variable HOOK is not "
                                     "set; set it first; nothing was created"));

  ASSERT_EQ(Create(notify, {},
                   {.environment = {{"HOOK", server.address() + "/PRIVATE"},
                                    {"KEY", "KEYWORD"}}})
                .code,
            0);

  EXPECT_EQ(AwaitNotifications()[0]["target"], "$HOOK");
  EXPECT_THAT(server.Requests()[0].Header("X-Dtrain-Signature"),
              HasSubstr("sha256="));
  EXPECT_NE(dtrain_
                .RunProgram({"grep", "-rqa", "-e", "PRIVATE", "-e", "KEYWORD",
                             dtrain_.store().string()})
                .code,
            0);
}

TEST_F(NotifyCliTest, TestSendsToEachTarget) {
  HttpServer server(
      [](const HttpRequest&) { return HttpAnswer{.status = "410 Gone"}; });
  dtrain_.Write("x.yaml", Yaml("{command: " + Collect() + ", url: '" +
                               server.address() + "/x'}"));

  const CliResult result = dtrain_.Run({"notify", "test", "x.yaml"});

  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "command sh: sent, 1 attempt\n" + server.address() +
                            "/...: not sent: the server answers 410, 1 "
                            "attempt\n");
  EXPECT_THAT(Events(), ElementsAre("test"));
  EXPECT_EQ(dtrain_.Run({"notify", "test", "x.yaml", "--json"})
                .Json()["notifications"][1]["error"],
            "the server answers 410");
  dtrain_.Write("y.yaml", Yaml(""));
  const CliResult none = dtrain_.Run({"notify", "test", "y.yaml"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("y.yaml: has no section notify"));
}

}  // namespace
}  // namespace dtrain
