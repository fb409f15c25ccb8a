#include "engine/train/ranked_link.h"

#include <string>
#include <utility>

namespace dtrain {

TrialLink RankedLink(TrialLink link, RankGroup& ranks) {
  if (ranks.is_alone()) return link;
  const bool first = ranks.is_first();
  TrialLink ranked;
  ranked.send = [first, send = link.send](TrialMessage message) {
    if (first) send(std::move(message));
  };
  ranked.next = [first, &ranks, next = link.next] {
    const std::string line = ranks.FromFirst(first ? Encode(next()) : "");
    return DecodeRunnerMessage(line.substr(0, line.size() - 1));
  };
  // Another rank that was asked to stop, by a signal, will be told by rank 0,
  // which was asked as well.
  ranked.stop_requested = [first, &ranks, stop = link.stop_requested] {
    return ranks.Any(first && stop());
  };
  ranked.unacknowledged = link.unacknowledged;
  return ranked;
}

}  // namespace dtrain
