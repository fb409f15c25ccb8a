// Mutual authentication of processes on several machines by a shared secret.
//
// Anyone who can reach a port of dtrain can connect to it, so the first bytes
// of every connection are a challenge-response handshake (peer_proof.h has the
// messages). Each side sends a fresh nonce and an HMAC-SHA-256, with the secret
// as the key, of its role, the purpose of the connection and both nonces.
// Before the proof a peer costs one descriptor and at most 4096 bytes, and its
// bytes are only compared: nothing is parsed. After it, session keys derived
// from both nonces authenticate each message together with its number
// (PeerSession).
//
// PendingConnections limits how many unproved peers a listener holds, in total
// and per address (a /64 network for IPv6), so that connections that send
// nothing cannot lock out the real ones.
#include "engine/ranks/peer_proof.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/sha256.h"
#include "engine/os/socket.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr std::string_view kMagic("dtrain\0\1", 8);
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;
constexpr std::size_t kLengthBytes = 2;
constexpr std::size_t kMaxClaim = 4000;
static_assert(kMagic.size() + kNonceBytes + kLengthBytes + kMaxClaim +
                  kMacBytes <=
              PeerProof::kMaxBytes);

constexpr std::string_view kListens("listens\0", 8);
constexpr std::string_view kConnects("connects\0", 9);
constexpr std::string_view kWelcome("welcome\0", 8);
constexpr std::string_view kFromListener("from the listener\0", 18);
constexpr std::string_view kFromConnector("from the connector\0", 19);

std::string Nonce() {
  std::string bytes(kNonceBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    ThrowSystemError("get random numbers from the kernel");
  }
  return bytes;
}

std::string Hex(std::string_view bytes) {
  return ToHex(std::as_bytes(std::span(bytes)));
}

std::string BigEndian(std::uint64_t number, std::size_t bytes) {
  std::string text;
  for (std::size_t i = bytes; i > 0; --i) {
    text += static_cast<char>(number >> (8 * (i - 1)) & 0xff);
  }
  return text;
}

std::size_t DecodeLength(std::string_view bytes) {
  return static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) << 8 |
         static_cast<unsigned char>(bytes[1]);
}

struct Address {
  std::string text;
  std::string network;
};

// The owner of one IPv6 address usually has all 2^64 of its network.
Address PeerAddress(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(socket, address, &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<sockaddr_in&>(storage).sin_addr;
    ::inet_ntop(AF_INET, &ip, text.data(), text.size());
    return {.text = text.data(), .network = text.data()};
  }
  const in6_addr& ip = reinterpret_cast<sockaddr_in6&>(storage).sin6_addr;
  ::inet_ntop(AF_INET6, &ip, text.data(), text.size());
  const std::size_t bytes = IN6_IS_ADDR_V4MAPPED(&ip) ? 16 : 8;
  return {.text = text.data(),
          .network = {reinterpret_cast<const char*>(&ip), bytes}};
}

}  // namespace

std::string DeriveSecret(std::string_view secret, std::string_view purpose) {
  return Hex(HmacSha256(secret, {std::string_view("derived\0", 8), purpose}));
}

// The number of the message is authenticated but not sent: a message that is
// repeated, left out or moved fails to open.
std::string PeerSession::Seal(std::string_view line) {
  std::string sealed =
      Hex(HmacSha256(sending_key_, {BigEndian(sent_++, 8), line}));
  sealed += ' ';
  sealed += line;
  return sealed;
}

std::string PeerSession::Open(std::string_view sealed) {
  if (sealed.size() >= kSealBytes) {
    const std::string_view line = sealed.substr(kSealBytes);
    const std::string mac =
        Hex(HmacSha256(receiving_key_, {BigEndian(received_++, 8), line})) +
        ' ';
    if (AreEqualInConstantTime(mac, sealed.substr(0, kSealBytes))) {
      return std::string(line);
    }
  }
  throw Error(ErrorKind::kFailed,
              "a message was changed on the way or sent by another process");
}

PeerProof::PeerProof(Side side, Options options)
    : side_(side), options_(std::move(options)), own_nonce_(Nonce()) {
  assert(!options_.secret.empty() && options_.claim.size() <= kMaxClaim);
}

