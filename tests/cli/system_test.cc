// What trials use, on a machine that seems to have two GPUs
// (tests/support/fake_nvml.cc).

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/store/store.h"
#include "tests/support/cli_runner.h"
#include "tests/support/sample_store.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Reports once a sample of it is recorded since it began. The first time it
// then stays, so that its runner can be killed.
constexpr const char* kSampledTrial = R"sh(#!/bin/sh
set -eu
sampled() {
  "$DTRAIN" describe 1.1 --json | tr -d ' \n' | grep -o '"seconds":[0-9.e-]*' || true
}
before=$(sampled)
tries=0
until [ "$(sampled)" != "$before" ]; do
  tries=$((tries + 1)); [ $tries -lt 1200 ]; sleep 0.05
done
printf '{"type":"validation","batches":1,"metrics":{"loss":1}}\n' >&3
if [ "$STAY" = yes ] && [ ! -e "$MARK" ]; then touch "$MARK"; sleep 600; fi
printf '{"type":"validation","batches":2,"metrics":{"loss":1}}\n' >&3
)sh";

class SystemTest : public testing::Test {
 protected:
  void Write(const std::string& more, const std::string& stay = "no") {
    fs::permissions(dtrain_.Write("sampled.sh", kSampledTrial),
                    fs::perms::owner_all);
    dtrain_.Write("sampled.yaml",
                  "entrypoint: ./sampled.sh\n"
                  "searcher: {name: single, metric: loss, max_length: 2}\n"
                  "min_validation_period: 1\n"
                  "environment:\n"
                  "  environment_variables:\n"
                  "    DTRAIN: " DTRAIN_BINARY
                  "\n"
                  "    STAY: '" +
                      stay +
                      "'\n"
                      "    MARK: " +
                      (dtrain_.directory() / "mark").string() + "\n" + more);
  }
  // A resumed experiment takes the variables of its trials from here.
  CliResult Run(std::vector<std::string> words, CliCall call = {}) const {
    call.environment["DTRAIN_SYSTEM_PERIOD"] = "50ms";
    call.environment["DTRAIN"] = DTRAIN_BINARY;
    call.environment["STAY"] = "no";
    call.environment["MARK"] = dtrain_.directory() / "mark";
    return dtrain_.Run(words, call);
  }
  json System(const std::string& target = "1.1") const {
    return dtrain_.Run({"describe", target, "--json"}).Json().at("system");
  }
  static CliCall OnGpus(const std::string& driver = "") {
    return {.environment = {{"LD_LIBRARY_PATH", DTRAIN_FAKE_DRIVER},
                            {"FAKE_DRIVER", driver},
                            {"CUDA_MPS_PIPE_DIRECTORY", "/no/pipes"}}};
  }

  CliRunner dtrain_;
};

TEST_F(SystemTest, DescribesWhatATrialUses) {
  Write("resources: {slots: cpu}\n");

  const CliResult result = Run({"create", "sampled.yaml"});

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("resources: CPU "));
  const json used = System();
  EXPECT_GT(used.at("seconds"), 0);
  EXPECT_GT(used.at("memory_bytes"), 1'000'000);
  EXPECT_EQ(used.at("gpu_percent"), nullptr);
  EXPECT_GT(System("1").at("seconds"), 0);
  const std::string text = dtrain_.Run({"describe", "1.1"}).out;
  EXPECT_THAT(text, HasSubstr("resources, sampled for "));
  EXPECT_THAT(text, HasSubstr("  use           CPU "));
}

TEST_F(SystemTest, ReadsTheGpusOfATrial) {
  Write("resources: {slots: [0], slots_per_trial: 1}\n");

  const CliResult result = Run({"create", "sampled.yaml"}, OnGpus());

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("resources: GPU 37% busy, CPU "));
  const json used = System();
  EXPECT_NEAR(used.at("gpu_percent").get<double>(), 37, 1e-9);
  EXPECT_NEAR(used.at("gpu_watts").get<double>(), 250.5, 1e-9);
  EXPECT_EQ(used.at("gpu_memory_bytes"), 100);
  EXPECT_EQ(used.at("gpu_celsius"), 61);
}

class BrokenDriverTest : public SystemTest,
                         public testing::WithParamInterface<const char*> {};

