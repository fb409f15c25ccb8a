// Trials on GPUs, on a machine that seems to have two of them, and whose driver
// may fail (tests/support/fake_nvml.cc).

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/socket.h"
#include "tests/support/cli_runner.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// A trial that meets the three others, and ends when the first has looked who
// has the slots. It gives up after a minute.
constexpr const char* kMeeting = R"sh(#!/bin/sh
set -eu
cd "$MEETING"
wait_for() {
  tries=0
  until [ "$(find . -name "$1" | wc -l)" -ge "$2" ]; do
    tries=$((tries + 1)); [ $tries -lt 1200 ]; sleep 0.05
  done
}
touch "here.$DTRAIN_HPARAM_x"
wait_for 'here.*' 4
if [ "$DTRAIN_HPARAM_x" = 1 ]; then
  CUDA_VISIBLE_DEVICES=0,1 "$DTRAIN" slots --json > part
  mv part slots.json
fi
wait_for slots.json 1
echo "on $CUDA_VISIBLE_DEVICES"
tr -d ' \n' < "$DTRAIN_TRIAL" | grep -o '"gpu_share":[0-9.]*'
printf '{"type":"validation","batches":1,"metrics":{"loss":1}}\n' >&3
)sh";

class GpuSharesRunTest : public testing::Test {
 protected:
  GpuSharesRunTest() {
    fs::create_directory(meeting_);
    MakeProgram("nvidia-cuda-mps-control", "#!/bin/false\n");
    MakeProgram("meet.sh", kMeeting);
    dtrain_.Write("meet.yaml",
                  "entrypoint: ./meet.sh\n"
                  "hyperparameters:\n"
                  "  x: {type: categorical, vals: [1, 2, 3, 4]}\n"
                  "searcher: {name: grid, metric: loss, max_length: 1}\n"
                  "resources: {slots_per_trial: 0.5}\n"
                  "environment:\n"
                  "  environment_variables:\n"
                  "    DTRAIN: " DTRAIN_BINARY
                  "\n"
                  "    MEETING: " +
                      meeting_.string() +
                      "\n"
                      "    PATH: " +
                      dtrain_.directory().string() + ":/usr/bin:/bin\n");
  }
  void MakeProgram(const std::string& name, const std::string& text) const {
    fs::permissions(dtrain_.Write(name, text), fs::perms::owner_all);
  }
  CliResult Create(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"create", "meet.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return dtrain_.Run(words, call_);
  }

  CliRunner dtrain_;
  const fs::path meeting_ = dtrain_.directory() / "meeting";
  const CliCall call_{
      .environment = {{"LD_LIBRARY_PATH", DTRAIN_FAKE_DRIVER},
                      {"CUDA_MPS_PIPE_DIRECTORY",
                       (dtrain_.directory() / "no-pipes").string()}}};
};

TEST_F(GpuSharesRunTest, DryRunShowsHowGpusAreShared) {
  EXPECT_THAT(Create({"--dry-run"}).out,
              HasSubstr("on 4 GPU slots of a half: NVIDIA Fake"));
  const CliResult one = Create({"--dry-run", "--set", "resources.max_slots=1",
                                "--set", "resources.slots_per_trial=0.25"});
  EXPECT_THAT(one.out, HasSubstr("on 4 GPU slots of a quarter"));
}

TEST_F(GpuSharesRunTest, SharesHaveNoEffectOnCpus) {
  const CliResult cpus = Create({"--dry-run", "--slots", "cpu:2"});
  EXPECT_EQ(cpus.code, 0);
  EXPECT_THAT(cpus.out, HasSubstr("on 2 CPU slots"));
  EXPECT_THAT(cpus.err, HasSubstr("a CPU slot cannot be shared"));
}

TEST_F(GpuSharesRunTest, FourTrialsRunOnTwoGpusAtOnce) {
  const CliResult result = Create({});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out + result.err,
              HasSubstr("trials that share a GPU take turns on it"));
  const std::string log = dtrain_.Run({"logs", "1"}).out;
  EXPECT_THAT(log, HasSubstr("on GPU-a"));
  EXPECT_THAT(log, HasSubstr("on GPU-b"));
  EXPECT_THAT(log, HasSubstr("\"gpu_share\":0.5"));
  EXPECT_THAT(log, Not(HasSubstr("\"gpu_share\":1")));
}