// Both nonces are in every proof, in the same order on both sides, so a
// recorded one is worthless in another connection. The role keeps a peer from
// sending a proof back to its author. The listener proves itself before it
// knows the claim, hence without it.
std::string PeerProof::Mac(std::string_view role) const {
  const bool connects = side_ == Side::kConnects;
  return HmacSha256(
      options_.secret,
      {role, options_.purpose, std::string_view("\0", 1),
       connects ? own_nonce_ : peer_nonce_, connects ? peer_nonce_ : own_nonce_,
       role == kListens ? std::string_view() : options_.claim});
}

// The buffer of a new socket has room for it.
bool PeerProof::Send(int socket, const std::string& bytes) const {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

PeerProof::State PeerProof::AwaitOn(Step step, std::size_t bytes) {
  step_ = step;
  wanted_ = bytes;
  received_.clear();
  return State::kWaiting;
}

PeerProof::State PeerProof::Advance(int socket) {
  State state = State::kWaiting;
  if (step_ == Step::kBegin) state = Continue(socket);
  while (state == State::kWaiting) {
    const std::size_t size = received_.size();
    received_.resize(wanted_);
    const ssize_t count =
        ::recv(socket, received_.data() + size, wanted_ - size, MSG_DONTWAIT);
    const int error = errno;
    received_.resize(size +
                     static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && error == EINTR) continue;
    if (count < 0 && error == EAGAIN) return State::kWaiting;
    if (count <= 0) {
      // A peer that leaves after this side's proof has another secret or
      // rejects the claim.
      return step_ == Step::kWelcome ? State::kRefused : State::kClosed;
    }
    has_received_ = true;
    state = Continue(socket);
  }
  return state;
}

// Handles the received bytes, which may be a part of the message.
PeerProof::State PeerProof::Continue(int socket) {
  const bool whole = received_.size() == wanted_;
  switch (step_) {
    case Step::kBegin:
      if (side_ == Side::kListens) {
        return AwaitOn(Step::kGreeting, kMagic.size() + kNonceBytes);
      }
      if (!Send(socket, std::string(kMagic) + own_nonce_)) {
        return State::kClosed;
      }
      return AwaitOn(Step::kAnswer, kNonceBytes + kMacBytes);
    case Step::kGreeting:
      if (!std::string_view(received_).starts_with(
              kMagic.substr(0, received_.size()))) {
        return State::kRefused;
      }
      return whole ? OnGreeting(socket) : State::kWaiting;
    case Step::kAnswer:
      return whole ? OnAnswer(socket) : State::kWaiting;
    case Step::kClaim:
      if (received_.size() == kLengthBytes) {
        const std::size_t length = DecodeLength(received_);
        if (length > kMaxClaim) return State::kRefused;
        wanted_ = kLengthBytes + length + kMacBytes;
        return State::kWaiting;
      }
      return whole ? OnClaim() : State::kWaiting;
    case Step::kWelcome:
      if (!whole) return State::kWaiting;
      step_ = Step::kDone;
      return AreEqualInConstantTime(received_, Mac(kWelcome)) ? State::kProved
                                                              : State::kRefused;
    case Step::kDone:
      break;
  }
  return State::kRefused;
}

PeerProof::State PeerProof::OnGreeting(int socket) {
  peer_nonce_ = received_.substr(kMagic.size());
  if (!Send(socket, own_nonce_ + Mac(kListens))) return State::kClosed;
  return AwaitOn(Step::kClaim, kLengthBytes);
}

PeerProof::State PeerProof::OnAnswer(int socket) {
  peer_nonce_ = received_.substr(0, kNonceBytes);
  if (!AreEqualInConstantTime(received_.substr(kNonceBytes), Mac(kListens))) {
    return State::kRefused;
  }
  if (!Send(socket, BigEndian(options_.claim.size(), kLengthBytes) +
                        options_.claim + Mac(kConnects))) {
    return State::kClosed;
  }
  return AwaitOn(Step::kWelcome, kMacBytes);
}

PeerProof::State PeerProof::OnClaim() {
  options_.claim = received_.substr(
      kLengthBytes, received_.size() - kLengthBytes - kMacBytes);
  step_ = Step::kDone;
  return AreEqualInConstantTime(received_.substr(received_.size() - kMacBytes),
                                Mac(kConnects))
             ? State::kProved
             : State::kRefused;
}

bool PeerProof::Welcome(int socket) const {
  return Send(socket, Mac(kWelcome));
}

PeerSession PeerProof::Session() const {
  std::string from_listener = Mac(kFromListener);
  std::string from_connector = Mac(kFromConnector);
  if (side_ == Side::kListens) {
    return PeerSession(std::move(from_listener), std::move(from_connector));
  }
  return PeerSession(std::move(from_connector), std::move(from_listener));
}

PeerProof::State AwaitProof(PeerProof& proof, int socket,
                            const std::function<bool()>& give_up) {
  while (true) {
    const PeerProof::State state = proof.Advance(socket);
    if (state != PeerProof::State::kWaiting) return state;
    if (give_up && give_up()) return state;
    pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, /*milliseconds=*/100);
  }
}

