// One model on several machines: the environment variables that `create`
// refuses, and training by processes of one machine, each with a CPU slot, at
// 127.0.0.1.

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <tuple>

#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/process.h"
#include "engine/os/socket.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kModelYaml[] = "entrypoint: digits:LeNetTrial\n";

class NodesRefusalTest : public testing::Test {
 protected:
  // Runs `create` as one of two processes, with the variables `others` added;
  // if `until` names a file, until that is there.
  CliResult Create(std::map<std::string, std::string> others,
                   const std::string& yaml = kModelYaml,
                   const std::vector<std::string>& flags = {},
                   const std::string& until = "") const {
    dtrain_.Write("nodes.yaml",
                  yaml +
                      "searcher: {name: single, metric: val_loss, "
                      "max_length: {batches: 1}}\n"
                      "hyperparameters: {global_batch_size: 2}\n"
                      "resources: {slots: cpu:1}\n");
    others.merge(
        std::map<std::string, std::string>{{"RANK", "0"},
                                           {"WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", "29400"}});
    std::vector<std::string> words = {"create", "nodes.yaml"};
    words.insert(words.end(), flags.begin(), flags.end());
    if (until.empty()) return dtrain_.Run(words, {.environment = others});
    return dtrain_.RunProgram(
        {"sh", "-c",
         "dtrain create nodes.yaml & p=$!; until [ -e " + until +
             " ]; do sleep 0.05; done; kill $p; wait $p"},
        {.environment = others});
  }
  // Returns the runner's answer to a peer that sends only `said`.
  static std::string Heard(int port, const std::string& said) {
    UniqueFd socket;
    for (int i = 0; i < 12'000 && !socket; ++i) {
      try {
        socket = ConnectTo({"127.0.0.1", port}, std::chrono::seconds(5));
      } catch (const Error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    EXPECT_TRUE(socket);
    ::send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL);
    std::string heard(1000, '\0');
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, /*milliseconds=*/300'000);
    const ssize_t count = ::recv(socket.get(), heard.data(), heard.size(), 0);
    heard.resize(static_cast<std::size_t>(count > 0 ? count : 0));
    return heard;
  }
  void ExpectRefused(const CliResult& result, int code,
                     const std::string& text) const {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(dtrain_.store()));
  }

  CliRunner dtrain_;
};

// Workers connect to the name of the machine if it listens everywhere.
TEST(ListenTest, SaysWhereWorkersConnect) {
  const std::string yaml =
      "entrypoint: ['true']\nmax_restarts: 0\n"
      "searcher: {name: single, metric: loss, max_length: 1}\n";
  const std::string host = HostName() + ":";
  const std::pair<const char*, std::string> rows[] = {
      {"0", host},
      {"0.0.0.0:0", host},
      {"[::]:0", host},
      {"127.0.0.1:0", "127.0.0.1:"},
      {"localhost:0", "localhost:"},
      {"[::1]:0", "'[::1]:"}};
  for (const auto& [address, place] : rows) {
    const CliRunner dtrain;
    dtrain.Write("option.yaml", yaml + "resources: {slots: 'cpu:1'}\n");
    // A number in quotes is no port.
    const std::string text =
        std::string(address) == "0" ? "0" : "'" + std::string(address) + "'";
    dtrain.Write("key.yaml",
                 yaml + "resources: {slots: 'cpu:1', listen: " + text + "}\n");
    for (const CliResult& result :
         {dtrain.Run({"create", "option.yaml", "--listen", address}),
          dtrain.Run({"create", "key.yaml"})}) {
      if (result.err.find("cannot listen at") != std::string::npos) continue;
      EXPECT_THAT(result.err,
                  HasSubstr("run there: dtrain worker --connect " + place))
          << address;
    }
  }
}