TEST_F(GpuSharesRunTest, SlotsNamesEveryHolder) {
  ASSERT_EQ(Create({}).code, 0);
  const auto slots = json::parse(
      dtrain_.RunProgram({"cat", "meeting/slots.json"}).out)["slots"];
  std::vector<std::string> holders;
  for (const int gpu : {0, 1}) {
    EXPECT_EQ(slots[gpu]["slot"], "gpu:" + std::to_string(gpu));
    EXPECT_EQ(slots[gpu]["free"], false);
    EXPECT_EQ(slots[gpu]["free_share"], 0);
    EXPECT_EQ(slots[gpu]["trial"], slots[gpu]["holders"][0]["trial"]);
    for (const json& holder : slots[gpu]["holders"]) {
      EXPECT_EQ(holder["share"], 0.5);
      holders.push_back(holder["trial"]);
    }
  }
  EXPECT_THAT(holders, UnorderedElementsAre("1.1", "1.2", "1.3", "1.4"));
  const std::string text = dtrain_.Run({"slots"}, call_).out;
  EXPECT_THAT(text, HasSubstr("NVIDIA Fake"));
  EXPECT_THAT(text, Not(HasSubstr("in use")));
}

TEST_F(GpuSharesRunTest, SlotsHaveEachFieldOfAGpu) {
  const json document = dtrain_.Run({"slots", "--json"}, call_).Json();
  EXPECT_EQ(document.at("gpus"), json::parse(R"([
    {"index": 0, "uuid": "GPU-a", "name": "NVIDIA Fake", "driver": "580.65.06",
     "memory_bytes": 1000, "free_bytes": 900},
    {"index": 1, "uuid": "GPU-b", "name": "NVIDIA Fake", "driver": "580.65.06",
     "memory_bytes": 1000, "free_bytes": 900}])"));
  EXPECT_EQ(document.at("slots").at(0), json::parse(R"(
    {"slot": "gpu:0", "free": true, "free_share": 1, "holders": [],
     "pid": null, "store": null, "trial": null, "user": null})"));
  EXPECT_THAT(dtrain_.Run({"slots"}, call_).out,
              HasSubstr("NVIDIA Fake, 900 B of 1.0 kB free"));
}

TEST_F(GpuSharesRunTest, RejectsSharesOfAnExclusiveGpuWithoutMps) {
  CliCall call = call_;
  call.environment["FAKE_DRIVER"] = "mode=1:3";
  const CliResult refused = dtrain_.Run({"create", "meet.yaml"}, call);
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.err,
              HasSubstr("trials cannot share GPU 1 (NVIDIA Fake), which is in "
                        "an exclusive compute mode; start MPS "
                        "(nvidia-cuda-mps-control -d), permit several "
                        "processes (nvidia-smi -c 0), or set it to 1"));
  EXPECT_EQ(dtrain_
                .Run({"create", "meet.yaml", "--dry-run", "--set",
                      "resources.slots_per_trial=1"},
                     call)
                .code,
            0);
}

// A machine whose driver fails must not be taken for one without GPUs.
class GpuDriverRunTest : public testing::Test {
 protected:
  GpuDriverRunTest() {
    dtrain_.Write("train.yaml",
                  "entrypoint: sh train.sh\n"
                  "searcher: {name: single, metric: loss, max_length: 1}\n"
                  "max_restarts: 0\n");
    dtrain_.Write("train.sh",
                  "echo \"devices=$CUDA_VISIBLE_DEVICES.\"\n"
                  "if grep -qs \"$CUDA_VISIBLE_DEVICES\" dead; then\n"
                  "  echo CUDA error: uncorrectable ECC error encountered >&2\n"
                  "  exit 1\n"
                  "fi\n"
                  "[ ! -e slow ] || [ -e $HOME/again ] ||\n"
                  "  { read -r order <&4; touch $HOME/again; exit; }\n"
                  "echo '{\"type\":\"validation\",\"batches\":1,"
                  "\"metrics\":{\"loss\":1}}' >&3\n");
  }
  CliResult Run(const std::vector<std::string>& words,
                const std::string& driver = "",
                const std::string& visible = "0,1") const {
    return dtrain_.Run(words,
                       {.environment = {{"LD_LIBRARY_PATH", DTRAIN_FAKE_DRIVER},
                                        {"FAKE_DRIVER", driver},
                                        {"CUDA_VISIBLE_DEVICES", visible}}});
  }

