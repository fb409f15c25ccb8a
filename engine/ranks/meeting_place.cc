#include "engine/ranks/meeting_place.h"

#include <utility>

#include "engine/ranks/network_group.h"
#include "engine/ranks/shared_group.h"

namespace dtrain {

MeetingPlace::MeetingPlace(const UniqueFd& memory, int rank, int ranks)
    : rank_(rank), ranks_(ranks), place_(RankMapping(memory.get(), ranks)) {}

MeetingPlace::MeetingPlace(UniqueFd listener, const NetworkMeeting& meeting)
    : rank_(meeting.rank),
      ranks_(meeting.ranks),
      host_(meeting.first.host),
      place_(meeting.rank == 0 ? AwaitRanks(std::move(listener), meeting)
                               : JoinRanks(meeting)) {}

std::unique_ptr<Collectives> MeetingPlace::Group(GroupOptions options) const {
  if (const auto* mapping = std::get_if<RankMapping>(&place_)) {
    return std::make_unique<SharedGroup>(*mapping, rank_, std::move(options));
  }
  return std::make_unique<NetworkGroup>(
      *std::get<std::unique_ptr<RankConnections>>(place_), std::move(options));
}

}  // namespace dtrain
