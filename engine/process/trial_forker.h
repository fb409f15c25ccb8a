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

/// Parameters of a trial host.
struct HostOptions {
  std::filesystem::path program;
  std::int64_t experiment = 0;
  bool cuda = false;  // loads the CUDA libraries of LibTorch, too
  bool warm = true;   // a TrialForker starts it before the first fork
  std::vector<std::pair<std::string, std::string>> environment;
};

/// Request to fork a process.
struct ForkOrder {
  std::vector<int> fds;  // control socket, standard output and error, locks
  int rendezvous = -1;   // memory or socket shared by a trial's ranks, or −1
  std::vector<std::pair<std::string, std::string>> variables;
};

/// Message of a host: `ready` once, then for each request the trial's pid or
/// the error.
struct HostReply {
  bool ready = false;
  std::int64_t pid = 0;
  std::string error;
};

/// The runner's side of its trial host. One thread.
class HostClient {
 public:
  explicit HostClient(HostOptions options);
  /// Kills the host. REQUIRES: its trials have ended.
  ~HostClient();
  HostClient(const HostClient&) = delete;
  HostClient& operator=(const HostClient&) = delete;

  /// Executes a host. Does not wait until it has loaded its libraries; the
  /// first reply tells that it is ready. Throws Error(kFailed). REQUIRES:
  /// !running().
  void Start();
  bool running() const { return static_cast<bool>(exit_fd_); }
  /// Readable when there is a reply, or the host has ended.
  int socket() const { return socket_.get(); }
  std::int64_t pid() const { return pid_; }

  /// Requests a fork. False if the host has ended.
  [[nodiscard]] bool Request(const ForkOrder& order);
  /// Waits for the next reply; none if the host has ended.
  std::optional<HostReply> ReadReply();
  /// Kills the host, if it still lives. Returns a description of its end, with
  /// its last output.
  std::string Stop();

 private:
  HostOptions options_;
  std::string token_;
  std::int64_t pid_ = 0;
  UniqueFd exit_fd_;
  UniqueFd socket_;
  UniqueFd output_;  // a file in memory
};

/// Forks trials, one at a time, through a trial host that it restarts when that
/// fails. A warm host loads its libraries from construction on. One thread.
class TrialForker {
 public:
  /// Result of a fork: a process, or an error after three hosts in a row have
  /// failed.
  struct Outcome {
    std::int64_t pid = 0;
    std::string error;  // if there is no process
  };

  TrialForker(const HostOptions& options, Clock clock, Poller& poller,
              std::uint64_t token);

  /// Starts a fork with copies of the order's descriptors, which must stay open
  /// until `PopOutcome` returns the outcome. REQUIRES: !busy().
  void Fork(ForkOrder order);
  /// True if the outcome of a fork is not known yet.
  bool busy() const { return request_.has_value(); }
  /// True if the host has the request: a child with an unknown pid may exist.
  bool in_flight() const { return in_flight_; }
  /// Drops the fork. REQUIRES: !in_flight().
  void Cancel() { request_.reset(); }
  std::optional<Outcome> PopOutcome() { return std::exchange(outcome_, {}); }

  /// Handles a message or the end of the host.
  void OnReady();
  /// Kills a host that has not answered in time.
  void OnTime();
  std::optional<Duration> Deadline() const { return answer_by_; }

  /// Pid of the host; 0 if there is none now.
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
