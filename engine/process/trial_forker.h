#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/os/poller.h"
#include "engine/process/host_client.h"

namespace dtrain {

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
