#include "models/trial_api.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/os/line_reader.h"
#include "engine/os/unique_fd.h"
#include "engine/wire/message.h"
#include "engine/wire/trial_spec.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_directory.h"

// Whole trials in processes of their own, through the door that the trial host
// uses.

namespace dtrain {

namespace {

using testing::HasSubstr;

class RunTrialTest : public testing::Test {
 protected:
  RunTrialTest() {
    spec_.id = {1, 1};
    spec_.entrypoint = "builtin:FaultTrial";
    spec_.directory = directory_.path();
    spec_.until = Length{10};
    spec_.settings.searcher_metric = "loss";
  }

  ~RunTrialTest() override {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  void Start() { StartWith(Encode(spec_)); }

  void StartWith(const std::string& first_line) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::_exit(DtrainRunTrial(ends[1]));
    }
    ::close(ends[1]);
    socket_.reset(ends[0]);
    reader_.emplace(socket_.get());
    ASSERT_TRUE(WriteAll(socket_.get(), first_line));
  }

  void Send(const RunnerMessage& message) {
    ASSERT_TRUE(WriteAll(socket_.get(), Encode(message)));
  }

  // Acknowledges what comes until there is a message of this kind, which it
  // gives; a trial that ends without one gives a default.
  template <typename T>
  T Await() {
    std::int64_t seq = 0;
    while (true) {
      auto line = reader_->Next();
      while (!line && reader_->Fill()) line = reader_->Next();
      if (!line) return T();
      const TrialMessage message = DecodeTrialMessage(*line);
      if (const T* match = std::get_if<T>(&message)) return *match;
      const bool counts = !std::holds_alternative<Ready>(message) &&
                          !std::holds_alternative<Progress>(message);
      if (counts) Send(Acknowledge{++seq});
    }
  }

  // Waits for the process; its exit code, or minus the signal's number.
  int ExitCode() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  TemporaryDirectory directory_;
  TrialSpec spec_;
  pid_t pid_ = 0;
  UniqueFd socket_;
  std::optional<LineReader> reader_;
};

TEST_F(RunTrialTest, TrainsUntilItIsClosed) {
  Start();
  EXPECT_EQ(Await<ValidationReport>().batches, 10);
  const auto uuid = Await<CheckpointSaved>().uuid;
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "checkpoints" / uuid /
                                      "MANIFEST.json"));
  EXPECT_EQ(Await<OperationCompleted>().batches, 10);
  Send(CloseTrial{});
  Send(Acknowledge{100});
  EXPECT_EQ(Await<Finished>().reason, EndReason::kCompleted);
  EXPECT_EQ(ExitCode(), 0);
}

TEST_F(RunTrialTest, StopMessageEndsItWithACheckpoint) {
  spec_.until = Length{1'000'000'000};
  Start();
  (void)Await<TrainingReport>();
  Send(StopTrial{});
  EXPECT_GT(Await<CheckpointSaved>().batches, 0);
  Send(Acknowledge{1'000'000});
  EXPECT_EQ(Await<Finished>().reason, EndReason::kStopped);
  EXPECT_EQ(ExitCode(), 0);
}

TEST_F(RunTrialTest, SigtermIsAStopToo) {
  spec_.until = std::nullopt;
  Start();
  (void)Await<Ready>();
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(Await<Finished>().reason, EndReason::kStopped);
  EXPECT_EQ(ExitCode(), 0);
}

TEST_F(RunTrialTest, CrashSendsNoFinalMessage) {
  spec_.hparams = {{"crash_at", 3}, {"exit_code", 9}};
  Start();
  EXPECT_EQ(Await<CheckpointSaved>().batches, 0);
  EXPECT_EQ(ExitCode(), 9);
}

TEST_F(RunTrialTest, InvalidHyperparametersAreNotAnError) {
  spec_.hparams = {{"invalid_hp_at", 2}};
  Start();
  EXPECT_EQ(Await<Finished>().reason, EndReason::kInvalidHp);
  EXPECT_EQ(ExitCode(), 0);
}

TEST_F(RunTrialTest, UnknownEntrypointSuggestsTheNearest) {
  spec_.entrypoint = "builtin:FaultTrail";
  Start();
  const Finished finished = Await<Finished>();
  EXPECT_EQ(finished.reason, EndReason::kError);
  EXPECT_THAT(finished.message, HasSubstr("no model 'builtin:FaultTrail'"));
  EXPECT_THAT(finished.message, HasSubstr("'builtin:FaultTrial'"));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(RunTrialTest, ReportsAMissingGpu) {
  spec_.gpus = {99};
  Start();
  EXPECT_THAT(Await<Finished>().message, HasSubstr("GPU 99 cannot be used: "));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(RunTrialTest, NamesAMissingGpuByIndexAndUuidWithTheReason) {
  spec_.gpus = {0};
  ::setenv(kGpuNamesVariable, "GPU 3 (GPU-a)", /*replace=*/1);
  Start();
  ::unsetenv(kGpuNamesVariable);
  const std::string message = Await<Finished>().message;
  EXPECT_THAT(message, HasSubstr("GPU 3 (GPU-a) cannot be used: "));
  EXPECT_THAT(message, HasSubstr("CUDA"));
  EXPECT_THAT(message, HasSubstr("; see what nvidia-smi prints, or train with "
                                 "resources.slots: cpu"));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(RunTrialTest, ReportsAnInvalidSpecification) {
  StartWith("hello\n");
  EXPECT_THAT(Await<Finished>().message, HasSubstr("not JSON"));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(RunTrialTest, InvalidSocketGivesAnExitCode) {
  pid_ = ::fork();
  if (pid_ == 0) ::_exit(DtrainRunTrial(/*control_fd=*/12345));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(RunTrialTest, WithoutItsRunnerItCheckpointsAndEnds) {
  spec_.until = Length{1'000'000'000};
  Start();
  (void)Await<TrainingReport>();
  reader_.reset();
  socket_.reset();
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_FALSE(std::filesystem::is_empty(directory_.path() / "checkpoints"));
}

TEST_F(RunTrialTest, WithoutItsRunnerAHangingTrialEndsInTwoSeconds) {
  spec_.hparams = {{"hang_at", 0}, {"ignore_term", true}};
  Start();
  reader_.reset();
  socket_.reset();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ExitCode(), 75);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            Patient(std::chrono::seconds(2)));
}

}  // namespace

}  // namespace dtrain
