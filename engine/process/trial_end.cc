// The end of a trial from those of its ranks. One rank fails first, and the
// others then fail because they lost it; the cause is what a user needs. So
// ranks whose message is only that a connection was lost are passed over in
// favour of any other failure. Of the messages that of rank 0 is preferred,
// since it reports for the trial, unless it came late, after the crash of
// another rank, or tells only of a lost connection.

#include "engine/process/trial_end.h"

#include <algorithm>
#include <string>

#include "engine/ranks/abort_channel.h"

namespace dtrain {
namespace {

// True if the rank reports an error. Being done or stopped is none.
bool ReportsError(const RankEnd& end) {
  return end.message && end.message->reason != EndReason::kCompleted &&
         end.message->reason != EndReason::kStopped;
}

// Returns the rank's message with the rank's number, which a message from
// another machine contains already.
std::optional<Finished> MessageWithRank(const RankEnd& end) {
  Finished message = *end.message;
  if (end.rank != 0 && !message.message.starts_with("rank ")) {
    message.message =
        "rank " + std::to_string(end.rank) + ": " + message.message;
  }
  return message;
}

std::optional<Finished> CombineMessages(const std::vector<RankEnd>& ends,
                                        const RankEnd* culprit) {
  const bool crashed = culprit != nullptr && !ReportsError(*culprit);
  const auto first = std::ranges::find(ends, 0, &RankEnd::rank);
  if (first != ends.end() && first->message) {
    const bool misses_another = first->message->reason == EndReason::kError &&
                                first->late_message && crashed;
    const bool knows_less = culprit != nullptr && culprit->rank != 0 &&
                            ReportsLostPeer(*first->message);
    if (!misses_another && !knows_less) return first->message;
  }
  if (crashed) return std::nullopt;
  if (culprit != nullptr) return MessageWithRank(*culprit);
  const auto reporter = std::ranges::find_if(ends, ReportsError);
  if (reporter == ends.end()) return std::nullopt;
  return MessageWithRank(*reporter);
}

}  // namespace

bool ReportsLostPeer(const Finished& message) {
  return message.reason == EndReason::kError &&
         message.message.ends_with(kConnectionLost);
}

TrialEnd CombineEnds(const std::vector<RankEnd>& ends) {
  auto failed = std::ranges::find_if(ends, [](const RankEnd& end) {
    return end.failed() && !(end.message && ReportsLostPeer(*end.message));
  });
  if (failed == ends.end()) {
    failed = std::ranges::find_if(ends, &RankEnd::failed);
  }
  const RankEnd* culprit = failed == ends.end() ? nullptr : &*failed;
  return {.rank = culprit == nullptr ? ends.front() : *culprit,
          .message = CombineMessages(ends, culprit)};
}

}  // namespace dtrain
