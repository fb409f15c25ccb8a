#include "engine/nodes/remote_trials.h"

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/nodes/nodes.h"
#include "tests/engine/nodes/started_worker.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

RankClaim Claim(const std::string& configuration, int rank = 0) {
  return {.rank = rank, .world_size = 2, .configuration = configuration};
}

// Joins as RANK=1 of two.

class RankTest : public testing::Test {
 protected:
  WorkerOptions OptionsAt(int port, Duration patience) const {
    return {.runner = {"127.0.0.1", port},
            .secret = secret_,
            .version = "1",
            .claim = Claim("mine", /*rank=*/1),
            .roots = {layout_.root()},
            .patience = patience};
  }
  static Nodes::Options RunnerAt(int port, const std::string& configuration,
                                 const SecretFile& secret) {
    return {.place = {"127.0.0.1", port},
            .version = "1",
            .secret = secret,
            .claim = Claim(configuration)};
  }
  std::string Output() const { return directory_.path() / "said"; }
  // Serves the runner until the worker has ended, and returns its exit code.
  static int AwaitExitCode(StartedWorker& worker, Nodes& runner) {
    std::future<int> end =
        std::async(std::launch::async, [&] { return worker.Wait(); });
    while (end.wait_for(std::chrono::milliseconds(10)) !=
           std::future_status::ready) {
      runner.Serve();
    }
    return end.get();
  }
  fs::path MakeDirectory(const fs::path& path) const {
    fs::create_directories(path);
    return path;
  }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
  const SecretFile secret_{layout_};
};

TEST_F(RankTest, NamesTheAddressWithoutARunner) {
  const int port = GetPort(ListenAt({.host = "127.0.0.1"}).get());

  EXPECT_THAT(
      [&] { Work(OptionsAt(port, Duration(0))); },
      ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("refused"),
                                 HasSubstr(std::to_string(port)))));
}

TEST_F(RankTest, RefusesAPeerThatIsNotARunner) {
  secret_.ReadOrMake();
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  std::atomic<bool> quit = false;
  std::jthread server([&] {
    while (!quit) {
      const UniqueFd guest = AcceptFrom(listener.get());
      if (guest) ::send(guest.get(), "220 mail ready\r\n", 16, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });

  EXPECT_THAT([&] { Work(OptionsAt(GetPort(listener.get()), Duration(0))); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no runner answered"),
                                         HasSubstr("lost the runner"))));
  quit = true;
}

TEST_F(RankTest, WaitsForTheRunnerAndReportsTheRefusal) {
  const int port = GetPort(ListenAt({.host = "127.0.0.1"}).get());
  StartedWorker worker(OptionsAt(port, std::chrono::minutes(2)), Output());
  Nodes runner(RunnerAt(port, "other", secret_));

  EXPECT_EQ(AwaitExitCode(worker, runner), 2);
  EXPECT_FALSE(runner.AbsentRanks().empty());
  EXPECT_THAT(worker.Output(),
              AllOf(HasSubstr("waiting for the runner"),
                    HasSubstr("RANK=1: the runner at 127.0.0.1"),
                    HasSubstr("configuration differs")));
}

TEST_F(RankTest, NamesAMissingSecret) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  WorkerOptions options =
      OptionsAt(GetPort(listener.get()), std::chrono::minutes(2));
  options.secret_patience = Duration(0);

  EXPECT_THAT([&] { Work(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr(secret_.Name()),
                                         HasSubstr("--store"),
                                         HasSubstr("DTRAIN_SECRET_FILE"))));
}

