#include "engine/ranks/process_group.h"

#include <utility>

#include "engine/ranks/network_collectives.h"
#include "engine/ranks/shared_collectives.h"

namespace dtrain {

ProcessGroup::ProcessGroup(const UniqueFd& memory, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      transport_(SharedMemory(memory.get(), ranks)) {}

ProcessGroup::ProcessGroup(UniqueFd listener, const Rendezvous& rendezvous)
    : rank_(rendezvous.rank),
      ranks_(rendezvous.ranks),
      host_(rendezvous.first.host),
      transport_(rendezvous.rank == 0
                     ? AwaitRanks(std::move(listener), rendezvous)
                     : JoinRanks(rendezvous)) {}

std::string ProcessGroup::Interface() const {
  const auto* connections =
      std::get_if<std::unique_ptr<RankConnections>>(&transport_);
  return connections == nullptr ? "" : (*connections)->Interface();
}

std::unique_ptr<Collectives> ProcessGroup::OpenChannel(
    ChannelOptions options) const {
  if (const auto* memory = std::get_if<SharedMemory>(&transport_)) {
    return std::make_unique<SharedCollectives>(*memory, rank_,
                                               std::move(options));
  }
  return std::make_unique<NetworkCollectives>(
      *std::get<std::unique_ptr<RankConnections>>(transport_),
      std::move(options));
}

}  // namespace dtrain
