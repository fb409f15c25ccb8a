#include "engine/nodes/nodes.h"

#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/wire/line_reader.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

const NodeIdentity kRunner{.version = "1", .configuration = "same"};

int FreePort() { return PortOf(ListenAt({.host = "127.0.0.1"}).get()); }

// The runner of two processes, with a clock of the test's.
class NodesTest : public testing::Test {
 protected:
  NodeHello Hello() const {
    return {.rank = 1, .world_size = 2, .identity = kRunner};
  }
  UniqueFd Connect() const { return ConnectTo(place_.runner, seconds(5)); }
  static void Say(const UniqueFd& socket, const std::string& text) {
    ASSERT_TRUE(WriteAll(socket.get(), text));
  }
  // What comes within half a second or so.
  std::vector<NodeEvent> Events() {
    std::vector<NodeEvent> all;
    for (int i = 0; i < 50 && all.empty(); ++i) {
      pollfd entry{.fd = nodes_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 10);
      for (NodeEvent& event : nodes_.Serve()) all.push_back(std::move(event));
    }
    return all;
  }
  // The next line that the runner says, or "" at the end.
  std::string Hear(const UniqueFd& socket) {
    LineReader reader(socket.get());
    for (int i = 0; i < 500; ++i) {
      for (NodeEvent& event : nodes_.Serve()) kept_.push_back(std::move(event));
      if (auto line = reader.Next()) return *line;
      if (!reader.Fill()) return "";
      pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 10);
    }
    return "it says nothing";
  }
  std::string RefusalOf(const NodeHello& hello) {
    const UniqueFd socket = Connect();
    Say(socket, EncodeReport(hello));
    const std::string answer = Hear(socket);
    EXPECT_EQ(Hear(socket), "") << "it stays connected";
    const NodeOrder order = DecodeOrder(answer);
    const auto* refused = std::get_if<NodeRefused>(&order);
    return refused == nullptr ? "it was taken" : refused->reason;
  }
  UniqueFd Joined() {
    UniqueFd socket = Connect();
    Say(socket, EncodeReport(Hello()));
    EXPECT_THAT(Hear(socket), HasSubstr("welcomed"));
    return socket;
  }

  Duration now_{0};
  const NodePlace place_{.world_size = 2, .runner = {"127.0.0.1", FreePort()}};
  std::vector<std::string> notices_;
  std::vector<NodeEvent> kept_;
  Nodes nodes_{{.place = place_,
                .identity = kRunner,
                .clock = {.now = [] { return Timestamp(0); },
                          .monotonic = [this] { return now_; }},
                .notice = [this](const std::string& line) {
                  notices_.push_back(line);
                }}};
};

TEST_F(NodesTest, AFollowerJoins) {
  const UniqueFd socket = Joined();

  EXPECT_TRUE(nodes_.complete());
  EXPECT_THAT(kept_, SizeIs(1));
}

TEST_F(NodesTest, APortInUseNamesTheVariables) {
  EXPECT_THAT([&] { Nodes({.place = place_, .identity = kRunner}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_PORT"),
                                         HasSubstr("Address already in use"))));
}

TEST_F(NodesTest, MoreRanksThanThereMayBeAreRefused) {
  NodeIdentity many = kRunner;
  many.ranks = 100;
  EXPECT_THAT([&] { Nodes({.place = place_, .identity = many}); },
              ThrowsMessage<Error>(HasSubstr("WORLD_SIZE=2: with 100 ranks")));
}

TEST_F(NodesTest, NamesWhoHasNotCome) {
  // The clock of the test stands still, so this is no wait.
  EXPECT_THAT([&] { nodes_.Gather(Duration(0)); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("WORLD_SIZE=2"), HasSubstr("RANK=1"))));
}

TEST_F(NodesTest, RefusesAnotherConfiguration) {
  NodeHello hello = Hello();
  hello.identity.configuration = "other";
  EXPECT_THAT(RefusalOf(hello), HasSubstr("configuration is another one"));
  EXPECT_THAT(notices_, SizeIs(1));
  EXPECT_FALSE(nodes_.complete());
}