// A file system may show late what the runner has written.
TEST_F(RankTest, WaitsForASecretThatComesLate) {
  const int port = GetPort(ListenAt({.host = "127.0.0.1"}).get());
  Nodes runner(RunnerAt(port, "other", secret_));
  const fs::path late = directory_.path() / "late";
  fs::rename(layout_.Secret(), late);
  StartedWorker worker(OptionsAt(port, std::chrono::minutes(2)), Output());
  while (worker.Output().find("there is no ") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs::rename(late, layout_.Secret());

  EXPECT_EQ(AwaitExitCode(worker, runner), 2);
  EXPECT_THAT(worker.Output(), HasSubstr("configuration differs"));
}

TEST_F(RankTest, NamesADifferentSecret) {
  const int port = GetPort(ListenAt({.host = "127.0.0.1"}).get());
  secret_.ReadOrMake();
  StartedWorker worker(OptionsAt(port, std::chrono::minutes(2)), Output());
  Nodes runner(
      RunnerAt(port, "mine", SecretFile(StoreLayout(directory_.path() / "b"))));

  EXPECT_EQ(AwaitExitCode(worker, runner), 2);
  EXPECT_FALSE(runner.AbsentRanks().empty());
  EXPECT_THAT(worker.Output(), AllOf(HasSubstr("a different secret from"),
                                     HasSubstr(secret_.Name())));
}

// An impostor on the port knows the worker's first message but not the
// secret.
TEST_F(RankTest, ObeysOnlyAnAuthenticatedRunner) {
  secret_.ReadOrMake();
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  std::atomic<bool> quit = false;
  std::jthread impostor([&] {
    while (!quit) {
      const UniqueFd guest = AcceptFrom(listener.get());
      std::string said(64, 'x');
      if (guest) {
        pollfd entry{.fd = guest.get(), .events = POLLIN, .revents = 0};
        ::poll(&entry, 1, 1000);
        ::send(guest.get(), said.data(), said.size(), MSG_NOSIGNAL);
        const std::string order = EncodeOrder(StartShard{});
        ::send(guest.get(), order.data(), order.size(), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });

  EXPECT_THAT([&] { Work(OptionsAt(GetPort(listener.get()), Duration(0))); },
              ThrowsMessage<Error>(HasSubstr("is not a dtrain runner")));
  quit = true;
}

TEST(WorkerNoticeTest, NamesAGpuThatIsSetAsideOrUsedAgain) {
  TrialExited exited{.exit_code = 1};
  EXPECT_EQ(FormatNotice(exited), "");
  exited.gpu_fault = {.gpus = "GPU 0 (GPU-a)", .reason = "ECC error"};
  EXPECT_EQ(FormatNotice(exited),
            "warning: GPU 0 (GPU-a): ECC error; it is set aside, and tested "
            "again every minute");
  exited.gpu_fault->set_aside = false;  // a fault of another trial under MPS
  EXPECT_EQ(FormatNotice(exited), "");
  EXPECT_EQ(FormatNotice(GpuRestored{"GPU 0 (GPU-a)"}),
            "GPU 0 (GPU-a) passed a test and is used again");
}

class ObjectionTest : public RankTest {
 protected:
  TrialSpec Spec() const {
    TrialSpec spec{.id = {.experiment = 1, .number = 1}};
    spec.address = RankAddress{.host = "a", .port = 1, .token = "t"};
    spec.directory = layout_.Trial(spec.id).string();
    return spec;
  }
  std::string Objection(const TrialSpec& spec) const {
    return ObjectionTo(spec, {layout_.root(), Cache()});
  }
  fs::path Cache() const { return directory_.path() / "cache"; }
};

TEST_F(ObjectionTest, AcceptsPathsInTheStoreAndTheCache) {
  TrialSpec spec = Spec();
  spec.restore = "0e5b7e1c-0000-4000-8000-000000000000";
  spec.library = Cache() / "abc/model.so";
  spec.warm_start = layout_.Source(1, "x");

  EXPECT_EQ(Objection(spec), "");
  // Whether it is there already or not.
  MakeDirectory(spec.directory);
  MakeDirectory(Cache());
  EXPECT_EQ(Objection(spec), "");
}

TEST_F(ObjectionTest, RefusesPathsElsewhere) {
  const auto expect_refused = [&](const std::function<void(TrialSpec&)>& change,
                                  const std::string& what) {
    TrialSpec spec = Spec();
    change(spec);
    EXPECT_THAT(Objection(spec), AllOf(HasSubstr(what), HasSubstr("is outside"),
                                       HasSubstr(layout_.root().string())));
  };
  expect_refused([](TrialSpec& spec) { spec.library = "/tmp/evil.so"; },
                 "the model, /tmp/evil.so");
  expect_refused([](TrialSpec& spec) { spec.library = "evil.so"; },
                 "the model");
  expect_refused([&](TrialSpec& spec) { spec.library = Cache(); }, "the model");
  expect_refused(
      [&](TrialSpec& spec) { spec.library = Cache() / "../evil.so"; },
      "the model");
  expect_refused(
      [&](TrialSpec& spec) { spec.library = Cache().string() + "x/evil.so"; },
      "the model");
  expect_refused([](TrialSpec& spec) { spec.directory = ""; },
                 "the directory of the trial");
  expect_refused([](TrialSpec& spec) { spec.directory = "/"; },
                 "the directory of the trial");
  expect_refused(
      [](TrialSpec& spec) { spec.restore = "../../../../../../etc"; },
      "the checkpoint");
  expect_refused([](TrialSpec& spec) { spec.checkpoints = "/etc"; },
                 "the directory of checkpoints");
  expect_refused([](TrialSpec& spec) { spec.warm_start = "/etc"; },
                 "the checkpoint to start from");
}

TEST_F(ObjectionTest, ResolvesLinks) {
  const fs::path evil = MakeDirectory(directory_.path() / "evil");
  MakeDirectory(layout_.root());
  fs::create_symlink(evil, layout_.root() / "link");
  TrialSpec spec = Spec();
  spec.library = layout_.root() / "link/evil.so";
  EXPECT_THAT(Objection(spec), HasSubstr("is outside"));

  // A store that is known by a link is the same store.
  fs::create_symlink(layout_.root(), directory_.path() / "linked");
  spec = Spec();
  spec.library = directory_.path() / "linked/model.so";
  EXPECT_EQ(Objection(spec), "");
}

TEST_F(ObjectionTest, AcceptsOnlyTraining) {
  TrialSpec spec = Spec();
  spec.command = {"sh", "-c", "evil"};
  EXPECT_THAT(Objection(spec), HasSubstr("something other than training"));
  spec = Spec();
  spec.task = Task::kPredict;
  EXPECT_THAT(Objection(spec), HasSubstr("something other than training"));
  spec = Spec();
  spec.address.reset();
  EXPECT_EQ(Objection(spec), "");
}

}  // namespace
}  // namespace dtrain