TEST_P(BrokenDriverTest, OnlyGpusAreNotSampled) {
  Write("resources: {slots: [0], slots_per_trial: 1}\n");

  const CliResult result = Run({"create", "sampled.yaml"}, OnGpus(GetParam()));

  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(System().at("memory_bytes"), 1'000'000);
  EXPECT_EQ(System().at("gpu_percent"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Faults, BrokenDriverTest,
                         testing::Values("sensors_crash", "sensors_hang"));

TEST_F(SystemTest, KilledRunnerKeepsSamplesAndResumes) {
  Write("resources: {slots: cpu}\n", /*stay=*/"yes");
  const CliResult killed =
      Run({"create", "sampled.yaml"},
          {.signal_when = "validation at batch 1", .signal = SIGKILL});
  ASSERT_EQ(killed.code, 137) << killed.err;
  const double before = System().at("seconds");

  const CliResult resumed = Run({"resume", "1"});

  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_GT(before, 0);
  EXPECT_GT(System().at("seconds"), before);
}

// The kernel reports what they used, however they end.
TEST_F(SystemTest, DescribesTrialsThatEndBeforeASample) {
  const CliResult result = dtrain_.Run(
      {"run", "--metric", "loss", "--hp", "x=[0,1]", "--searcher", "grid",
       "--slots", "cpu", "--set", "max_restarts=0", "--", "sh", "-c",
       "i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; echo loss=1; exit "
       "$DTRAIN_HPARAM_x"},
      {.environment = {{"DTRAIN_SYSTEM_PERIOD", "1h"}}});

  EXPECT_THAT(result.out, HasSubstr("resources: ")) << result.err;
  for (const char* trial : {"1.1", "1.2"}) {
    const json used = System(trial);
    ASSERT_TRUE(used.is_object());
    EXPECT_GT(used.at("cores"), 0);
    EXPECT_GT(used.at("memory_bytes"), 1'000'000);
  }
}

// ---- What is made of recorded samples.

class SystemViewsTest : public testing::Test {
 protected:
  // Samples of 1.1 on two GPUs with a pause, and of 1.2 on two machines.
  SystemViewsTest() {
    FillSampleStore(dtrain_.store());
    Store store = Store::OpenForWriting(StoreLayout(dtrain_.store()));
    const Timestamp start = store.Experiment(1)->row.started.value();
    store.Write([&](StoreWriter& writer) {
      for (std::int64_t i = 1; i <= 3; ++i) {
        const Timestamp time = start + std::chrono::seconds(i < 3 ? 5 * i : 90);
        SystemSample sample{.seconds = 5,
                            .cpu_seconds = 10,
                            .processes = 3,
                            .memory_bytes = 2'000'000'000,
                            .read_bytes = 5'000'000};
        writer.AddSystemSample({1, 2}, {.time = time, .sample = sample});
        writer.AddSystemSample({1, 2},
                               {.rank = 4, .time = time, .sample = sample});
        sample.gpus = {{.gpu = 0, .percent = 30, .watts = 200},
                       {.gpu = 1, .percent = 70}};
        writer.AddSystemSample({1, 1}, {.time = time, .sample = sample});
      }
    });
  }

  const CliRunner dtrain_;
};

TEST_F(SystemViewsTest, DrawsTheGpusOfOneTrial) {
  const CliResult result = dtrain_.Run({"plot", "1.1", "--kind", "system"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* text :
       {"CPU", "memory", "read from storage", "GPU busy", "GPU power",
        "  A  GPU 0", "  B  GPU 1", "  C  1.1"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("written to storage")));
  EXPECT_THAT(result.out, Not(HasSubstr("GPU temperature")));
}

TEST_F(SystemViewsTest, DrawsTrialsAndTheirMachines) {
  const CliResult result =
      dtrain_.Run({"plot", "1", "--kind", "system", "--out", "a.svg"});
  ASSERT_EQ(result.code, 0) << result.err;
  std::ifstream file(dtrain_.directory() / "a.svg");
  const std::string svg(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(svg, HasSubstr("resources</text>"));
  for (const char* text : {">1.1<", ">1.2 from rank 0<", ">1.2 from rank 4<",
                           ">GPU busy<", ">cores<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(SystemViewsTest, DrawsTheBestTrialsOnly) {
  EXPECT_THAT(dtrain_.Run({"plot", "1", "--kind", "system", "--top", "1"}).out,
              HasSubstr("resources, best 1 of 2 trials"));
}

TEST_F(SystemViewsTest, SaysThatNothingWasSampled) {
  EXPECT_THAT(dtrain_.Run({"plot", "3", "--kind", "system"}).out,
              HasSubstr("nothing was sampled"));
}

TEST_F(SystemViewsTest, PrintsAllSamples) {
  const CliResult result =
      dtrain_.Run({"plot", "1", "--kind", "system", "--top", "1", "--json"});
  const json samples = result.Json().at("samples");
  ASSERT_EQ(samples.size(), 9U);
  const json& first = samples.at(0);
  EXPECT_EQ(first.at("trial"), "1.1");
  EXPECT_EQ(first.at("cores"), 2);
  EXPECT_EQ(first.at("read_bytes"), 5'000'000);
  EXPECT_EQ(first.at("written_bytes"), nullptr);
  EXPECT_EQ(first.at("gpus").at(1).at("percent"), 70);
  EXPECT_EQ(first.at("gpus").at(1).at("watts"), nullptr);
  EXPECT_EQ(samples.at(8).at("rank"), 4);
}

TEST_F(SystemViewsTest, RefusesOptionsOfOtherKinds) {
  EXPECT_THAT(dtrain_.Run({"plot", "1", "--json"}).err,
              HasSubstr("--json cannot be used with --kind curves"));
  EXPECT_THAT(
      dtrain_.Run({"plot", "1", "--kind", "system", "--metric", "loss"}).err,
      HasSubstr("--metric cannot be used with --kind system"));
}

TEST_F(SystemViewsTest, DescribesTheSums) {
  EXPECT_THAT(dtrain_.Run({"describe", "1.1"}).out,
              HasSubstr("GPU 50% busy, CPU 2.0"));
  EXPECT_THAT(dtrain_.Run({"describe", "1"}).out, HasSubstr("sampled for 45s"));
}

// A second export adds what is new, whichever samples were merged.
TEST_F(SystemViewsTest, AreARunOfTensorboard) {
  const fs::path file = dtrain_.directory() /
                        "tensorboard/1.1/system/"
                        "events.out.tfevents.dtrain.000001";
  ASSERT_EQ(dtrain_.Run({"tensorboard", "1"}).code, 0);
  const auto bytes = fs::file_size(file);
  std::ifstream in(file);
  const std::string events(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(events, HasSubstr("system/cores"));
  EXPECT_THAT(events, HasSubstr("system/gpu1/percent"));
  EXPECT_THAT(events, Not(HasSubstr("system/gpu1/watts")));

  fs::remove(file);
  ASSERT_EQ(dtrain_.Run({"tensorboard", "1", "--out", "again"}).code, 0);
  EXPECT_EQ(
      fs::file_size(dtrain_.directory() / "again/1.1/system" / file.filename()),
      bytes);
}

}  // namespace
}  // namespace dtrain
