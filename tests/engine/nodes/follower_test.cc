#include "engine/nodes/follower.h"

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
#include "tests/engine/nodes/started_follower.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const NodeIdentity kMine{.version = "1", .configuration = "mine"};

class FollowerTest : public testing::Test {
 protected:
  FollowerOptions OptionsAt(int port, Duration patience) const {
    return {.env = {.rank = 1, .world_size = 2, .runner = {"127.0.0.1", port}},
            .identity = kMine,
            .secret = secret_,
            .roots = {layout_.root()},
            .launcher = {.layout = layout_},
            .patience = patience};
  }
  std::string Output() const { return directory_.path() / "said"; }
  // Serves the runner until the follower has ended, and returns its exit code.
  static int EndOf(StartedFollower& follower, Nodes& runner) {
    std::future<int> end =
        std::async(std::launch::async, [&] { return follower.Wait(); });
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

TEST_F(FollowerTest, NamesTheAddressWithoutARunner) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());

  EXPECT_THAT(
      [&] { Follow(OptionsAt(port, Duration(0))); },
      ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("refused"),
                                 HasSubstr(std::to_string(port)))));
}

TEST_F(FollowerTest, RefusesAPeerThatIsNotARunner) {
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

  EXPECT_THAT([&] { Follow(OptionsAt(PortOf(listener.get()), Duration(0))); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no runner answered"),
                                         HasSubstr("lost the runner"))));
  quit = true;
}

TEST_F(FollowerTest, WaitsForTheRunnerAndReportsTheRefusal) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  StartedFollower follower(OptionsAt(port, std::chrono::minutes(2)), Output());
  Nodes runner({.env = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = {.version = "1", .configuration = "other"},
                .secret = secret_});

  EXPECT_EQ(EndOf(follower, runner), 2);
  EXPECT_FALSE(runner.complete());
  EXPECT_THAT(follower.Said(),
              AllOf(HasSubstr("waiting for the runner"),
                    HasSubstr("RANK=1: the runner at 127.0.0.1"),
                    HasSubstr("configuration differs")));
}

TEST_F(FollowerTest, NamesAMissingSecret) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  FollowerOptions options =
      OptionsAt(PortOf(listener.get()), std::chrono::minutes(2));
  options.secret_patience = Duration(0);

  EXPECT_THAT([&] { Follow(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr(secret_.Name()),
                                         HasSubstr("--store"),
                                         HasSubstr("DTRAIN_SECRET_FILE"))));
}

// A file system may show late what the runner has written.
TEST_F(FollowerTest, WaitsForASecretThatComesLate) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  Nodes runner({.env = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = {.version = "1", .configuration = "other"},
                .secret = secret_});
  const fs::path late = directory_.path() / "late";
  fs::rename(layout_.Secret(), late);
  StartedFollower follower(OptionsAt(port, seconds(60)), Output());
  while (follower.Said().find("there is no ") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs::rename(late, layout_.Secret());

  EXPECT_EQ(EndOf(follower, runner), 2);
  EXPECT_THAT(follower.Said(), HasSubstr("configuration differs"));
}

TEST_F(FollowerTest, NamesADifferentSecret) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  secret_.ReadOrMake();
  StartedFollower follower(OptionsAt(port, std::chrono::minutes(2)), Output());
  Nodes runner({.env = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = kMine,
                .secret = SecretFile(StoreLayout(directory_.path() / "b"))});

  EXPECT_EQ(EndOf(follower, runner), 2);
  EXPECT_FALSE(runner.complete());
  EXPECT_THAT(follower.Said(), AllOf(HasSubstr("a different secret from"),
                                     HasSubstr(secret_.Name())));
}

// An impostor on the port knows the follower's first message but not the
// secret.
TEST_F(FollowerTest, ObeysOnlyAnAuthenticatedRunner) {
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

  EXPECT_THAT([&] { Follow(OptionsAt(PortOf(listener.get()), Duration(0))); },
              ThrowsMessage<Error>(HasSubstr("is not a dtrain runner")));
  quit = true;
}

TEST(FollowerNoticeTest, NamesAGpuThatIsSetAsideOrUsedAgain) {
  TrialExited exited{.exit_code = 1};
  EXPECT_EQ(NoticeOf(exited), "");
  exited.gpu_fault = {.gpus = "GPU 0 (GPU-a)", .reason = "ECC error"};
  EXPECT_EQ(NoticeOf(exited),
            "warning: GPU 0 (GPU-a): ECC error; it is set aside, and tested "
            "again every minute");
  exited.gpu_fault->set_aside = false;  // a fault of another trial under MPS
  EXPECT_EQ(NoticeOf(exited), "");
  EXPECT_EQ(NoticeOf(GpuRestored{"GPU 0 (GPU-a)"}),
            "GPU 0 (GPU-a) passed a test and is used again");
}

class ObjectionTest : public FollowerTest {
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

TEST_F(ObjectionTest, AcceptsOnlyDistributedTraining) {
  TrialSpec spec = Spec();
  spec.command = {"sh", "-c", "evil"};
  EXPECT_THAT(Objection(spec), HasSubstr("something other than training"));
  spec = Spec();
  spec.task = Task::kPredict;
  EXPECT_THAT(Objection(spec), HasSubstr("something other than training"));
  spec = Spec();
  spec.address.reset();
  EXPECT_THAT(Objection(spec), HasSubstr("something other than training"));
}

}  // namespace
}  // namespace dtrain
