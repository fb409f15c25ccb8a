#include "engine/nodes/nodes.h"

#include <functional>

#include <poll.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/os/line_reader.h"
#include "tests/support/temporary_directory.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

const RankClaim kClaim{.world_size = 2, .configuration = "same"};

int FreePort() { return GetPort(ListenAt({.host = "127.0.0.1"}).get()); }

// A worker's end of a connection.
struct Guest {
  UniqueFd socket;
  std::optional<PeerSession> session;  // once it is taken
};

// The runner of a fixed set of two processes, with a clock of the test's.
class NodesTest : public testing::Test {
 protected:
  static WorkerHello Hello() {
    WorkerHello hello{
        .version = "1", .host = "b", .name = "b", .claim = kClaim};
    hello.claim->rank = 1;
    return hello;
  }
  // A runner at the same place.
  Nodes::Options OptionsWith(RankClaim claim) const {
    return {.place = place_,
            .version = "1",
            .secret = secret_,
            .claim = std::move(claim)};
  }
  bool complete() const { return nodes_.AbsentRanks().empty(); }
  UniqueFd Connect() const { return ConnectTo(place_, seconds(5)); }
  static void Send(const UniqueFd& socket, const std::string& text) {
    ASSERT_TRUE(WriteAll(socket.get(), text));
  }
  static void Send(Guest& guest, const std::string& line) {
    Send(guest.socket,
         guest.session->Seal(line.substr(0, line.size() - 1)) + "\n");
  }
  // Waits for the next events.
  std::vector<NodeEvent> Events(int tries = 6000) {
    std::vector<NodeEvent> all;
    for (int i = 0; i < tries && all.empty(); ++i) {
      pollfd entry{.fd = nodes_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 10);
      for (NodeEvent& event : nodes_.Serve()) all.push_back(std::move(event));
    }
    return all;
  }
  void Serve() {
    for (NodeEvent& event : nodes_.Serve()) kept_.push_back(std::move(event));
  }
  // The next line that the runner says, or "" at the end.
  std::string Receive(const UniqueFd& socket) {
    LineReader reader(socket.get());
    for (int i = 0; i < 6000; ++i) {
      Serve();
      if (auto line = reader.Next()) return *line;
      if (!reader.Fill()) return "";
      pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 10);
    }
    return "it says nothing";
  }
  std::string Receive(Guest& guest) {
    const std::string line = Receive(guest.socket);
    return line.empty() ? line : guest.session->Open(line);
  }
  // Connects and proves itself with that secret, if it can.
  Guest Come(const std::string& claim, const std::string& secret) {
    Guest guest{.socket = Connect()};
    PeerProof proof(
        PeerProof::Side::kConnects,
        {.secret = secret, .purpose = kWorkersPurpose, .claim = claim});
    for (int i = 0; i < 60'000; ++i) {
      Serve();
      const auto state = proof.Advance(guest.socket.get());
      if (state == PeerProof::State::kProved) guest.session = proof.Session();
      if (state != PeerProof::State::kWaiting) break;
      ::poll(nullptr, 0, 1);
    }
    return guest;
  }
  std::string RefusalText(const WorkerHello& hello) {
    Guest guest = Come(EncodeReport(hello), nodes_.secret());
    if (!guest.session) return "it was not accepted";
    const std::string answer = Receive(guest);
    EXPECT_EQ(Receive(guest), "") << "it stays connected";
    const NodeOrder order = DecodeOrder(answer);
    const auto* refused = std::get_if<NodeRefused>(&order);
    return refused == nullptr ? "it was taken" : refused->reason;
  }
  Guest Joined() {
    Guest guest = Come(EncodeReport(Hello()), nodes_.secret());
    EXPECT_TRUE(guest.session);
    if (guest.session) {
      EXPECT_THAT(Receive(guest), HasSubstr("accepted"));
    }
    return guest;
  }

  Duration now_{0};
  const TemporaryDirectory directory_;
  const HostPort place_{"127.0.0.1", FreePort()};
  const SecretFile secret_{StoreLayout(directory_.path() / "store")};
  std::vector<std::string> notices_;
  std::vector<NodeEvent> kept_;
  Nodes nodes_{{.place = place_,
                .version = "1",
                .secret = secret_,
                .claim = kClaim,
                .clock = {.now = [] { return Timestamp(0); },
                          .monotonic = [this] { return now_; }},
                .notice = [this](const std::string& line) {
                  notices_.push_back(line);
                }}};
};

