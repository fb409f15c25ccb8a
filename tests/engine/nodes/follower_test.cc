#include "engine/nodes/follower.h"

#include <atomic>
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
    return {
        .place = {.rank = 1, .world_size = 2, .runner = {"127.0.0.1", port}},
        .identity = kMine,
        .secret = secret_,
        .launcher = {.layout = layout_},
        .patience = patience};
  }
  std::string Output() const { return directory_.path() / "said"; }

  const TemporaryDirectory directory_;
  const StoreLayout layout_{directory_.path() / "store"};
  const SecretFile secret_{layout_};
};

TEST_F(FollowerTest, NamesWhereThereIsNoRunner) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());

  EXPECT_THAT(
      [&] { Follow(OptionsAt(port, Duration(0))); },
      ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("refused"),
                                 HasSubstr(std::to_string(port)))));
}

TEST_F(FollowerTest, IsNotDeceivedByWhatIsNoRunner) {
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
              ThrowsMessage<Error>(AllOf(HasSubstr("no runner was there"),
                                         HasSubstr("lost the runner"))));
  quit = true;
}

TEST_F(FollowerTest, WaitsForTheRunnerAndSaysWhyItIsRefused) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  StartedFollower follower(OptionsAt(port, seconds(60)), Output());
  Nodes runner({.place = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = {.version = "1", .configuration = "other"},
                .secret = secret_});

  EXPECT_THROW(runner.Gather(seconds(3)), Error);

  EXPECT_EQ(follower.Wait(), 2);
  EXPECT_THAT(follower.Said(),
              AllOf(HasSubstr("waiting for the runner"),
                    HasSubstr("RANK=1: the runner at 127.0.0.1"),
                    HasSubstr("configuration is another one")));
}

TEST_F(FollowerTest, NamesASecretThatIsMissing) {
  const UniqueFd listener = ListenAt({.host = "127.0.0.1"});
  FollowerOptions options = OptionsAt(PortOf(listener.get()), seconds(60));
  options.secret_patience = Duration(0);

  EXPECT_THAT([&] { Follow(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr(secret_.Name()),
                                         HasSubstr("--store"),
                                         HasSubstr("DTRAIN_SECRET_FILE"))));
}

TEST_F(FollowerTest, NamesASecretThatIsAnother) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  secret_.ReadOrMake();
  StartedFollower follower(OptionsAt(port, seconds(60)), Output());
  Nodes runner({.place = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = kMine,
                .secret = SecretFile(StoreLayout(directory_.path() / "b"))});

  EXPECT_THROW(runner.Gather(seconds(6)), Error);

  EXPECT_EQ(follower.Wait(), 2);
  EXPECT_THAT(follower.Said(), AllOf(HasSubstr("another secret than"),
                                     HasSubstr(secret_.Name())));
}

// Who holds the port and knows no secret, but what the follower says first.
TEST_F(FollowerTest, ObeysNobodyWhoDoesNotProveThatHeIsTheRunner) {
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
        const std::string order = EncodeOrder(StartPart{});
        ::send(guest.get(), order.data(), order.size(), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });

  EXPECT_THAT([&] { Follow(OptionsAt(PortOf(listener.get()), Duration(0))); },
              ThrowsMessage<Error>(HasSubstr("is no runner of dtrain")));
  quit = true;
}

}  // namespace
}  // namespace dtrain
