#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
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

/// Has trials forked, one at a time, by a trial host that it keeps alive. The
/// host warms up from construction on. One thread.
class TrialForker {
 public:
  /// A process was made, or three hosts in a row have failed.
  struct Outcome {
    std::int64_t pid = 0;
    std::string error;  // if there is no process
  };

  TrialForker(HostOptions options, Clock clock, Poller& poller,
              std::uint64_t token);

  /// Forks with copies of the order's descriptors, which must stay open until
  /// `TakeOutcome` gives the outcome. REQUIRES: !busy().
  void Fork(ForkOrder order);
  /// There is a fork whose outcome is not known yet.
  bool busy() const { return request_.has_value(); }
  /// The host has been asked for it: there may be a child that nobody knows.
  bool in_flight() const { return in_flight_; }
  /// Forgets the fork. REQUIRES: !in_flight().
  void Cancel() { request_.reset(); }
  std::optional<Outcome> TakeOutcome() { return std::exchange(outcome_, {}); }

  /// The host has said something, or is gone.
  void OnReady();
  /// Gives up a host that has not answered in time.
  void OnTime();
  std::optional<Duration> Deadline() const { return answer_by_; }

  /// 0 if there is no host at the moment.
  std::int64_t host_pid() const { return host_.running() ? host_.pid() : 0; }

 private:
  void StartHost();
  void SendRequest();
  void OnFailure(const std::string& reason);

  HostClient host_;
  Clock clock_;
  Poller& poller_;
  std::uint64_t token_;
  bool ready_ = false;
  bool in_flight_ = false;
  int failures_ = 0;  // of hosts in a row
  std::optional<Duration> answer_by_;
  std::optional<ForkOrder> request_;
  std::optional<Outcome> outcome_;
};

}  // namespace dtrain
