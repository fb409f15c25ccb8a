#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/unique_fd.h"

namespace dtrain {

/// Derives a secret for a narrower purpose, 64 hex digits, which does not
/// reveal `secret`.
std::string DeriveSecret(std::string_view secret, std::string_view purpose);

/// Authenticates the messages of one proved connection with a MAC each, which
/// detects a message that is forged, changed, repeated, dropped or reordered.
/// Nothing is encrypted. One thread.
class PeerSession {
 public:
  PeerSession(std::string sending_key, std::string receiving_key)
      : sending_key_(std::move(sending_key)),
        receiving_key_(std::move(receiving_key)) {}

  /// Bytes that Seal adds to a line.
  static constexpr std::size_t kSealBytes = 65;

  /// Returns the next line to send: `line` after its MAC.
  std::string Seal(std::string_view line);
  /// Returns the next received line without its MAC. Throws Error(kFailed) if
  /// it is not the next line that the peer sealed.
  std::string Open(std::string_view sealed);

 private:
  std::string sending_key_;
  std::string receiving_key_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

/// Mutual authentication of the two ends of a connection: each proves that it
/// knows a secret, which is not sent. Until then nothing that the peer sends is
/// interpreted. With c and s of 32 random bytes, fresh for each connection, and
/// T the purpose, c and s:
///
///     connects  "dtrain", 0, 1, c
///     listens   s, HMAC(secret, "listens" T)
///     connects  claim, HMAC(secret, "connects" T claim)
///     listens   HMAC(secret, "welcome" T claim)
///
/// Each MAC contains its role, so it cannot be reflected, and both nonces, so
/// it cannot be replayed. The claim, which identifies the side that connects,
/// is sent only after the listener's proof. One thread; never blocks.
class PeerProof {
 public:
  enum class Side { kConnects, kListens };
  enum class State {
    kWaiting,  // for the peer
    kProved,   // for the side that listens: only the peer, until Welcome
    kRefused,  // the peer has another secret or protocol, or refused this side
    kClosed    // the peer closed the connection before it proved anything
  };
  struct Options {
    std::string secret;
    // The purpose of the connection; a proof for another one is not valid.
    std::string purpose;
    std::string claim;  // of the side that connects
  };

  /// Most bytes that are read from a peer before its proof.
  static constexpr std::size_t kMaxBytes = 4096;

  /// REQUIRES: the claim has at most 4000 bytes.
  PeerProof(Side side, Options options);

  /// Reads and writes as much as possible without blocking. REQUIRES: `socket`
  /// is the same each time and non-blocking.
  State Advance(int socket);
  /// True if the peer has sent anything.
  bool has_received() const { return has_received_; }

  /// The claim of the peer that connected. REQUIRES: kProved.
  const std::string& claim() const { return options_.claim; }
  /// Tells the peer that it is accepted; false if it is gone. REQUIRES:
  /// kProved, on the side that listens.
  [[nodiscard]] bool Welcome(int socket) const;
  /// Returns the session for all later messages. REQUIRES: kProved.
  PeerSession Session() const;

 private:
  // The awaited part of the handshake.
  enum class Step { kBegin, kGreeting, kAnswer, kClaim, kWelcome, kDone };

  State Continue(int socket);
  State AwaitOn(Step step, std::size_t bytes);
  State OnGreeting(int socket);
  State OnAnswer(int socket);
  State OnClaim();
  std::string Mac(std::string_view role) const;
  bool Send(int socket, const std::string& bytes) const;

  const Side side_;
  Options options_;
  Step step_ = Step::kBegin;
  std::string own_nonce_;
  std::string peer_nonce_;
  std::string received_;
  std::size_t wanted_ = 0;
  bool has_received_ = false;
};

/// Advances the proof of the side that connects until it is done. Returns
/// kWaiting if `give_up`, called every 100 ms, returns true; it may be empty.
PeerProof::State AwaitProof(PeerProof& proof, int socket,
                            const std::function<bool()>& give_up);

/// A peer that has proved itself and waits for Welcome.
struct ProvedPeer {
  UniqueFd socket;
  PeerProof proof;
};

/// Peers that have connected to a listener and have not proved themselves: at
/// most 16 at a time and 4 of one address, each for 10 s. If there is no room,
/// a peer that has had a second is closed to make room for a new one; otherwise
/// new ones wait in the socket's queue or, from an address with 4 peers, are
/// closed. One thread.
class PendingConnections {
 public:
  /// Peers that were rejected.
  struct Rejected {
    std::int64_t count = 0;
    std::string address;  // of the last one
  };

  static constexpr std::size_t kMaxPeers = 16;
  static constexpr std::size_t kMaxPerAddress = 4;
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr Duration kMinPatience = std::chrono::seconds(1);

  /// Throws Error(kFailed). REQUIRES: `listener` is non-blocking.
  PendingConnections(UniqueFd listener, std::string secret, std::string purpose,
                     Clock clock);

  /// Readable when `Serve` has something to do.
  int fd() const { return epoll_.get(); }
  /// Accepts peers and advances their proofs; returns the proved ones.
  std::vector<ProvedPeer> Serve();
  /// Latest time of the next call of `Serve`.
  std::optional<Duration> Deadline() const;
  /// Returns the peers that were rejected since the last call.
  Rejected DrainRejected();

 private:
  struct Peer {
    UniqueFd socket;
    std::string address;
    std::string network;  // counts as one address
    Duration since{0};
    PeerProof proof;
  };
  using Peers = std::list<Peer>;  // in order of arrival

  void Accept();
  bool MakeRoom(const std::string* network);
  bool HasRoom() const;
  void WatchListener();
  Peers::iterator Reject(Peers::iterator peer);

  UniqueFd listener_;
  UniqueFd epoll_;
  const std::string secret_;
  const std::string purpose_;
  Clock clock_;
  Peers peers_;
  Rejected rejected_;
  bool listens_ = true;
  Duration paused_until_{0};
};

}  // namespace dtrain
