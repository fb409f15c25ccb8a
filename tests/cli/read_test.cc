// describe, config, metrics and logs on a recorded store.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/files.h"
#include "engine/run/runner_lock.h"
#include "engine/store/store.h"
#include "engine/store/trial_log.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ReadTest : public testing::Test {
 protected:
  ReadTest() { FillSampleStore(dtrain_.store()); }

  CliRunner dtrain_;
};

class UnknownIdTest : public testing::TestWithParam<std::vector<std::string>> {
};

TEST_P(UnknownIdTest, IsNotFound) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  const CliResult result = dtrain.Run(GetParam());
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("lists"));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, UnknownIdTest,
    testing::Values(std::vector<std::string>{"describe", "9"},
                    std::vector<std::string>{"describe", "1.9"},
                    std::vector<std::string>{"describe", "9.1"},
                    std::vector<std::string>{"config", "9"},
                    std::vector<std::string>{"trials", "9"},
                    std::vector<std::string>{"best", "9"},
                    std::vector<std::string>{"metrics", "9"},
                    std::vector<std::string>{"metrics", "1.9"},
                    std::vector<std::string>{"logs", "9"},
                    std::vector<std::string>{"checkpoints", "1.9"},
                    std::vector<std::string>{"resume", "9"},
                    std::vector<std::string>{"wait", "9"}));

TEST_F(ReadTest, DescribesTheWholeRecord) {
  const auto document = dtrain_.Run({"describe", "1", "--json"}).Json();
  EXPECT_EQ(document["seed"], 7);
  EXPECT_EQ(document["name"], "alpha");
  EXPECT_EQ(document["provenance"]["host"], "box");
  EXPECT_EQ(document["config"]["name"], "alpha");
  EXPECT_EQ(document["metrics"], json({"accuracy", "loss"}));
  EXPECT_EQ(document["search"]["total_length"], 20);
  EXPECT_EQ(document["trials_by_rung"], json({2, 1}));
  const CliResult text = dtrain_.Run({"describe", "1"});
  EXPECT_THAT(text.out, HasSubstr("trials        2, 1 COMPLETED, 1 ERROR"));
  EXPECT_THAT(text.out, HasSubstr("plan          2 to 10 batches"));
  EXPECT_THAT(text.out, HasSubstr("by rung       1: 2, 2: 1"));
  EXPECT_THAT(text.out, HasSubstr("host          box"));
}