TEST_F(NodesRefusalTest, RefusesInvalidVariables) {
  ExpectRefused(Create({{"RANK", "one"}}), 2, "RANK=one");
  ExpectRefused(Create({{"RANK", "2"}}), 2, "RANK=2");
  ExpectRefused(Create({{"WORLD_SIZE", "many"}}), 2, "WORLD_SIZE=many");
  ExpectRefused(Create({{"MASTER_ADDR", ""}}), 2, "MASTER_ADDR is not set");
  ExpectRefused(Create({{"MASTER_PORT", "0"}}), 2, "MASTER_PORT=0");
  ExpectRefused(Create({{"MASTER_ADDR", "no-such-host.invalid"}}), 2,
                "MASTER_ADDR=no-such-host.invalid");
}

TEST_F(NodesRefusalTest, RefusesAPortInUse) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  const std::string port = std::to_string(GetPort(listener.get()));
  const CliResult result = Create({{"MASTER_PORT", port}});
  ExpectRefused(result, 6, "127.0.0.1:" + port);
  EXPECT_THAT(result.err, HasSubstr("MASTER_PORT"));
}

TEST_F(NodesRefusalTest, RefusesAnInvalidSecret) {
  const auto create = [&](const std::string& file) {
    return Create({{"DTRAIN_SECRET_FILE", file}});
  };
  ExpectRefused(create("none"), 2, "DTRAIN_SECRET_FILE=none: ");
  const std::string file = dtrain_.Write("secret", std::string(31, 'x'));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  ExpectRefused(create(file), 2, "31 bytes, but at least 32 are needed");
  dtrain_.Write("secret", std::string(32, 'x'));
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  ExpectRefused(create(file), 2, "others may read the secret");
  ExpectRefused(create("/dev/zero"), 2, "not a regular file");
}

TEST_F(NodesRefusalTest, LogsOneLineForUnknownPeersAndSendsNothing) {
  const int port = GetPort(ListenAt({.host = "127.0.0.1"}).get());
  auto runner = std::async(std::launch::async, [&] {
    return Create({{"MASTER_PORT", std::to_string(port)}}, kModelYaml, {},
                  /*until=*/"all-heard");
  });
  const std::string hello =
      R"({"kind":"hello","rank":1,"world_size":2,"version":"1"})"
      "\n";
  const std::string proof = std::string("dtrain\0\1", 8) + std::string(32, 'n');
  std::map<std::string, std::string> heard;
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\n\r\n"), hello, proof}) {
    heard[said] = Heard(port, said);
  }
  dtrain_.Write("all-heard", "");

  EXPECT_EQ(heard["GET / HTTP/1.1\r\n\r\n"], "");
  EXPECT_EQ(heard[hello], "");
  // 32 random bytes, and 32 that look like it.
  EXPECT_EQ(heard[proof].size(), 64);
  const CliResult result = runner.get();
  EXPECT_THAT(result.err, HasSubstr("rejected 1 connection without the "
                                    "secret of " +
                                    (dtrain_.store() / "secret").string()));
  EXPECT_EQ(result.err.find("rejected"), result.err.rfind("rejected"))
      << result.err;
}

TEST_F(NodesRefusalTest, RefusesACommand) {
  ExpectRefused(Create({}, "entrypoint: ['true']\n"), 2,
                "WORLD_SIZE=2: a command runs as one process");
}

TEST_F(NodesRefusalTest, RefusesTheBackground) {
  ExpectRefused(Create({}, "entrypoint: digits:LeNetTrial\n", {"--detach"}), 2,
                "--detach");
}

TEST_F(NodesRefusalTest, IgnoresTheVariablesInADryRunAndForOneProcess) {
  EXPECT_EQ(Create({{"RANK", "one"}}, "entrypoint: digits:LeNetTrial\n",
                   {"--dry-run"})
                .code,
            0);
  EXPECT_EQ(Create({{"WORLD_SIZE", "1"}, {"RANK", "one"}},
                   "entrypoint: digits:LeNetTrial\n", {"--dry-run"})
                .code,
            0);
}

#ifdef DTRAIN_HAS_TRIALS

using nlohmann::json;

class NodesCliTest : public testing::Test {
 protected:
  using Variables = std::map<std::string, std::string>;