TEST_F(NodesTest, WorkerIsReadyOnceItHasTheTask) {
  Guest guest = Joined();
  EXPECT_TRUE(complete());
  EXPECT_THAT(kept_, IsEmpty());
  EXPECT_EQ(nodes_.Capacity(1), 0);

  nodes_.SetTask({.experiment = 3});
  EXPECT_THAT(Receive(guest), HasSubstr(R"("experiment":3)"));
  Send(guest, EncodeReport(WorkerReady{.slots = 2}));

  const auto events = Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(std::get<NodeJoined>(events[0]).node, 1);
  EXPECT_EQ(nodes_.Capacity(1), 2);
}

TEST_F(NodesTest, APortInUseNamesTheVariables) {
  EXPECT_THAT([&] { Nodes(OptionsWith(kClaim)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("MASTER_PORT"),
                                         HasSubstr("Address already in use"))));
}

TEST_F(NodesTest, RefusesTooManyRanks) {
  RankClaim many = kClaim;
  many.ranks = 100;
  EXPECT_THAT([&] { Nodes(OptionsWith(many)); },
              ThrowsMessage<Error>(HasSubstr("WORLD_SIZE=2: with 100 ranks")));
}

TEST_F(NodesTest, NamesMissingMachines) {
  // The clock of the test stands still, so this does not wait.
  EXPECT_THAT([&] { nodes_.AwaitRanks(Duration(0)); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("WORLD_SIZE=2"), HasSubstr("RANK=1"))));
}

TEST_F(NodesTest, RefusesWhatWasStartedForSomethingElse) {
  struct Case {
    std::string why;
    std::function<void(WorkerHello&)> change;
  };
  const auto ranked = [](int rank) {
    return [rank](WorkerHello& hello) { hello.claim->rank = rank; };
  };
  const std::vector<Case> cases = {
      {"its dtrain is version 2", [](auto& it) { it.version = "2"; }},
      {"it has no RANK", [](auto& it) { it.claim.reset(); }},
      {"its WORLD_SIZE is 3", [](auto& it) { it.claim->world_size = 3; }},
      {"its RANK is not between", ranked(-1)},
      {"its RANK is not between", ranked(0)},
      {"its RANK is not between", ranked(2)},
      {"configuration differs",
       [](auto& it) { it.claim->configuration = "other"; }},
      {"its slots for a trial differ", [](auto& it) { it.claim->ranks = 2; }},
      {"its slots for a trial differ", [](auto& it) { it.claim->gpus = true; }},
  };
  for (const Case& one : cases) {
    WorkerHello hello = Hello();
    one.change(hello);
    EXPECT_THAT(RefusalText(hello), HasSubstr(one.why));
  }
  EXPECT_THAT(notices_, SizeIs(cases.size()));
  EXPECT_THAT(notices_.back(), HasSubstr("RANK=1 was rejected: "));
  EXPECT_FALSE(complete());
}

TEST_F(NodesTest, RefusesADuplicateRank) {
  const Guest first = Joined();

  EXPECT_THAT(RefusalText(Hello()),
              HasSubstr("another process has the same RANK"));
  EXPECT_TRUE(complete());
}

TEST_F(NodesTest, DisconnectsInvalidPeersWithoutAReply) {
  const std::string hello = EncodeReport(Hello());
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n"), std::string("{}\n"),
        std::string("\n"), hello, std::string(5000, 'd')}) {
    const UniqueFd peer = Connect();
    Send(peer, text);
    EXPECT_EQ(Receive(peer), "") << text.substr(0, 100);
  }
  EXPECT_THAT(kept_, IsEmpty());
}

TEST_F(NodesTest, RefusesAnotherSecret) {
  const Guest guest = Come(EncodeReport(Hello()), std::string(32, 'x'));

  EXPECT_FALSE(guest.session);
  EXPECT_FALSE(complete());
}

TEST_F(NodesTest, RefusesAnAuthenticatedPeerWithInvalidClaims) {
  const std::string deep = R"({"type":"ended","trial":)" +
                           std::string(1500, '[') + std::string(1500, ']') +
                           "}\n";
  for (const std::string& claim : {std::string(), std::string("nonsense"), deep,
                                   EncodeReport(WorkerDraining{"", 15})}) {
    EXPECT_FALSE(Come(claim, nodes_.secret()).session) << claim;
  }
  EXPECT_THAT(kept_, IsEmpty());
}

