#include "engine/ranks/peer_proof.h"

#include <sys/socket.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "engine/base/error.h"
#include "engine/os/socket.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;
using Side = PeerProof::Side;
using State = PeerProof::State;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
// First bytes of the side that connects.
constexpr std::string_view kMagic("dtrain\0\1", 8);

UniqueFd Socket() {
  return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

struct Ends {
  UniqueFd left;
  UniqueFd right;
};

Ends MakeEnds() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void Send(const UniqueFd& socket, std::string_view bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// All that has come.
std::string Receive(const UniqueFd& socket) {
  std::string bytes(10'000, '\0');
  const ssize_t count =
      ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

class PeerProofTest : public testing::Test {
 protected:
  static PeerProof Make(Side side, const std::string& secret = kSecret,
                        const std::string& purpose = "test") {
    return PeerProof(side,
                     {.secret = secret,
                      .purpose = purpose,
                      .claim = side == Side::kConnects ? "I am number 5" : ""});
  }
  // Both take turns until nothing changes; gives the states of both.
  std::pair<State, State> Talk(PeerProof& connects, PeerProof& listens) const {
    State left = State::kWaiting;
    State right = State::kWaiting;
    for (int i = 0; i < 4; ++i) {
      if (left == State::kWaiting) left = connects.Advance(ends_.left.get());
      if (right == State::kWaiting) {
        right = listens.Advance(ends_.right.get());
        if (right == State::kProved) {
          EXPECT_TRUE(listens.Welcome(ends_.right.get()));
        }
      }
    }
    return {left, right};
  }

  Ends ends_ = MakeEnds();
};

TEST_F(PeerProofTest, PeersWithTheSameSecretAuthenticate) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof listens = Make(Side::kListens);

  EXPECT_EQ(Talk(connects, listens), std::pair(State::kProved, State::kProved));
  EXPECT_EQ(listens.claim(), "I am number 5");
}

TEST_F(PeerProofTest, SecretIsNotSent) {
  PeerProof connects = Make(Side::kConnects);
  connects.Advance(ends_.left.get());

  EXPECT_THAT(Receive(ends_.right), SizeIs(40));
}

TEST_F(PeerProofTest, RefusesAnotherSecretAndSendsNoClaim) {
  PeerProof connects = Make(Side::kConnects, std::string(32, 'x'));
  PeerProof listens = Make(Side::kListens);

  EXPECT_EQ(Talk(connects, listens),
            std::pair(State::kRefused, State::kWaiting));
  EXPECT_THAT(Receive(ends_.right), IsEmpty());
}

TEST_F(PeerProofTest, RefusesAProofForAnotherPurpose) {
  PeerProof connects = Make(Side::kConnects, kSecret, "other");
  PeerProof listens = Make(Side::kListens);

  EXPECT_EQ(Talk(connects, listens).first, State::kRefused);
}

// An attacker without the secret echoes what it receives.
TEST_F(PeerProofTest, RefusesAReflectedProof) {
  PeerProof listens = Make(Side::kListens);
  Send(ends_.left, kMagic);
  Send(ends_.left, std::string(32, 'n'));
  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kWaiting);
  const std::string answer = Receive(ends_.left);
  ASSERT_THAT(answer, SizeIs(64));

  Send(ends_.left, std::string(2, '\0') + answer.substr(32));

  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kRefused);
}

TEST_F(PeerProofTest, RefusesAReflectionOfTheClient) {
  PeerProof connects = Make(Side::kConnects);
  connects.Advance(ends_.left.get());
  const std::string greeting = Receive(ends_.right);

  Send(ends_.right, greeting.substr(8) + greeting.substr(8));

  EXPECT_EQ(connects.Advance(ends_.left.get()), State::kRefused);
}

TEST_F(PeerProofTest, RefusesAReplayedProof) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof first = Make(Side::kListens);
  connects.Advance(ends_.left.get());
  const std::string greeting = Receive(ends_.right);
  Ends relay = MakeEnds();
  Send(relay.left, greeting);
  first.Advance(relay.right.get());
  Send(ends_.right, Receive(relay.left));
  connects.Advance(ends_.left.get());
  const std::string claim = Receive(ends_.right);
  Send(relay.left, claim);
  ASSERT_EQ(first.Advance(relay.right.get()), State::kProved);

  PeerProof second = Make(Side::kListens);
  Ends again = MakeEnds();
  Send(again.left, greeting + claim);

  EXPECT_EQ(second.Advance(again.right.get()), State::kRefused);
}

