// pause, cancel and kill: what happens without a runner, and
// what is recorded for one who does. The lock is held by the test itself.
//
// pause, cancel and kill, asked of a runner from another process.

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run/runner_lock.h"
#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/fault_yaml.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class StoreNameTest : public testing::TestWithParam<std::string> {
 protected:
  StoreNameTest() { FillSampleStore(dtrain_.directory() / GetParam()); }

  // Output of the command in `text` between `before` and `after`,
  // changed to describe experiment 2.
  std::string Described(const std::string& text, const std::string& before,
                        const std::string& after) const {
    const std::size_t begin = text.find(before) + before.size();
    const std::size_t end = text.find(after, begin);
    const CliResult result = dtrain_.RunProgram(
        {"sh", "-c", text.substr(begin, end - begin) + " describe 2 --json"});
    EXPECT_EQ(result.code, 0) << result.err << text;
    return result.code == 0 ? result.Json().at("directory") : "";
  }

  CliRunner dtrain_;
};

TEST_P(StoreNameTest, IsQuotedInPrintedCommands) {
  const std::string wanted =
      (dtrain_.directory() / GetParam() / "experiments/2").string();
  const std::string store = "--store=" + GetParam();
  EXPECT_EQ(Described(dtrain_.Run({store, "wait", "2"}).err,
                      "resume with: ", " resume"),
            wanted);
  EXPECT_EQ(Described(dtrain_.Run({store, "pause", "2"}).err,
                      "or end it with `", " cancel"),
            wanted);
  EXPECT_EQ(Described(dtrain_.Run({store, "doctor"}).out, "resume it with `",
                      " resume"),
            wanted);
  std::filesystem::create_directories(dtrain_.directory() / GetParam() /
                                      "experiments/1/sources.trash");
  EXPECT_EQ(Described(dtrain_.Run({store, "doctor"}).out,
                      "sources.trash: its deletion was interrupted; `", " gc"),
            wanted);
  EXPECT_FALSE(std::filesystem::exists(dtrain_.directory() / "canary"));
}

INSTANTIATE_TEST_SUITE_P(Names, StoreNameTest,
                         testing::Values("a b", "it's", "$(touch canary)",
                                         "-a b", "`touch canary`", "a\\\"b",
                                         "*;touch canary", "~ {a,b}"));

class RequestTest : public testing::Test {
 protected:
  RequestTest() {
    FillSampleStore(dtrain_.store());
    Write([](StoreWriter& writer) {
      writer.AddTrial({.id = {2, 1}, .request_id = "r", .hparams = {{"x", 1}}});
      writer.AddTrial({.id = {2, 2}, .request_id = "s", .hparams = {{"x", 2}}});
      writer.SetTrialState({2, 1}, State::kCompleted, Timestamp(1));
      writer.SetTrialState({2, 2}, State::kRunning, Timestamp(1));
    });
  }
  void Write(const std::function<void(StoreWriter&)>& body) const {
    Store::OpenForWriting(layout_).Write(body);
  }
  std::vector<RequestRow> OpenRequests() const {
    return Store::OpenForReading(layout_).OpenRequests(2);
  }
  RunnerLock Run() const { return RunnerLock::Acquire(layout_.RunnerLock(2)); }

  CliRunner dtrain_;
  StoreLayout layout_{dtrain_.store()};
};

TEST_F(RequestTest, CancelsAnExperimentWithoutARunner) {
  Write([](StoreWriter& writer) {
    writer.AddRequest(2, std::nullopt, RequestKind::kPause, Timestamp(1));
  });

  const CliResult result = dtrain_.Run({"cancel", "2"});

  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "experiment 2 is CANCELED\n");
  const json trials = dtrain_.Run({"trials", "2", "--json"}).Json()["trials"];
  EXPECT_EQ(trials[0]["state"], "COMPLETED");
  EXPECT_EQ(trials[1]["state"], "CANCELED");
  EXPECT_THAT(OpenRequests(), IsEmpty());
  EXPECT_EQ(dtrain_.Run({"resume", "2"}).code, 1);
  EXPECT_EQ(dtrain_.Run({"cancel", "2"}).code, 0);
}

