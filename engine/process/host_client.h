#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/os/unique_fd.h"

namespace dtrain {

/// How a trial host is executed.
struct HostOptions {
  std::filesystem::path program;
  std::int64_t experiment = 0;
  bool cuda = false;  // opens the CUDA half of LibTorch, too
  std::vector<std::pair<std::string, std::string>> environment;
};

/// What a process that is to be forked gets.
struct ForkOrder {
  std::vector<int> fds;  // control socket, standard output and error, locks
  int meeting = -1;      // what the ranks of a trial meet by, or −1
  std::vector<std::pair<std::string, std::string>> variables;
};

/// What a host says: once that it is ready, and to each request the trial's
/// pid or why there is none.
struct HostReply {
  bool ready = false;
  std::int64_t pid = 0;
  std::string error;
};

/// The runner's side of its trial host. One thread.
class HostClient {
 public:
  explicit HostClient(HostOptions options);
  /// Kills the host. It is of use to nobody then, for its trials have ended.
  ~HostClient();
  HostClient(const HostClient&) = delete;
  HostClient& operator=(const HostClient&) = delete;

  /// Executes a host and does not wait until it has opened its libraries. The
  /// first reply says that it is ready. Throws Error(kFailed). REQUIRES:
  /// !running().
  void Start();
  bool running() const { return static_cast<bool>(pidfd_); }
  /// Readable when there is a reply, or the host is gone.
  int socket() const { return socket_.get(); }
  std::int64_t pid() const { return pid_; }

  /// Asks for a fork. False if the host is gone.
  [[nodiscard]] bool Request(const ForkOrder& order);
  /// Waits for the next reply; none if the host is gone.
  std::optional<HostReply> ReadReply();
  /// Ends the host, if it still lives, and says how it ended, with the last
  /// that it printed.
  std::string Stop();

 private:
  HostOptions options_;
  std::string token_;
  std::int64_t pid_ = 0;
  UniqueFd pidfd_;
  UniqueFd socket_;
  UniqueFd output_;  // a file in memory
};

}  // namespace dtrain