TEST_F(PeerProofTest, RefusesAModifiedClaim) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof listens = Make(Side::kListens);
  Ends relay = MakeEnds();
  connects.Advance(ends_.left.get());
  Send(relay.left, Receive(ends_.right));
  listens.Advance(relay.right.get());
  Send(ends_.right, Receive(relay.left));
  connects.Advance(ends_.left.get());
  std::string claim = Receive(ends_.right);
  claim.replace(claim.find('5'), 1, "6");
  Send(relay.left, claim);

  EXPECT_EQ(listens.Advance(relay.right.get()), State::kRefused);
}

TEST_F(PeerProofTest, RefusesATruncatedProof) {
  PeerProof listens = Make(Side::kListens);
  Send(ends_.left, kMagic.substr(0, 5));
  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kWaiting);
  ends_.left.reset();

  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kClosed);
  EXPECT_TRUE(listens.has_received());
}

TEST_F(PeerProofTest, AcceptsSingleBytes) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof listens = Make(Side::kListens);
  Ends relay = MakeEnds();
  State state = State::kWaiting;
  for (int turn = 0; turn < 2; ++turn) {
    connects.Advance(ends_.left.get());
    for (const char byte : Receive(ends_.right)) {
      Send(relay.left, {&byte, 1});
      state = listens.Advance(relay.right.get());
    }
    Send(ends_.right, Receive(relay.left));
  }

  EXPECT_EQ(state, State::kProved);
}

TEST_F(PeerProofTest, RefusesNonsenseAtItsFirstByteWithoutAReply) {
  PeerProof listens = Make(Side::kListens);
  Send(ends_.left, "G");

  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kRefused);
  EXPECT_THAT(Receive(ends_.left), IsEmpty());
}

TEST_F(PeerProofTest, ReadsAtMost4KiBBeforeAuthentication) {
  PeerProof listens = Make(Side::kListens);
  Send(ends_.left, kMagic);
  Send(ends_.left,
       std::string(32, 'n') + "\x0f\xa0" + std::string(100'000, 'x'));

  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kRefused);

  std::string left(200'000, '\0');
  EXPECT_GE(::recv(ends_.right.get(), left.data(), left.size(), 0),
            100'042 - 4096);
}

TEST_F(PeerProofTest, RefusesATooLongClaimBeforeItReadsIt) {
  PeerProof listens = Make(Side::kListens);
  Send(ends_.left, kMagic);
  Send(ends_.left, std::string(32, 'n') + "\x0f\xa1");

  EXPECT_EQ(listens.Advance(ends_.right.get()), State::kRefused);
}

TEST_F(PeerProofTest, SessionDetectsModifiedMessages) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof listens = Make(Side::kListens);
  Talk(connects, listens);
  PeerSession left = connects.Session();
  PeerSession right = listens.Session();
  const std::string first = left.Seal("first");
  const std::string second = left.Seal("second");

  EXPECT_EQ(right.Open(first), "first");
  EXPECT_THROW(PeerSession(right).Open(first), Error) << "repeated";
  EXPECT_THROW(PeerSession(right).Open("second"), Error) << "without a MAC";
  std::string changed = second;
  changed.back() = 'D';
  EXPECT_THROW(PeerSession(right).Open(changed), Error) << "changed";
  EXPECT_THROW(PeerSession(left).Open(second), Error) << "reflected";
  EXPECT_THROW(listens.Session().Open(second), Error) << "one is missing";
  EXPECT_EQ(right.Open(second), "second");
  EXPECT_EQ(left.Open(right.Seal("")), "");
}

TEST_F(PeerProofTest, EachConnectionHasItsOwnSession) {
  PeerProof connects = Make(Side::kConnects);
  PeerProof listens = Make(Side::kListens);
  Talk(connects, listens);
  const std::string line = connects.Session().Seal("stop");
  PeerProof connects_again = Make(Side::kConnects);
  PeerProof listens_again = Make(Side::kListens);
  ends_ = MakeEnds();
  Talk(connects_again, listens_again);

  EXPECT_THROW(listens_again.Session().Open(line), Error);
}

TEST(DeriveSecretTest, DependsOnBoth) {
  EXPECT_THAT(DeriveSecret("a", "b"), SizeIs(64));
  EXPECT_NE(DeriveSecret("a", "b"), DeriveSecret("a", "c"));
  EXPECT_NE(DeriveSecret("a", "b"), DeriveSecret("b", "b"));
}

// A listener with a clock of the test's.
class PendingConnectionsTest : public testing::Test {
 protected:
  // From an address of this machine, by a socket that waits.
  UniqueFd Connect(const char* from = "127.0.0.1") const {
    UniqueFd socket = Socket();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), any, sizeof address), 0) << from;
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    EXPECT_EQ(::connect(socket.get(), any, sizeof address), 0) << from;
    return socket;
  }
  // Whether the other end has closed it.
  static bool IsClosed(const UniqueFd& socket) {
    char byte = 0;
    const ssize_t count = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }
  // Proves itself; whether it is taken.
  bool Prove(const UniqueFd& socket) {
    PeerProof proof(Side::kConnects, {.secret = kSecret, .purpose = "test"});
    for (int i = 0; i < 1000; ++i) {
      if (proof.Advance(socket.get()) != State::kWaiting) return false;
      if (pending_.Serve().size() == 1) return true;
    }
    return false;
  }

  Duration now_{0};
  UniqueFd listener_ = ListenAt({.host = "127.0.0.1"});
  const int port_ = GetPort(listener_.get());
  PendingConnections pending_{std::move(listener_),
                              kSecret,
                              "test",
                              {.now = [] { return Timestamp(0); },
                               .monotonic = [this] { return now_; }}};
};