  // LeNet on drawn digits. Two slots share the machine's cores; a trial of one
  // process has `slots` of them.
  void WriteConfig(const std::string& name, int slots, int batches,
                   const std::string& more = "") const {
    dtrain_.Write(name,
                  "entrypoint: digits:LeNetTrial\n"
                  "hyperparameters: {global_batch_size: 60, lr: 0.1}\n"
                  "searcher: {name: single, metric: val_loss, max_length: "
                  "{batches: " +
                      std::to_string(batches) +
                      "}}\n"
                      "reproducibility: {experiment_seed: 3}\n"
                      "resources: {slots: cpu:2, slots_per_trial: " +
                      std::to_string(slots) + "}\n" + more);
  }
  Variables Rank(int rank) const {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port_)}};
  }
  std::future<CliResult> Start(int rank, const std::string& config,
                               const Variables& more = {}) const {
    return std::async(std::launch::async, [this, rank, config, more] {
      Variables environment = Rank(rank);
      environment.insert(more.begin(), more.end());
      return dtrain_.Run({"create", config}, {.environment = environment});
    });
  }
  std::future<CliResult> StartScript(int rank, const std::string& text) const {
    return std::async(std::launch::async, [this, rank, text] {
      return dtrain_.RunProgram({"sh", "-c", text},
                                {.environment = Rank(rank)});
    });
  }
  std::int64_t ReadRestarts(const std::string& experiment) const {
    const json trials = dtrain_.Run({"trials", experiment, "--json"}).Json();
    return trials.at("trials").at(0).at("restarts").get<std::int64_t>();
  }

  CliRunner dtrain_;
  // Free now, and most likely in a moment.
  const int port_ = GetPort(ListenAt({.host = "127.0.0.1"}).get());
};

TEST_F(NodesCliTest, TwoMachinesTrainBitIdenticallyToTwoRanksOfOne) {
  WriteConfig("one.yaml", 2, 20, "scheduling_unit: 1\n");
  WriteConfig("two.yaml", 1, 20, "scheduling_unit: 1\n");
  const CliResult one = dtrain_.Run({"create", "one.yaml"});
  ASSERT_EQ(one.code, 0) << one.err;

  auto worker = Start(1, "two.yaml");
  const CliResult runner = Start(0, "two.yaml").get();

  ASSERT_EQ(runner.code, 0) << runner.err;
  const CliResult worked = worker.get();
  EXPECT_EQ(worked.code, 0) << worked.err;
  const TrialMetrics alone = ReadMetrics(dtrain_, "1.1");
  EXPECT_EQ(alone.count({"training", 20, "loss"}), 1);
  EXPECT_EQ(alone, ReadMetrics(dtrain_, "2.1"));
  // The store has nothing of the worker's own.
  EXPECT_EQ(
      dtrain_.Run({"list", "-a", "--json"}).Json().at("experiments").size(), 2);
}

TEST_F(NodesCliTest, TrialRestartsAfterAWorkerDies) {
  const std::string often =
      "scheduling_unit: 5\nmin_checkpoint_period: {batches: 20}\n";
  // Long enough to be killed in, on a fast machine as well.
  WriteConfig("one.yaml", 2, 1500, often);
  WriteConfig("two.yaml", 1, 1500, often);
  ASSERT_EQ(dtrain_.Run({"create", "one.yaml"}).code, 0);

  auto runner = Start(0, "two.yaml");
  const CliResult workers =
      StartScript(1,
                  "dtrain create two.yaml & first=$!\n"
                  "until dtrain metrics 2.1 --json 2>/dev/null |"
                  " grep -q '\"batches\"'; do sleep 0.1; done\n"
                  "kill -9 $first; wait $first\n"
                  "exec dtrain create two.yaml\n")
          .get();

  const CliResult run = runner.get();
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(workers.code, 0) << workers.err;
  EXPECT_EQ(ReadRestarts("2"), 1);
  EXPECT_EQ(ReadMetrics(dtrain_, "1.1"), ReadMetrics(dtrain_, "2.1"));
}