TEST_F(ReadTest, DescribesATrialAndItsProfile) {
  const json document = dtrain_.Run({"describe", "1.2", "--json"}).Json();
  EXPECT_EQ(document["id"], "1.2");
  EXPECT_EQ(document["best"]["value"], 0.25);
  EXPECT_THAT(document["directory"], HasSubstr("experiments/1/"));
  const json& profile = document["profile"];
  EXPECT_EQ(profile["batches"], 200);
  EXPECT_DOUBLE_EQ(profile["samples_per_second"], 4'000);
  EXPECT_DOUBLE_EQ(profile["phases"]["backward"]["seconds"], 1.6);
  EXPECT_EQ(profile["peak_memory_bytes"], 12'300'000);
  const CliResult text = dtrain_.Run({"describe", "1.2"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("  best          loss 0.25 at batch 100\n"));
  EXPECT_THAT(text.out, HasSubstr("time by phase, 200 batches\n"));
  EXPECT_THAT(text.out, HasSubstr("backward           8.000   40.0%"));
  EXPECT_THAT(text.out, HasSubstr("  faults/batch  2.5\n"));
}

TEST_F(ReadTest, UnprofiledTrialHasNoProfileTable) {
  const json document = dtrain_.Run({"describe", "1.1", "--json"}).Json();
  EXPECT_EQ(document["reason"], "exit code 1");
  EXPECT_TRUE(document.at("profile").is_null());
  EXPECT_THAT(dtrain_.Run({"describe", "1.1"}).out,
              Not(HasSubstr("where the time went")));
  EXPECT_EQ(dtrain_.Run({"describe", "1."}).code, 2);
}

TEST_F(ReadTest, PrintsTheConfiguration) {
  EXPECT_EQ(dtrain_.Run({"config", "1", "--original"}).out,
            "name: alpha # as typed\n");
  EXPECT_EQ(dtrain_.Run({"config", "1", "--json"}).Json()["name"], "alpha");
  EXPECT_THAT(dtrain_.Run({"config", "1"}).out, HasSubstr("name: alpha"));
}

TEST_F(ReadTest, PrintsMetrics) {
  const auto rows = dtrain_.Run({"metrics", "1", "--json"}).Json()["metrics"];
  ASSERT_EQ(rows.size(), 7);
  EXPECT_EQ(rows[0]["trial"], "1.1");
  EXPECT_EQ(rows[0]["kind"], "training");
  EXPECT_EQ(rows[6]["value"], "NaN");
}

TEST_F(ReadTest, PrintsSelectedMetrics) {
  const CliResult result = dtrain_.Run(
      {"metrics", "1.1", "--kind", "validation", "--name", "loss", "--csv"});
  EXPECT_EQ(result.out,
            "trial,kind,batches,epoch,name,value,time,length,unit\r\n"
            "1.1,validation,100,0.5,loss,0.75,1970-01-01T00:00:03.000100Z,100,"
            "batches\r\n");
  EXPECT_EQ(dtrain_.Run({"metrics", "1.1", "--kind", "training", "--csv"}).out,
            "trial,kind,batches,epoch,name,value,time,length,unit\r\n"
            "1.1,training,100,0.5,loss,1.75,1970-01-01T00:00:03.000100Z,100,"
            "batches\r\n");
  EXPECT_EQ(dtrain_.Run({"metrics", "1", "--kind", "test"}).code, 2);
}

TEST_F(ReadTest, FiltersAndSortsMetrics) {
  const auto csv = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"metrics", "1", "--csv"});
    return dtrain_.Run(arguments).out;
  };
  EXPECT_EQ(csv({"--filter", "name == loss and value < 1", "--columns",
                 "number,batches,value", "--sort=-value"}),
            "number,batches,value\r\n1,100,0.75\r\n2,100,0.25\r\n");
  EXPECT_EQ(csv({"--filter", "trial == 1.2 and kind == training", "--columns",
                 "trial,kind,value"}),
            "trial,kind,value\r\n1.2,training,1.25\r\n");
  EXPECT_EQ(csv({"--filter", "value is null", "--columns", "batches,value"}),
            "batches,value\r\n200,NaN\r\n");
  EXPECT_EQ(csv({"--columns", "name", "--limit", "1", "--reverse"}),
            "name\r\nloss\r\n");
  EXPECT_EQ(csv({"--columns", "value", "--limit", "2", "--sort", "value"}),
            "value\r\n0.25\r\n0.25\r\n");
  const auto rows =
      dtrain_
          .Run({"metrics", "1", "--json", "--columns", "run", "--limit", "1"})
          .Json()["metrics"];
  EXPECT_EQ(rows[0]["columns"], (nlohmann::json{{"run", nullptr}}));
  EXPECT_EQ(rows[0]["trial"], "1.1");
}

