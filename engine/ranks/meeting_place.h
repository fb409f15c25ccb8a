#pragma once

#include <memory>
#include <string>
#include <variant>

#include "engine/os/unique_fd.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/rank_connections.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {

/// Where the ranks of one start of a trial meet, as one of them has it: in
/// memory that they share on one machine, or by connections between several.
/// Its functions may be called by any thread.
class MeetingPlace {
 public:
  /// On the memory that MakeRankMemory made. Throws Error(kFailed) if it is not
  /// that of `ranks` ranks. REQUIRES: 0 <= rank < ranks.
  MeetingPlace(const UniqueFd& memory, int rank, int ranks);
  /// Meets the others: takes their connections to `listener`, or as another
  /// rank than 0, which has none, connects to rank 0. Throws Error(kFailed).
  MeetingPlace(UniqueFd listener, const NetworkMeeting& meeting);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool on_one_machine() const { return host_.empty(); }
  /// The machine of rank 0, of several.
  const std::string& host() const { return host_; }

  /// This rank's part in the collectives of a lane, once for each. Outlived by
  /// this.
  std::unique_ptr<Collectives> Group(GroupOptions options) const;

 private:
  int rank_;
  int ranks_;
  std::string host_;
  std::variant<RankMapping, std::unique_ptr<RankConnections>> place_;
};

}  // namespace dtrain