  CliRunner dtrain_;
};

TEST_F(GpuDriverRunTest, CreateRefusesABrokenDriverUnlessOnCpus) {
  const CliResult refused = Run({"create", "train.yaml"}, "init=18");
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.err,
              HasSubstr("NVIDIA's driver does not answer: Driver/library "
                        "version mismatch (NVML error 18); see what nvidia-smi "
                        "prints; `--slots none` trains on CPUs"));
  EXPECT_EQ(Run({"create", "train.yaml"}, "crash").code, 6);
  EXPECT_EQ(Run({"create", "train.yaml", "--slots", "none"}, "init=18").code,
            0);
  EXPECT_EQ(dtrain_.Run({"list", "--csv", "-q"}).code, 0);
}

TEST_F(GpuDriverRunTest, ResumeDoesNotMoveToCpusUnasked) {
  dtrain_.Write("slow", "");  // until it is told to stop
  const CliResult paused = Run({"create", "train.yaml", "--timeout", "300ms"});
  ASSERT_EQ(paused.code, 124) << paused.err;
  const CliResult broken = Run({"resume", "1"}, "init=18");
  EXPECT_EQ(broken.code, 6);
  EXPECT_THAT(broken.err, HasSubstr("NVML error 18"));
  const CliResult hidden = Run({"resume", "1"}, "", "");
  EXPECT_EQ(hidden.code, 6);
  EXPECT_THAT(hidden.err,
              HasSubstr("experiment 1 trains on GPUs and this machine has none "
                        "that it may use; `dtrain resume 1 --slots none` "
                        "trains on CPUs"));
  // The first run may have ended before its program began.
  dtrain_.Write("again", "");
  const CliResult moved = Run({"resume", "1", "--slots", "none"}, "", "");
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(dtrain_.Run({"logs", "1"}).out, HasSubstr("devices=.\n"));
}

TEST_F(GpuDriverRunTest, ResumeRejectsSlotsThatAreNotValid) {
  dtrain_.Write("slow", "");  // until it is told to stop
  ASSERT_EQ(Run({"create", "train.yaml", "--timeout", "300ms"}).code, 124);
  const CliResult result = Run({"resume", "1", "--slots", "tpu"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--slots: 'tpu' is not valid here"));
}

TEST_F(GpuDriverRunTest, CreateRefusesAVariableThatNamesNoGpu) {
  const CliResult refused = Run({"create", "train.yaml"}, "", "0,5");
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.err, HasSubstr("CUDA_VISIBLE_DEVICES: '5' names no GPU"));
}

TEST_F(GpuDriverRunTest, TrainsOnAMigInstanceByItsUuid) {
  const CliResult result =
      Run({"create", "train.yaml"}, "mig=0:2", "MIG-a1, MIG-a0");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("NVIDIA Fake MIG"));
  EXPECT_THAT(dtrain_.Run({"logs", "1"}).out, HasSubstr("devices=MIG-a1."));
}

// Trials of a search that take the lowest free GPU, without any restart.
const std::vector<std::string> kSearchOnGpus = {
    "create", "train.yaml",           "--set", "searcher.name=random",
    "--set",  "searcher.max_trials=6"};

TEST_F(GpuDriverRunTest, SearchSurvivesADeadGpu) {
  dtrain_.Write("dead", "GPU-a");
  const CliResult result = Run(kSearchOnGpus);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out + result.err,
              HasSubstr("GPU 0 (GPU-a): CUDA error: uncorrectable ECC error "
                        "encountered; it is set aside, and tested again every "
                        "minute"));
  const auto trials = json::parse(dtrain_.Run({"trials", "1", "--json"}).out);
  ASSERT_EQ(trials["trials"].size(), 6u);
  for (const json& trial : trials["trials"]) {
    EXPECT_EQ(trial["state"], "COMPLETED");
    EXPECT_EQ(trial["restarts"], 0);
  }
}

TEST_F(GpuDriverRunTest, PausesIfAllGpusAreDead) {
  dtrain_.Write("dead", "GPU-a GPU-b");
  const CliResult result = Run(kSearchOnGpus);
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_THAT(result.err, HasSubstr("too few GPUs are left"));
  EXPECT_THAT(dtrain_.Run({"list"}).out, HasSubstr("PAUSED"));
}