TEST_F(ReadTest, RefusesNamesThatMetricsLack) {
  const CliResult result =
      dtrain_.Run({"metrics", "1", "--filter", "hp.lr < 1"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("reported values have no column 'hp.lr'"));
  EXPECT_THAT(result.err, HasSubstr("columns: trial, number, kind, batches,"));
  EXPECT_EQ(dtrain_.Run({"metrics", "1", "--columns", "hp.*"}).code, 3);
  // An empty result would look like an answer.
  EXPECT_THAT(dtrain_.Run({"metrics", "1", "--filter", "name == los"}).err,
              HasSubstr("'name' is never 'los'"));
  EXPECT_THAT(dtrain_.Run({"metrics", "1", "--filter", "trial == 2"}).err,
              HasSubstr("it is one of 1.1, 1.2"));
}

TEST_F(ReadTest, PrintsMetricsAsText) {
  EXPECT_THAT(dtrain_.Run({"metrics", "1.2", "--name", "accuracy"}).out,
              HasSubstr("1.2  validation        100       0.5  accuracy"
                        "          0.75  1970-01-01T00:00:03Z\n"));
}

TEST_F(ReadTest, PrintsSupersededMetricsOnRequest) {
  Store::OpenForWriting(StoreLayout(dtrain_.store()))
      .Write([](StoreWriter& writer) {
        writer.SupersedeMetrics({1, 1}, /*run=*/1, MetricKind::kValidation, 0,
                                1000, /*smaller_is_better=*/true);
      });

  EXPECT_EQ(dtrain_
                .Run({"metrics", "1.1", "--name", "loss", "--kind",
                      "validation", "--csv"})
                .out,
            "trial,kind,batches,epoch,name,value,time,length,unit\r\n");
  EXPECT_EQ(dtrain_
                .Run({"metrics", "1.1", "--name", "loss", "--kind",
                      "validation", "--csv", "--superseded"})
                .out,
            "trial,kind,batches,epoch,name,value,time,superseded,length,unit"
            "\r\n"
            "1.1,validation,100,0.5,loss,0.75,1970-01-01T00:00:03.000100Z,"
            "true,100,batches\r\n");
  const auto rows = dtrain_.Run({"metrics", "1.1", "--json", "--superseded"})
                        .Json()["metrics"];
  EXPECT_EQ(rows.front()["superseded"], false);
  EXPECT_EQ(rows.back()["superseded"], true);
  EXPECT_THAT(dtrain_.Run({"metrics", "1.1", "--superseded"}).out,
              HasSubstr("Z  superseded\n"));
}

TEST_F(ReadTest, MergesLogsByTime) {
  EXPECT_EQ(dtrain_.Run({"logs", "1"}).out,
            "1.1 | first\n"
            "1.2 | second\n"
            "1.1 | third \x1b[2J\xff\n"
            "1.2/1 | fourth\n");
}

// A part of a line goes on in the next record of its trial, rank and stream.
TEST_F(ReadTest, JoinsThePartsOfALine) {
  const StoreLayout layout(dtrain_.store());
  std::filesystem::remove(layout.TrialLog({1, 1}));
  std::filesystem::remove(layout.TrialLog({1, 2}));
  const auto log = [&layout](TrialId trial,
                             const std::vector<LogRecord>& records) {
    TrialLogWriter writer(layout.TrialLog(trial));
    for (const LogRecord& record : records) writer.Append(record);
    writer.Flush();
  };
  log({1, 1}, {{.time = Timestamp(1), .partial = true, .text = "a"},
               {.time = Timestamp(2), .partial = true, .text = "b"},
               {.time = Timestamp(3), .text = "c"},
               {.time = Timestamp(4), .partial = true, .text = "d"},
               {.time = Timestamp(5), .rank = 1, .text = "e"},
               {.time = Timestamp(6), .partial = true, .text = "f"},
               {.time = Timestamp(7), .from_stderr = true, .text = "g"},
               {.time = Timestamp(8), .partial = true, .text = "h"}});
  log({1, 2}, std::vector<LogRecord>(
                  1, {.time = Timestamp(9), .partial = true, .text = "i"}));
  EXPECT_EQ(dtrain_.Run({"logs", "1"}).out,
            "1.1 | abc\n1.1 | d\n1.1/1 | e\n1.1 | f\n1.1 | g\n1.1 | h\n"
            "1.2 | i\n");
  EXPECT_EQ(dtrain_.Run({"logs", "1", "--raw"}).out, "abc\nd\ne\nf\ng\nh\ni\n");
}

TEST_F(ReadTest, FollowsAnExperimentUntilItEnds) {
  const StoreLayout layout(dtrain_.store());
  for (const State state : {State::kPending, State::kRunning}) {
    Store store = Store::OpenForWriting(layout);
    TrialId trial;
    store.Write([&](StoreWriter& writer) {
      trial = {writer.AddExperiment({.name = "f",
                                     .searcher = "single",
                                     .metric = "loss",
                                     .config = store.Experiment(1)->config}),
               1};
      writer.AddTrial({.id = trial, .request_id = "r"});
      writer.SetTrialState(trial, State::kRunning, Timestamp(1));
      if (state == State::kRunning) {
        writer.SetExperimentState(trial.experiment, state, Timestamp(1));
      }
    });
    std::filesystem::create_directories(layout.Trial(trial));
    std::optional<RunnerLock> runner =
        RunnerLock::Acquire(layout.RunnerLock(trial.experiment));
    TrialLogWriter writer(layout.TrialLog(trial));
    writer.Append({.time = Timestamp(2), .text = "first"});
    writer.Flush();
    const std::string id = std::to_string(trial.experiment);
    const auto printed = dtrain_.Write("printed" + id, "");
    std::atomic<bool> ended = false;
    std::thread run([&] {
      while (!ended && ReadFile(printed).value_or("").empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      writer.Append({.time = Timestamp(3), .text = "last"});
      writer.Flush();
      store.Write([&](StoreWriter& end) {
        end.SetTrialState(trial, State::kCompleted, Timestamp(4));
        end.SetExperimentState(trial.experiment, State::kCompleted,
                               Timestamp(4));
      });
      runner.reset();
    });
    const CliResult result =
        dtrain_.Run({"logs", id, "-f"}, {.stdout_file = printed.string()});
    ended = true;
    run.join();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(ReadFile(printed), id + ".1 | first\n" + id + ".1 | last\n");
  }
}

TEST_F(ReadTest, FollowsNoLongerThanAskedFor) {
  const RunnerLock runner =
      RunnerLock::Acquire(StoreLayout(dtrain_.store()).RunnerLock(2));
  for (const char* option : {"--until=1970-01-01T00:00:03Z", "--head=0"}) {
    EXPECT_EQ(dtrain_.Run({"logs", "2", "-f", option}).code, 0) << option;
  }
}

TEST_F(ReadTest, WorkersHaveEachFieldOfTheirFile) {
  const StoreLayout layout(dtrain_.store());
  const RunnerLock runner = RunnerLock::Acquire(layout.RunnerLock(2));
  std::ofstream(layout.WorkerTable(2)) << R"({"demand":5,"slots_per_trial":2}
{"type":"worker","id":0,"name":"","host":"head","job":"","state":"ready","gpus":false,"slots":4,"used":2,"trials":["2.1"],"joined":1000000}
{"type":"worker","id":3,"name":"b","host":"node-b","job":"71","state":"draining","gpus":true,"slots":8,"used":6,"trials":["2.2","2.4"],"joined":2000000,"until":4000000}
{"type":"job","id":"71","pending":false,"reason":"","nodes":"node-b","served":true}
{"type":"job","id":"72","pending":true,"reason":"Resources","nodes":"","served":false}
{"type":"job","id":"73","pending":false,"reason":"","nodes":"node-c","served":false}
)";

  EXPECT_EQ(dtrain_.Run({"workers", "2", "--csv"}).out,
            "id,name,host,job,state,slots,used,time left,trials\r\n"
            "0,(runner),head,,ready,4,2,,2.1\r\n"
            "3,b,node-b,71,draining,8,6,0:00:00,\"2.2, 2.4\"\r\n"
            ",,,72,pending (Resources),,,,\r\n"
            ",,node-c,73,starting,,,,\r\n");
  EXPECT_EQ(dtrain_.Run({"workers", "2", "--json"}).Json(), json::parse(R"({
    "experiment": 2,
    "demand": 5,
    "workers": [
      {"id": 0, "name": null, "host": "head", "job": null, "state": "ready",
       "gpus": false, "slots": 4, "used": 2, "trials": ["2.1"],
       "joined": "1970-01-01T00:00:01.000000Z", "seconds_left": null},
      {"id": 3, "name": "b", "host": "node-b", "job": "71",
       "state": "draining", "gpus": true, "slots": 8, "used": 6,
       "trials": ["2.2", "2.4"],
       "joined": "1970-01-01T00:00:02.000000Z", "seconds_left": 0}],
    "jobs": [
      {"id": "71", "state": "running", "reason": null, "nodes": "node-b"},
      {"id": "72", "state": "pending", "reason": "Resources", "nodes": null},
      {"id": "73", "state": "running", "reason": null, "nodes": "node-c"}]
  })"));
}

TEST_F(ReadTest, EscapesLogsOnATerminal) {
  const CliResult result = dtrain_.RunProgram(
      {"script", "-qec", "dtrain logs 1.1 --tail 1", "/dev/null"},
      {.environment = {{"TERM", "dumb"}}});
  EXPECT_THAT(result.out, HasSubstr("1.1 | third \\x1b[2J\\xff"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

// Returns the control characters in `shown`: C0 but line ends, DEL, C1, bidi.
std::string ObeyedIn(const CliRunner& dtrain, const std::string& shown) {
  dtrain.Write("shown", shown);
  return dtrain
      .RunProgram(
          {"python3", "-c",
           "import re; t = open('shown', newline='').read()\n"
           "t = t.replace('\\r\\r\\n', '\\n').replace('\\r\\n', '\\n')\n"
           "print(re.findall('[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u061c"
           "\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]', t))"})
      .out;
}

class TerminalFormatTest : public testing::TestWithParam<std::string> {
 protected:
  TerminalFormatTest() {
    FillSampleStore(dtrain_.store());
    dtrain_.Run({"note", "2", "--", kNasty});
    dtrain_.Run({"label", "2", "--add", kNasty});
    Store::OpenForWriting(StoreLayout(dtrain_.store()))
        .Write([](StoreWriter& writer) {
          writer.AddMetrics({1, 2}, MetricKind::kTraining, 7, 0, {{kNasty, 1}},
                            Timestamp(7));
        });
  }
  std::string OnATerminal(const std::string& command) const {
    return dtrain_
        .RunProgram({"script", "-qec", "dtrain " + command, "/dev/null"},
                    {.environment = {{"TERM", "dumb"}}})
        .out;
  }
  std::string ToAPipe(const std::string& command) const {
    return dtrain_.RunProgram({"sh", "-c", "dtrain " + command}).out;
  }

  static constexpr char kNasty[] =
      "\x1b]0;x\x07 \xE2\x80\xAE"
      "abc\xE2\x81\xA9 \xC2\x9b"
      "2J \x7f";
  CliRunner dtrain_;
};

TEST_P(TerminalFormatTest, ContainsNoControlCharacters) {
  const std::string shown = OnATerminal(GetParam());
  EXPECT_THAT(shown, HasSubstr(GetParam().ends_with("raw")   ? "\\x1b[2J"
                               : GetParam().ends_with("csv") ? "\\x1b]0;"
                                                             : "\\u001b"));
  EXPECT_EQ(ObeyedIn(dtrain_, shown), "[]\n");
}

INSTANTIATE_TEST_SUITE_P(Commands, TerminalFormatTest,
                         testing::Values("list --json", "list --csv",
                                         "describe 2 --json",
                                         "metrics 1 --json", "metrics 1 --csv",
                                         "logs 1 --json", "logs 1 --jsonl",
                                         "logs 1 --raw"));

class TerminalDocumentTest : public TerminalFormatTest {};

TEST_P(TerminalDocumentTest, IsTheSameAsThroughAPipe) {
  const std::string piped = ToAPipe(GetParam());
  EXPECT_NE(ObeyedIn(dtrain_, piped), "[]\n");
  EXPECT_EQ(json::parse(OnATerminal(GetParam())), json::parse(piped));
}

INSTANTIATE_TEST_SUITE_P(Commands, TerminalDocumentTest,
                         testing::Values("describe 2 --json",
                                         "metrics 1 --json"));

TEST_F(ReadTest, WritesTheBytesOfLogsAndTablesToAPipe) {
  EXPECT_THAT(dtrain_.Run({"logs", "1.1", "--raw"}).out,
              HasSubstr("third \x1b[2J\xff\n"));
  EXPECT_THAT(dtrain_.Run({"list", "--csv"}).out,
              HasSubstr("\x1b]0;owned\x07../../x\n"));
}

struct LogSelection {
  std::vector<std::string> options;
  std::string out;
};

class LogSelectionTest : public testing::TestWithParam<LogSelection> {};

TEST_P(LogSelectionTest, PrintsTheSelectedLines) {
  const CliRunner dtrain;
  FillSampleStore(dtrain.store());
  std::vector<std::string> arguments = {"logs", "1"};
  arguments.insert(arguments.end(), GetParam().options.begin(),
                   GetParam().options.end());
  EXPECT_EQ(dtrain.Run(arguments).out, GetParam().out);
}

INSTANTIATE_TEST_SUITE_P(
    Options, LogSelectionTest,
    testing::Values(
        LogSelection{{"--head", "2"}, "1.1 | first\n1.2 | second\n"},
        LogSelection{{"--tail", "1"}, "1.2/1 | fourth\n"},
        LogSelection{{"--head", "1", "-t"},
                     "1.1 1970-01-01T00:00:02.000010Z | first\n"},
        LogSelection{{"--tail", "1", "--timestamps"},
                     "1.2/1 1970-01-01T00:00:02.000040Z | fourth\n"},
        LogSelection{{"--level", "info", "--tail", "2"},
                     "1.1 | third \x1b[2J\xff\n1.2/1 | fourth\n"},
        LogSelection{{"--tail", "0"}, ""},
        LogSelection{{"--level", "warning", "--head", "1"}, "1.2 | second\n"},
        LogSelection{{"--rank", "1"}, "1.2/1 | fourth\n"},
        LogSelection{{"--grep", "^f[io]"}, "1.1 | first\n1.2/1 | fourth\n"},
        LogSelection{{"--grep", "ir", "--tail", "1", "--raw"},
                     "third \x1b[2J\xff\n"},
        LogSelection{{"--grep", "(?i)FOUR|\\bsec"},
                     "1.2 | second\n1.2/1 | fourth\n"},
        LogSelection{{"--since", "1h"}, ""},
        LogSelection{{"-f", "--grep", "h$"}, "1.2/1 | fourth\n"},
        LogSelection{{"-f", "--tail", "1"}, "1.2/1 | fourth\n"}));

TEST_F(ReadTest, PrintsLogsAsValidJson) {
  const auto rows = dtrain_.Run({"logs", "1", "--json"}).Json()["logs"];
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[2]["text"], "third \x1b[2J\xEF\xBF\xBD");
  EXPECT_EQ(rows[2]["level"], "error");
  EXPECT_EQ(rows[2]["stream"], "stderr");
  EXPECT_EQ(dtrain_.Run({"logs", "3", "--json"}).Json(),
            json({{"logs", json::array()}}));
}

TEST_F(ReadTest, RefusesBadLogOptions) {
  const CliResult unclosed = dtrain_.Run({"logs", "1", "--grep", "("});
  EXPECT_EQ(unclosed.code, 2);
  EXPECT_THAT(unclosed.err, HasSubstr("--grep: '(': missing ): ("));
  const CliResult longer =
      dtrain_.Run({"logs", "9", "-f", "--grep", std::string(1001, 'x')});
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("1001 bytes; the maximum is 1000"));
  EXPECT_EQ(dtrain_.Run({"logs", "1", "--level", "loud"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"logs", "1", "--since", "then"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"logs", "1", "-f", "--json"}).code, 2);
  EXPECT_EQ(dtrain_.Run({"logs", "1", "--head", "1", "--tail", "1"}).code, 2);
}

TEST_F(ReadTest, ReportsThatItIsOutOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer itself needs more address space";
#endif
  std::string log;
  for (int line = 0; line < 300'000; ++line) {
    log += "1795436479818796 0 o i . " + std::string(100, 'x') + "\n";
  }
  dtrain_.Write("store/experiments/1/trials/1/log", log);

  const CliResult result =
      dtrain_.RunProgram({"prlimit", "--as=60000000", "dtrain", "logs", "1",
                          "--grep", "x", "--tail", "1000000"});

  EXPECT_EQ(result.code, 6);
  EXPECT_EQ(
      result.err,
      "dtrain: error: out of memory; free some memory or reduce the request; "
      "resume an experiment that was running with `dtrain resume`\n");
}

TEST_F(ReadTest, RefusesADamagedStore) {
  std::filesystem::remove(dtrain_.store() / "dtrain.db-wal");
  dtrain_.Write("store/dtrain.db", "this is no database at all, is it?");
  const CliResult result = dtrain_.Run({"list"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("not a database"));
}

}  // namespace
}  // namespace dtrain