TEST_F(PendingConnectionsTest, ReturnsAnAuthenticatedPeerOnce) {
  EXPECT_TRUE(Prove(Connect()));
  EXPECT_THAT(pending_.Serve(), IsEmpty());
  EXPECT_EQ(pending_.Deadline(), std::nullopt);
  EXPECT_EQ(pending_.DrainRejected().count, 0);
}

TEST_F(PendingConnectionsTest, CountsUnknownPeers) {
  const UniqueFd unknown = Connect("127.0.0.9");
  Send(unknown, "GET / HTTP/1.1\r\n\r\n");
  pending_.Serve();

  const auto rejected = pending_.DrainRejected();
  EXPECT_EQ(rejected.count, 1);
  EXPECT_EQ(rejected.address, "127.0.0.9");
  EXPECT_TRUE(IsClosed(unknown));
  EXPECT_EQ(pending_.DrainRejected().count, 0);
}

TEST_F(PendingConnectionsTest, DoesNotCountAPortProbe) {
  Connect();
  pending_.Serve();
  pending_.Serve();

  EXPECT_EQ(pending_.DrainRejected().count, 0);
  EXPECT_EQ(pending_.Deadline(), std::nullopt);
}

TEST_F(PendingConnectionsTest, DropsSilentAndSlowPeersAfterTenSeconds) {
  const UniqueFd silent = Connect();
  const UniqueFd slow = Connect();
  Send(slow, kMagic);
  pending_.Serve();
  EXPECT_EQ(pending_.Deadline(), Duration(seconds(10)));
  now_ = milliseconds(9999);
  Send(slow, "a byte");
  pending_.Serve();
  EXPECT_FALSE(IsClosed(silent));

  now_ = seconds(10);
  pending_.Serve();

  EXPECT_TRUE(IsClosed(silent));
  EXPECT_TRUE(IsClosed(slow));
}

TEST_F(PendingConnectionsTest, AdmitsFourPeersPerAddress) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(Connect());
  pending_.Serve();
  const UniqueFd fifth = Connect();
  pending_.Serve();

  EXPECT_TRUE(IsClosed(fifth));
  EXPECT_FALSE(IsClosed(silent.front()));
  EXPECT_TRUE(Prove(Connect("127.0.0.2"))) << "another address has its own";
}

TEST_F(PendingConnectionsTest, EvictsThePeerThatWaitedASecond) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(Connect());
  pending_.Serve();
  now_ = seconds(1);

  EXPECT_TRUE(Prove(Connect()));
  EXPECT_TRUE(IsClosed(silent[0]));
  EXPECT_FALSE(IsClosed(silent[1]));
}

TEST_F(PendingConnectionsTest, AdmitsSixteenPeersAndQueuesOthers) {
  std::vector<UniqueFd> silent;
  for (const char* from :
       {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}) {
    for (int i = 0; i < 4; ++i) silent.push_back(Connect(from));
  }
  pending_.Serve();
  const UniqueFd next = Connect("127.0.0.6");
  pending_.Serve();
  EXPECT_FALSE(IsClosed(next));
  EXPECT_EQ(Receive(next), "");
  EXPECT_EQ(pending_.Deadline(), Duration(seconds(1)));

  now_ = seconds(1);

  EXPECT_TRUE(Prove(next));
  EXPECT_TRUE(IsClosed(silent[0]));
}

}  // namespace
}  // namespace dtrain