// A program brings its own CUDA; a model uses that of dtrain's LibTorch.
TEST_F(GpuDriverRunTest, OnlyModelsNeedANewDriver) {
  dtrain_.Write("model.yaml",
                "entrypoint: digits:LeNetTrial\n"
                "hyperparameters: {global_batch_size: 64}\n"
                "searcher: {name: single, metric: loss, max_length: 1}\n");
  constexpr const char* kTooOld =
      "is too old for built-in models and model_def.cpp: it supports CUDA ";
  struct Row {
    const char* driver;
    const char* cuda;  // that the driver supports, if that is too old
  };
  for (const Row& row : {Row{"driver=470", "11.4"}, Row{"driver=535", "12.2"},
                         Row{"driver=580", ""}}) {
    SCOPED_TRACE(row.driver);
    const bool is_old = *row.cuda != '\0';
    const auto names_cause = [&](const std::string& text) {
      return text.find(kTooOld + std::string(row.cuda)) != std::string::npos;
    };
    const CliResult program = Run({"create", "train.yaml"}, row.driver);
    EXPECT_EQ(program.code, 0) << program.err;
    EXPECT_THAT(program.err, HasSubstr("NVIDIA Fake"));
    EXPECT_THAT(program.err, Not(HasSubstr("too old")));
    EXPECT_THAT(dtrain_.Run({"logs", "last"}).out, HasSubstr("devices=GPU-a."));
    const CliResult shares =
        Run({"create", "train.yaml", "--set", "resources.slots_per_trial=0.5"},
            row.driver);
    EXPECT_EQ(shares.code, 0) << shares.err;
    const CliResult model =
        Run({"create", "model.yaml", "--dry-run"}, row.driver);
    EXPECT_EQ(model.code == 6, is_old) << model.err;
    EXPECT_EQ(names_cause(model.err), is_old) << model.err;
    if (is_old) {
      EXPECT_THAT(model.err, HasSubstr("dtrain's LibTorch needs CUDA 13"));
      EXPECT_THAT(model.err, HasSubstr("`--slots none` trains on CPUs"));
    }
    const CliResult slots = Run({"slots"}, row.driver);
    EXPECT_THAT(slots.out, HasSubstr("gpu:1"));
    EXPECT_EQ(names_cause(slots.err), is_old) << slots.err;
    EXPECT_EQ(names_cause(Run({"doctor"}, row.driver).out), is_old);
    EXPECT_EQ(names_cause(Run({"doctor"}, row.driver, "").out), false);
  }
}

// Nor does a worker, which offers its GPUs to programs with any driver.
TEST_F(GpuDriverRunTest, WorkersOfferGpusOfAnyDriverToPrograms) {
  for (const std::string driver : {"470", "535", "580"}) {
    const std::string address =
        "127.0.0.1:" +
        std::to_string(GetPort(ListenAt({.host = "127.0.0.1"}).get()));
    const CliResult created =
        dtrain_.Run({"create", "train.yaml", "-d", "--listen", address, "--set",
                     "resources.local=false"});
    ASSERT_EQ(created.code, 0) << created.err;
    const std::string id = created.out.substr(0, created.out.find('\n'));
    const CliResult worker =
        Run({"worker", "--connect", address, "--experiment", id},
            "driver=" + driver);
    EXPECT_EQ(worker.code, 0) << driver << worker.err;
    EXPECT_EQ(dtrain_.Run({"wait", id}).code, 0);
    EXPECT_THAT(dtrain_.Run({"logs", id}).out, HasSubstr("devices=GPU-a."));
  }
}

// Set aside, and tested by a context of CUDA, with whatever driver.
TEST_F(GpuDriverRunTest, SearchSurvivesADeadGpuOfAnOldDriver) {
  dtrain_.Write("dead", "GPU-a");
  const CliResult result = Run(kSearchOnGpus, "driver=470");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out + result.err, HasSubstr("it is set aside"));
}

TEST_F(GpuDriverRunTest, WarnsOfALostGpuAndUsesTheOther) {
  const CliResult result = Run({"create", "train.yaml"}, "lost=0", "1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("GPU 0 (GPU-a) does not answer: GPU is "
                                    "lost"));
  EXPECT_THAT(Run({"slots"}, "lost=0", "1").err, HasSubstr("GPU is lost"));
  EXPECT_THAT(Run({"doctor"}, "lost=0", "1").out, HasSubstr("GPU is lost"));
}

}  // namespace
}  // namespace dtrain
