#include "engine/process/trial_end.h"

#include <algorithm>
#include <string>

#include "engine/ranks/abort_channel.h"

namespace dtrain {
namespace {

// That a rank is done or was stopped says nothing of the others.
bool HasBadNews(const RankEnd& end) {
  return end.word && end.word->reason != EndReason::kCompleted &&
         end.word->reason != EndReason::kStopped;
}

// Whether it only knows that another rank was gone, as one that is killed is:
// the other's end says more.
bool TellsOfALoss(const Finished& word) {
  return word.reason == EndReason::kError &&
         word.message.ends_with(kConnectionLost);
}

// Of ranks of another machine, it names the rank already.
std::optional<Finished> WordOf(const RankEnd& end) {
  Finished word = *end.word;
  if (end.rank != 0 && !word.message.starts_with("rank ")) {
    word.message = "rank " + std::to_string(end.rank) + ": " + word.message;
  }
  return word;
}

std::optional<Finished> JudgeWord(const std::vector<RankEnd>& ends,
                                  const RankEnd* culprit) {
  const bool crashed = culprit != nullptr && !HasBadNews(*culprit);
  const auto first = std::ranges::find(ends, 0, &RankEnd::rank);
  if (first != ends.end() && first->word) {
    const bool misses_another =
        first->word->reason == EndReason::kError && first->late_word && crashed;
    const bool knows_less =
        culprit != nullptr && culprit->rank != 0 && TellsOfALoss(*first->word);
    if (!misses_another && !knows_less) return first->word;
  }
  if (crashed) return std::nullopt;
  if (culprit != nullptr) return WordOf(*culprit);
  const auto teller = std::ranges::find_if(ends, HasBadNews);
  if (teller == ends.end()) return std::nullopt;
  return WordOf(*teller);
}

}  // namespace

TrialEnd JudgeEnd(const std::vector<RankEnd>& ends) {
  auto failed = std::ranges::find_if(ends, [](const RankEnd& end) {
    return end.failed() && !(end.word && TellsOfALoss(*end.word));
  });
  if (failed == ends.end()) {
    failed = std::ranges::find_if(ends, &RankEnd::failed);
  }
  const RankEnd* culprit = failed == ends.end() ? nullptr : &*failed;
  return {.rank = culprit == nullptr ? ends.front() : *culprit,
          .word = JudgeWord(ends, culprit)};
}

}  // namespace dtrain