TEST_F(RequestTest, RefusesEndedExperiments) {
  const CliResult result = dtrain_.Run({"cancel", "1", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "dtrain: error: experiment 1 is COMPLETED; nothing to cancel\n");
  EXPECT_EQ(result.Json()["experiments"][0]["state"], "COMPLETED");
}

TEST_F(RequestTest, ExitCodeIsOfTheWorstTarget) {
  Write([](StoreWriter& writer) {
    writer.SetExperimentState(2, State::kPaused, Timestamp(1));
  });
  const std::pair<std::vector<std::string>, int> rows[] = {
      {{"2"}, 0}, {{"1"}, 1}, {{"1", "2"}, 1}, {{"2", "1"}, 1}};
  for (const auto& [ids, code] : rows) {
    std::vector<std::string> words = {"pause"};
    words.insert(words.end(), ids.begin(), ids.end());
    EXPECT_EQ(dtrain_.Run(words).code, code) << testing::PrintToString(ids);
  }
}

TEST_F(RequestTest, RefusesToPauseWithoutARunner) {
  const CliResult result = dtrain_.Run({"pause", "2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("experiment 2 is INTERRUPTED and has no runner; resume "
                        "it with 'dtrain resume 2'"));
  EXPECT_THAT(dtrain_.Run({"kill", "2.2"}).err,
              HasSubstr("trial 2.2 is INTERRUPTED and has no runner"));
  EXPECT_EQ(dtrain_.Run({"kill", "2.3"}).code, 3);
}

TEST_F(RequestTest, AcceptsAPausedExperiment) {
  Write([](StoreWriter& writer) {
    writer.SetExperimentState(2, State::kPaused, Timestamp(1));
  });
  const CliResult result = dtrain_.Run({"pause", "2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("experiment 2 is already PAUSED"));
  EXPECT_EQ(dtrain_.Run({"kill", "2"}).code, 1);
}

TEST_F(RequestTest, RecordsTheRequestForTheRunner) {
  const RunnerLock lock = Run();
  EXPECT_EQ(dtrain_.Run({"pause", "2", "--no-wait"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"kill", "2.2", "--no-wait"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"kill", "2.2", "--no-wait"}).code, 0);

  const auto requests = OpenRequests();

  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].kind, RequestKind::kPause);
  EXPECT_EQ(requests[0].trial, std::nullopt);
  EXPECT_EQ(requests[1].kind, RequestKind::kKill);
  EXPECT_EQ(requests[1].trial, 2);
}

TEST_F(RequestTest, WaitsUntilTheRunnerIsDone) {
  std::optional<RunnerLock> lock = Run();
  std::thread runner([&] {
    while (OpenRequests().empty()) std::this_thread::yield();
    Write([&](StoreWriter& writer) {
      writer.SetExperimentState(2, State::kPaused, Timestamp(1));
    });
    lock.reset();
  });

  const CliResult result = dtrain_.Run({"pause", "2", "--json"});

  runner.join();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.Json()["experiments"][0], json({{"experiment", 2},
                                                   {"trial", nullptr},
                                                   {"state", "PAUSED"},
                                                   {"requested", true}}));
}

TEST_F(RequestTest, WaitsForATrial) {
  const RunnerLock lock = Run();
  std::thread runner([&] {
    while (OpenRequests().empty()) std::this_thread::yield();
    Write([&](StoreWriter& writer) {
      writer.SetTrialState({2, 2}, State::kCanceled, Timestamp(1));
    });
  });

  const CliResult result = dtrain_.Run({"kill", "2.2"});

  runner.join();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "trial 2.2 is CANCELED\n");
}

TEST_F(RequestTest, ReportsThatTheRunnerDied) {
  std::optional<RunnerLock> lock = Run();
  std::thread runner([&] {
    while (OpenRequests().empty()) std::this_thread::yield();
    lock.reset();
  });

  const CliResult result = dtrain_.Run({"cancel", "2"});

  runner.join();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("its runner died before it could cancel"));
}

TEST_F(RequestTest, TimesOut) {
  const RunnerLock lock = Run();
  const CliResult result = dtrain_.Run({"cancel", "2", "--timeout", "200ms"});
  EXPECT_EQ(result.code, 124);
  EXPECT_THAT(result.err, HasSubstr("the request remains"));
  EXPECT_EQ(OpenRequests().size(), 1);
}

#ifdef DTRAIN_HAS_TRIALS

// A search whose trials would train for minutes, in the background.
class RequestRunTest : public testing::Test {
 protected:
  void SetUp() override {
    dtrain_.Write(
        "search.yaml",
        SearchYaml("name: random, max_trials: 3, max_length: 100000", "cpu:2"));
    const CliResult result = dtrain_.Run({"create", "search.yaml", "-d"});
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_EQ(dtrain_
                  .RunProgram({"bash", "-c",
                               "until dtrain trials 1 --json | grep -q "
                               "'\"batches\": [1-9]'; do :; done"})
                  .code,
              0);
  }

  json Trials() const {
    return dtrain_.Run({"trials", "1", "--json"}).Json().at("trials");
  }
  std::string State() const {
    return dtrain_.Run({"describe", "1", "--json"}).Json().at("state");
  }

  CliRunner dtrain_;
};

TEST_F(RequestRunTest, PausesAndResumes) {
  EXPECT_EQ(dtrain_.Run({"pause", "1"}).code, 0);

  EXPECT_EQ(State(), "PAUSED");
  const json paused = Trials().at(0);
  EXPECT_EQ(paused.at("state"), "PAUSED");
  EXPECT_GT(paused.at("batches"), 0);
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 75);
  ASSERT_EQ(dtrain_.Run({"resume", "1", "-d"}).code, 0);
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);
  EXPECT_GE(Trials().at(0).at("batches"), paused.at("batches"));
}

TEST_F(RequestRunTest, CancelIsFinal) {
  EXPECT_EQ(dtrain_.Run({"cancel", "1"}).code, 0);

  EXPECT_EQ(State(), "CANCELED");
  EXPECT_EQ(Trials().at(0).at("state"), "CANCELED");
  EXPECT_EQ(dtrain_.Run({"wait", "1"}).code, 1);
}

TEST_F(RequestRunTest, KillsOneTrialAndStartsTheNext) {
  EXPECT_EQ(dtrain_.Run({"kill", "1.1"}).code, 0);

  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Trials().at(0).at("state"), "CANCELED");
  EXPECT_EQ(Trials().at(0).at("reason"), "killed by request");
  EXPECT_EQ(Trials().size(), 3u);
  EXPECT_EQ(dtrain_.Run({"kill", "1"}).code, 0);
  EXPECT_EQ(State(), "CANCELED");
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain
