#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/wire/message.h"

namespace dtrain {

/// Time that the other ranks have to exit when one has ended. If it `failed` by
/// itself, they may be about to report the cause; otherwise they may be waiting
/// for the acknowledgement of their messages.
constexpr Duration PeerExitGrace(bool failed) {
  return failed ? std::chrono::seconds(2) : std::chrono::seconds(10);
}

/// End of one rank of a trial.
struct RankEnd {
  int rank = 0;
  int exit_code = 0;  // −1: ended by `signal`
  int signal = 0;
  bool ended_by_us = false;  // not because of an error of its own
  std::optional<Finished> message;
  bool late_message = false;  // sent after another rank had failed

  /// True if it failed by itself.
  bool failed() const { return exit_code != 0 && !ended_by_us; }
};

/// End of a trial, derived from those of its ranks.
struct TrialEnd {
  RankEnd rank;  // the rank that caused it
  /// Final message of the trial; none if it crashed.
  std::optional<Finished> message;
};

/// True if the message only says that the connection to another rank was lost.
/// The end of that rank tells more.
bool ReportsLostPeer(const Finished& message);

/// Combines `ends`, which are in the order in which the ranks ended. The cause
/// is the first rank that failed by itself, or else the first that ended. The
/// message is that of rank 0, unless that only reports the loss of a rank which
/// crashed; without one, that of the rank which is the cause, or of the first
/// that reports an error, as "rank 1: MESSAGE". REQUIRES: `ends` is not empty.
TrialEnd CombineEnds(const std::vector<RankEnd>& ends);

}  // namespace dtrain
