#include "engine/ranks/rank_memory.h"

#include <cassert>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/os/system_error.h"
#include "engine/ranks/rank_mapping.h"

namespace dtrain {

UniqueFd MakeRankMemory(int ranks) {
  assert(ranks >= 1 && ranks <= kMaxRanks);
  UniqueFd memory(
      ::memfd_create("dtrain-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) ThrowSystemError("make memory for the ranks of a trial");
  if (::ftruncate(memory.get(), RankMemoryBytes(ranks)) != 0) {
    ThrowSystemError("size the memory of the ranks of a trial");
  }
  const RankMemoryHeader header{.magic = RankMemoryHeader::kMagic,
                                .ranks = static_cast<std::uint32_t>(ranks)};
  if (::pwrite(memory.get(), &header, sizeof header, /*offset=*/0) !=
      static_cast<ssize_t>(sizeof header)) {
    ThrowSystemError("write the memory of the ranks of a trial");
  }
  if (::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ThrowSystemError("seal the memory of the ranks of a trial");
  }
  return memory;
}

}  // namespace dtrain