TEST_F(NodesCliTest, SigtermToAWorkerPausesAndResumeContinues) {
  WriteConfig("one.yaml", 2, 1500, "scheduling_unit: 5\n");
  WriteConfig("two.yaml", 1, 1500, "scheduling_unit: 5\n");
  ASSERT_EQ(dtrain_.Run({"create", "one.yaml"}).code, 0);

  auto runner = Start(0, "two.yaml");
  const CliResult worker =
      StartScript(1,
                  "dtrain create two.yaml & p=$!\n"
                  "until dtrain metrics 2.1 --json 2>/dev/null |"
                  " grep -q '\"batches\"'; do sleep 0.1; done\n"
                  "kill $p; wait $p\n")
          .get();

  EXPECT_EQ(worker.code, 0) << worker.err;
  const CliResult paused = runner.get();
  EXPECT_EQ(paused.code, 143) << paused.err;

  auto again = Start(1, "two.yaml");
  const CliResult resumed =
      dtrain_.Run({"resume", "2"}, {.environment = Rank(0)});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(again.get().code, 0);
  EXPECT_EQ(ReadRestarts("2"), 0);
  EXPECT_EQ(ReadMetrics(dtrain_, "1.1"), ReadMetrics(dtrain_, "2.1"));
}

TEST_F(NodesCliTest, NothingIsRecordedBeforeAllRanksAreThere) {
  WriteConfig("three.yaml", 1, 5);
  const std::string script =
      "export WORLD_SIZE=3\n"
      "dtrain create three.yaml 2>first & p=$!\n"
      "until grep -q 'joined the runner' first; do sleep 0.1; done\n"
      "dtrain create three.yaml; code=$?\n"
      "dtrain list -a --json >all; kill $p; exit $code\n";
  auto runner = StartScript(0,
                            "export WORLD_SIZE=3\n"
                            "dtrain create three.yaml & p=$!\n"
                            "until [ -s all ]; do sleep 0.1; done\n"
                            "kill $p; wait $p\n");

  const CliResult duplicate = StartScript(1, script).get();

  EXPECT_EQ(duplicate.code, 2) << duplicate.err;
  EXPECT_THAT(duplicate.err, HasSubstr("another process has the same RANK"));
  static_cast<void>(runner.get());
  EXPECT_EQ(
      dtrain_.Run({"list", "-a", "--json"}).Json().at("experiments").size(), 0);
}

TEST_F(NodesCliTest, AWorkerWithAnotherFileIsRefused) {
  WriteConfig("two.yaml", 1, 5);
  WriteConfig("other.yaml", 1, 6);
  auto runner = Start(0, "two.yaml");

  const CliResult other = Start(1, "other.yaml").get();
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("its configuration differs"));

  EXPECT_EQ(Start(1, "two.yaml").get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("RANK=1 was rejected"));
}

TEST_F(NodesCliTest, AWorkerWithAnotherSecretIsRefused) {
  WriteConfig("two.yaml", 1, 5);
  const std::string secret = dtrain_.Write("secret", std::string(32, 'x'));
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  auto runner = Start(0, "two.yaml");

  const CliResult other =
      Start(1, "two.yaml", {{"DTRAIN_SECRET_FILE", secret}}).get();
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("a different secret from DTRAIN_SECRET_FILE="));

  EXPECT_EQ(Start(1, "two.yaml").get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("without the secret of"));
}

TEST_F(NodesCliTest, AcceptsACustomSecret) {
  WriteConfig("two.yaml", 1, 5);
  const std::string secret = dtrain_.Write("secret", std::string(32, 'x'));
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  const Variables named = {{"DTRAIN_SECRET_FILE", secret}};
  auto runner = Start(0, "two.yaml", named);

  EXPECT_EQ(Start(1, "two.yaml", named).get().code, 0);
  const CliResult run = runner.get();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(dtrain_.store() / "secret"));
}

#endif  // DTRAIN_HAS_TRIALS

}  // namespace
}  // namespace dtrain
