#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <fcntl.h>

#include "engine/ranks/shared_memory.h"
#include "engine/train/rank_group.h"

namespace dtrain {

/// Calls `work` on each of `ranks` ranks, which are threads here, and waits for
/// all of them. What it throws ends the process.
inline void InRanks(int ranks, const std::function<void(RankGroup&)>& work) {
  const UniqueFd memory = MakeSharedMemory(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankGroup group(UniqueFd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)), rank,
                      ranks);
      work(group);
      group.Barrier();
    });
  }
}

}  // namespace dtrain
