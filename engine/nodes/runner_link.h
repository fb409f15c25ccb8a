#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/nodes/distributed_env.h"
#include "engine/nodes/node_message.h"
#include "engine/os/socket.h"

namespace dtrain {

/// The connection of a worker to its runner. Writes are complete
/// when the call returns, so that a trial that prints faster than the network
/// is slowed down, as by a slow disk. One thread.
class RunnerLink {
 public:
  RunnerLink(UniqueFd socket, const PeerProof& proof, std::string secret,
             const HostPort& runner, Clock clock);

  int fd() const { return channel_.fd(); }
  const std::string& peer() const { return channel_.peer(); }
  Duration last_received() const { return channel_.last_received(); }
  /// The secret that both ends proved.
  const std::string& secret() const { return secret_; }

  /// Throws Error(kFailed) if the runner is lost.
  void Send(const NodeReport& report);
  /// Returns the next order, or none yet. Throws Error(kFailed) as Send does.
  std::optional<NodeOrder> Receive();
  /// Waits for an order other than Alive. Throws Error(kFailed) likewise.
  NodeOrder Await();

  /// Sets the end of the message about a lost runner.
  void SetLossAdvice(std::string advice) { loss_advice_ = std::move(advice); }
  /// Time until Receive must be called.
  Duration TimeLeft() const;

 private:
  [[noreturn]] void Lose(const std::string& why) const;

  const std::string secret_;
  std::string loss_advice_;
  Clock clock_;
  NodeChannel channel_;
  bool ended_ = false;
};

/// Parameters of JoinRunner. The texts name, for the user, this process, the
/// setting of the runner's address, and what gives both ends the same secret.
struct JoinOptions {
  HostPort runner;
  SecretFile secret;
  std::string claim;        // an encoded hello
  std::string name;         // prefix of messages: "RANK=1: ", or empty
  std::string address;      // "MASTER_ADDR, MASTER_PORT"
  std::string start_there;  // "start the same command with RANK=0 there"
  std::string same_secret;  // "give all processes the same store (--store)"
  Clock clock = Clock::System();
  Duration patience = std::chrono::minutes(5);  // until the runner answers
  // Until the secret exists once the runner answers: a network file system may
  // show a new file late.
  Duration secret_patience = std::chrono::minutes(1);
  // Prints a line for the user; may be empty.
  std::function<void(const std::string& line)> notice;
};

/// Connects to a runner and waits until it has accepted this process. Throws
/// Error(kUsage) if the runner rejects it or there is no secret, Error(kFailed)
/// if no runner answers.
std::unique_ptr<RunnerLink> JoinRunner(const JoinOptions& options);

}  // namespace dtrain
