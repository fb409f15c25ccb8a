#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/wire/trial_message.h"

namespace dtrain {

/// How long the other ranks may live on when one has ended. If it `failed` by
/// itself, they may be about to say why, or the same; else they may still wait
/// for what they sent to be recorded.
constexpr Duration OthersLiveOn(bool failed) {
  return failed ? std::chrono::seconds(2) : std::chrono::seconds(10);
}

/// How one rank of a trial ended.
struct RankEnd {
  int rank = 0;
  int exit_code = 0;  // −1: by `signal`
  int signal = 0;
  bool ended_by_us = false;  // through no fault of its own
  std::optional<Finished> word;
  bool late_word = false;  // said when another rank had failed already

  /// By itself.
  bool failed() const { return exit_code != 0 && !ended_by_us; }
};

/// How a trial ended, by how its ranks did.
struct TrialEnd {
  RankEnd rank;  // the one that counts
  /// What the trial says of its end; none: it has crashed.
  std::optional<Finished> word;
};

/// Judges by `ends`, in the order in which the ranks died. The rank that counts
/// is the first that failed by itself, else the first that died. Rank 0 speaks
/// for all, unless what it says is only that it misses a rank that crashed; if
/// it says nothing, the rank that counts does, or the first that has bad news,
/// as "rank 1: MESSAGE". REQUIRES: `ends` is not empty.
TrialEnd JudgeEnd(const std::vector<RankEnd>& ends);

}  // namespace dtrain