PendingConnections::PendingConnections(UniqueFd listener, std::string secret,
                                       std::string purpose, Clock clock)
    : listener_(std::move(listener)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      secret_(std::move(secret)),
      purpose_(std::move(purpose)),
      clock_(std::move(clock)) {
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (!epoll_ ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) {
    ThrowSystemError("wait for other processes");
  }
}

// Rejects the oldest peer of `network`, or of all if it is null, if that one
// has had its second.
bool PendingConnections::MakeRoom(const std::string* network) {
  const auto oldest = std::ranges::find_if(peers_, [&](const Peer& peer) {
    return network == nullptr || peer.network == *network;
  });
  if (oldest == peers_.end() ||
      clock_.monotonic() - oldest->since < kMinPatience) {
    return false;
  }
  Reject(oldest);
  return true;
}

bool PendingConnections::HasRoom() const {
  const Duration now = clock_.monotonic();
  return now >= paused_until_ && (peers_.size() < kMaxPeers ||
                                  now - peers_.front().since >= kMinPatience);
}

void PendingConnections::Accept() {
  while (HasRoom()) {
    UniqueFd socket = AcceptFrom(listener_.get());
    if (!socket) {
      // Pauses if it cannot accept, for lack of descriptors for example: the
      // listener stays readable.
      const bool nothing = errno == EAGAIN || errno == EINTR ||
                           errno == ECONNABORTED || errno == EPROTO;
      if (!nothing) paused_until_ = clock_.monotonic() + kMinPatience;
      return;
    }
    Address address = PeerAddress(socket.get());
    const auto count =
        std::ranges::count(peers_, address.network, &Peer::network);
    const bool room = static_cast<std::size_t>(count) < kMaxPerAddress
                          ? peers_.size() < kMaxPeers || MakeRoom(nullptr)
                          : MakeRoom(&address.network);
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (!room ||
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      rejected_ = {rejected_.count + 1, address.text};
      continue;
    }
    peers_.push_back(
        {.socket = std::move(socket),
         .address = std::move(address.text),
         .network = std::move(address.network),
         .since = clock_.monotonic(),
         .proof = PeerProof(PeerProof::Side::kListens,
                            {.secret = secret_, .purpose = purpose_})});
  }
}

PendingConnections::Peers::iterator PendingConnections::Reject(
    Peers::iterator peer) {
  rejected_ = {rejected_.count + 1, peer->address};
  return peers_.erase(peer);
}

std::vector<ProvedPeer> PendingConnections::Serve() {
  const Duration now = clock_.monotonic();
  while (!peers_.empty() && now - peers_.front().since >= kPatience) {
    Reject(peers_.begin());
  }
  Accept();
  std::vector<ProvedPeer> proved;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    switch (peer->proof.Advance(peer->socket.get())) {
      case PeerProof::State::kWaiting:
        ++peer;
        continue;
      case PeerProof::State::kProved:
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer->socket.get(), nullptr);
        proved.push_back({std::move(peer->socket), std::move(peer->proof)});
        peer = peers_.erase(peer);
        continue;
      case PeerProof::State::kClosed:
        // A port scan or health check sends nothing.
        if (!peer->proof.has_received()) {
          peer = peers_.erase(peer);
          continue;
        }
        break;
      case PeerProof::State::kRefused:
        break;
    }
    peer = Reject(peer);
  }
  WatchListener();
  return proved;
}

void PendingConnections::WatchListener() {
  if (std::exchange(listens_, HasRoom()) == HasRoom()) return;
  epoll_event event{.events = listens_ ? EPOLLIN : 0U, .data = {}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

std::optional<Duration> PendingConnections::Deadline() const {
  std::optional<Duration> deadline;
  if (!peers_.empty()) deadline = peers_.front().since + kPatience;
  if (listens_) return deadline;
  return std::max(paused_until_, peers_.size() < kMaxPeers
                                     ? paused_until_
                                     : peers_.front().since + kMinPatience);
}

PendingConnections::Rejected PendingConnections::DrainRejected() {
  return std::exchange(rejected_, {});
}

}  // namespace dtrain