TEST_F(NodesTest, LogsUnknownPeersOnceAMinute) {
  const auto come = [&] {
    const UniqueFd peer = Connect();
    Send(peer, "nonsense");
    EXPECT_EQ(Receive(peer), "");
  };
  come();
  come();
  come();
  ASSERT_THAT(notices_, SizeIs(1));
  EXPECT_THAT(notices_[0],
              AllOf(HasSubstr("rejected 1 connection "),
                    HasSubstr(secret_.Name()), HasSubstr("127.0.0.1")));
  now_ = seconds(60);
  come();
  ASSERT_THAT(notices_, SizeIs(2));
  EXPECT_THAT(notices_[1], HasSubstr("rejected 3 connections"));
}

TEST_F(NodesTest, ForgedMessageDisconnectsTheWorker) {
  const Guest guest = Joined();
  Send(guest.socket, EncodeReport(WorkerDraining{"", 15}));

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<NodeLost>(events[0]).why,
              HasSubstr("sent by another process"));
}

TEST_F(NodesTest, ImpossibleSignalDisconnectsTheWorker) {
  for (const int signal : {-5, 9, 99}) {
    Guest guest = Joined();
    Send(guest, EncodeReport(WorkerDraining{"", signal}));

    const auto events = Events();

    ASSERT_THAT(events, SizeIs(1)) << signal;
    EXPECT_TRUE(std::holds_alternative<NodeLost>(events[0])) << signal;
  }
}

TEST_F(NodesTest, DisconnectsSilentPeersAfterTenSeconds) {
  const UniqueFd silent = Connect();
  EXPECT_THAT(Events(/*tries=*/50), IsEmpty());
  now_ = seconds(10);

  EXPECT_EQ(Receive(silent), "");
}

TEST_F(NodesTest, DetectsAWorkerThatDisconnects) {
  Joined();

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<NodeLost>(events[0]).why,
              HasSubstr("lost RANK=1 on b: it closed"));
  EXPECT_EQ(nodes_.AbsentRanks(), "RANK=1");
}

TEST_F(NodesTest, WorkerIsLostAfterThirtySilentSeconds) {
  Guest guest = Joined();
  now_ = seconds(29);
  EXPECT_THAT(Events(/*tries=*/50), IsEmpty());
  EXPECT_THAT(Receive(guest), HasSubstr("alive"));
  now_ = seconds(30);

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(std::get<NodeLost>(events[0]).why, HasSubstr("silent for 30s"));
}

TEST_F(NodesTest, InvalidMessageDisconnectsTheWorkerWhichMayReconnect) {
  Guest guest = Joined();
  Send(guest, "nonsense\n");
  const auto events = Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<NodeLost>(events[0]));

  const Guest again = Joined();

  EXPECT_TRUE(complete());
}

TEST_F(NodesTest, ForwardsMessagesOfAWorker) {
  Guest guest = Joined();
  Send(guest, EncodeReport(Alive{}));
  Send(guest, EncodeReport(WorkerDraining{"", 15}));

  const auto events = Events();

  ASSERT_THAT(events, SizeIs(1));
  const auto& said = std::get<NodeReported>(events[0]);
  EXPECT_EQ(said.node, 1);
  EXPECT_EQ(std::get<WorkerDraining>(said.report).signal, 15);
}

// The first has no connection if it is on the runner's machine.
TEST(AddressOfFirstTest, IsThatOfItsConnection) {
  const ConnectionEnds runner;
  const ConnectionEnds local{.mine = "127.0.0.1", .peer = "127.0.0.1"};
  const ConnectionEnds other{.mine = "10.0.0.1", .peer = "10.0.0.7"};

  EXPECT_EQ(AddressOfFirst({other, local}), "10.0.0.7");
  EXPECT_EQ(AddressOfFirst({local, other}), "10.0.0.1");
  EXPECT_EQ(AddressOfFirst({runner, local, other}), "10.0.0.1");
  EXPECT_EQ(AddressOfFirst({local, runner}), "127.0.0.1");
}

}  // namespace
}  // namespace dtrain