TEST_F(NodesTest, RefusesAnotherVersion) {
  NodeHello hello = Hello();
  hello.identity.version = "2";
  EXPECT_THAT(RefusalOf(hello), HasSubstr("it is dtrain 2"));
}

TEST_F(NodesTest, RefusesAnotherWorld) {
  NodeHello hello = Hello();
  hello.world_size = 3;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("its WORLD_SIZE is 3"));
}

TEST_F(NodesTest, RefusesARankThatCannotBe) {
  for (const int rank : {-1, 0, 2}) {
    NodeHello hello = Hello();
    hello.rank = rank;
    EXPECT_THAT(RefusalOf(hello), HasSubstr("no such RANK"));
  }
}

TEST_F(NodesTest, RefusesOtherSlots) {
  NodeHello hello = Hello();
  hello.identity.gpus = true;
  EXPECT_THAT(RefusalOf(hello), HasSubstr("other slots"));
}

TEST_F(NodesTest, RefusesASecondOfTheSameRank) {
  const UniqueFd first = Joined();

  EXPECT_THAT(RefusalOf(Hello()), HasSubstr("another process with that RANK"));
  EXPECT_TRUE(nodes_.complete());
}

TEST_F(NodesTest, TurnsNonsenseAway) {
  const std::string deep =
      R"({"kind":"ended","experiment":1,"trial":1,"exit_code":0,"signal":0,)"
      R"("rank":0,"killed_by_us":false,"out_of_memory":false,"not_started":"",)"
      R"("last_lines":[],"word":)" +
      std::string(400'000, '[') + std::string(400'000, ']') + "}\n";
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n"), std::string("{}\n"),
        std::string("\n"), std::string("{\"kind\":\"alive\"}\n"), deep}) {
    const UniqueFd stranger = Connect();
    Say(stranger, text);
    EXPECT_EQ(Hear(stranger), "") << text.substr(0, 100);
  }
  EXPECT_THAT(kept_, IsEmpty());
}

TEST_F(NodesTest, TurnsAnEndlessLineAway) {
  const UniqueFd stranger = Connect();
  const std::string much(100'000, 'x');
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    open = ::send(stranger.get(), much.data(), much.size(), MSG_NOSIGNAL) > 0 ||
           errno == EAGAIN;
    nodes_.Serve();
  }
  EXPECT_FALSE(open);
}

TEST_F(NodesTest, TurnsTheSilentAwayAfterTenSeconds) {
  const UniqueFd silent = Connect();
  EXPECT_THAT(Events(), IsEmpty());
  now_ = seconds(10);

  EXPECT_EQ(Hear(silent), "");
}

TEST_F(NodesTest, AFollowerThatClosesIsLost) {
  Joined();

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<NodeLost>(events[0]).why,
              HasSubstr("lost the process with RANK=1: it closed"));
  EXPECT_EQ(nodes_.Missing(), "RANK=1");
}

TEST_F(NodesTest, AFollowerThatIsSilentForThirtySecondsIsLost) {
  const UniqueFd socket = Joined();
  now_ = seconds(29);
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_THAT(Hear(socket), HasSubstr("alive"));
  now_ = seconds(30);

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<NodeLost>(events[0]).why, HasSubstr("silent for 30s"));
}

TEST_F(NodesTest, AFollowerThatTalksNonsenseIsLostAndMayComeBack) {
  const UniqueFd socket = Joined();
  Say(socket, "nonsense\n");
  const auto events = Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<NodeLost>(events[0]));

  const UniqueFd again = Joined();

  EXPECT_TRUE(nodes_.complete());
}

TEST_F(NodesTest, WhatAFollowerSaysIsPassedOn) {
  const UniqueFd socket = Joined();
  Say(socket, EncodeReport(Alive{}) + EncodeReport(NodeInterrupted{15}));

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  const auto& said = std::get<NodeSaid>(events[0]);
  EXPECT_EQ(said.node, 1);
  EXPECT_EQ(std::get<NodeInterrupted>(said.report).signal, 15);
}

}  // namespace
}  // namespace dtrain
