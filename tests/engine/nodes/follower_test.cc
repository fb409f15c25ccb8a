#include "engine/nodes/follower.h"

#include <atomic>
#include <thread>

#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/nodes/nodes.h"
#include "tests/engine/nodes/started_follower.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const NodeIdentity kMine{.version = "1", .configuration = "mine"};

FollowerOptions OptionsAt(int port, Duration patience) {
  return {.place = {.rank = 1, .world_size = 2, .runner = {"127.0.0.1", port}},
          .identity = kMine,
          .launcher = {.layout = StoreLayout("")},
          .patience = patience};
}

TEST(FollowerTest, NamesWhereThereIsNoRunner) {
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());

  EXPECT_THAT(
      [&] { Follow(OptionsAt(port, Duration(0))); },
      ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("refused"),
                                 HasSubstr(std::to_string(port)))));
}

TEST(FollowerTest, IsNotDeceivedByWhatIsNoRunner) {
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

TEST(FollowerTest, WaitsForTheRunnerAndSaysWhyItIsRefused) {
  const TemporaryDirectory directory;
  const int port = PortOf(ListenAt({.host = "127.0.0.1"}).get());
  StartedFollower follower(OptionsAt(port, seconds(60)),
                           directory.path() / "said");
  Nodes runner({.place = {.world_size = 2, .runner = {"127.0.0.1", port}},
                .identity = {.version = "1", .configuration = "other"}});

  EXPECT_THROW(runner.Gather(seconds(3)), Error);

  EXPECT_EQ(follower.Wait(), 2);
  EXPECT_THAT(follower.Said(),
              AllOf(HasSubstr("waiting for the runner"),
                    HasSubstr("RANK=1: the runner at 127.0.0.1"),
                    HasSubstr("configuration is another one")));
}

}  // namespace
}  // namespace dtrain
