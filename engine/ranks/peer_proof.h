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

/// The secret of a narrower purpose, from which nobody learns `secret`: 64 hex
/// digits.
std::string DeriveSecret(std::string_view secret, std::string_view purpose);

/// The messages of one proved connection, each of which carries a MAC of its
/// own: one that another process sent, changed, repeated, left out or put in
/// another place is found. Nothing is encrypted. One thread.
class PeerSession {
 public:
  PeerSession(std::string sending_key, std::string receiving_key)
      : sending_key_(std::move(sending_key)),
        receiving_key_(std::move(receiving_key)) {}

  /// What Seal adds to a line.
  static constexpr std::size_t kSealBytes = 65;

  /// The next line to send: `line` with its MAC before it.
  std::string Seal(std::string_view line);
  /// The next line that was received, without its MAC. Throws Error(kFailed)
  /// if it is not what the peer sent next.
  std::string Open(std::string_view sealed);

 private:
  std::string sending_key_;
  std::string receiving_key_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

/// The proof of both ends of a connection to each other that they know a
/// secret, which is not sent. Until the peer has proved it, nothing that it
/// says is interpreted. With c and s of 32 random bytes, fresh for each
/// connection, and T the purpose, c and s:
///
///     connects  "dtrain", 0, 1, c
///     listens   s, HMAC(secret, "listens" T)
///     connects  claim, HMAC(secret, "connects" T claim)
///     listens   HMAC(secret, "welcome" T claim)
///
/// Each MAC has its role in it, so that none serves as another one, and both
/// nonces, so that none serves again. A claim, which says who connects, is only
/// sent to who has proved itself. One thread; never waits.
class PeerProof {
 public:
  enum class Side { kConnects, kListens };
  enum class State {
    kWaiting,  // for the peer
    kProved,   // of the side that listens: until Welcome, by the peer alone
    kRefused,  // the peer has another secret, or is none; or it refuses this
               // one
    kClosed    // it has closed the connection before it proved anything
  };
  struct Options {
    std::string secret;
    // What the connection is for; a proof for another purpose is none for it.
    std::string purpose;
    std::string claim;  // of the side that connects
  };

  /// What is read at most of a peer that has not proved itself.
  static constexpr std::size_t kMaxBytes = 4096;

  /// REQUIRES: the claim has at most 4000 bytes.
  PeerProof(Side side, Options options);

  /// Reads and writes as far as that goes now. REQUIRES: `socket` is the same
  /// each time, and does not block.
  State Advance(int socket);
  /// Whether the peer has said anything.
  bool heard() const { return heard_; }

  /// What the peer that has connected says of itself. REQUIRES: kProved.
  const std::string& claim() const { return options_.claim; }
  /// Lets the peer know that it is taken; false if it is gone. REQUIRES:
  /// kProved, of the side that listens.
  [[nodiscard]] bool Welcome(int socket) const;
  /// For what is said from here on. REQUIRES: kProved.
  PeerSession Session() const;

 private:
  // What is awaited.
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
  bool heard_ = false;
};

/// Advances the proof of the side that connects until it is done. kWaiting if
/// `give_up`, asked every 100 ms and perhaps empty, says so.
PeerProof::State AwaitProof(PeerProof& proof, int socket,
                            const std::function<bool()>& give_up);

/// A peer that has proved itself and is yet to be welcomed.
struct ProvedPeer {
  UniqueFd socket;
  PeerProof proof;
};

/// The peers that have connected to a listener and not yet proved themselves:
/// 16 at one time and 4 of one address, each for 10 s. Where there is no room,
/// who has had a second of it gives way to who comes; others wait in the
/// socket's queue or, of an address that has its 4, are turned away. One
/// thread.
class PendingPeers {
 public:
  /// Those that were turned away.
  struct Strangers {
    std::int64_t count = 0;
    std::string address;  // of the last
  };

  static constexpr std::size_t kMaxPeers = 16;
  static constexpr std::size_t kMaxPerAddress = 4;
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr Duration kGivesWay = std::chrono::seconds(1);

  /// Throws Error(kFailed). REQUIRES: `listener` does not block.
  PendingPeers(UniqueFd listener, std::string secret, std::string purpose,
               Clock clock);

  /// Readable when `Serve` has something to do.
  int fd() const { return epoll_.get(); }
  /// Takes in who comes and what they say; gives those that are proved.
  std::vector<ProvedPeer> Serve();
  /// When `Serve` is to be called next at the latest.
  std::optional<Duration> Deadline() const;
  /// Those that were turned away since the last call.
  Strangers TakeStrangers();

 private:
  struct Peer {
    UniqueFd socket;
    std::string address;
    std::string network;  // what counts as one address
    Duration since{0};
    PeerProof proof;
  };
  using Peers = std::list<Peer>;  // in the order in which they came

  void Accept();
  bool MakeRoom(const std::string* network);
  bool HasRoom() const;
  void WatchListener();
  Peers::iterator TurnAway(Peers::iterator peer);

  UniqueFd listener_;
  UniqueFd epoll_;
  const std::string secret_;
  const std::string purpose_;
  Clock clock_;
  Peers peers_;
  Strangers strangers_;
  bool listens_ = true;
  Duration paused_until_{0};
};

}  // namespace dtrain
