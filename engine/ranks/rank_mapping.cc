#include "engine/ranks/rank_mapping.h"

#include <string>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStagingStart =
    (sizeof(RankMemoryState) + kPage - 1) / kPage * kPage;

void CheckMemory(int fd, int ranks) {
  struct stat status {};
  RankMemoryHeader header;
  const ssize_t read = ::pread(fd, &header, sizeof header, /*offset=*/0);
  if (read < 0 || ::fstat(fd, &status) != 0) {
    ThrowSystemError("read the memory of the ranks of a trial");
  }
  const bool good =
      read == static_cast<ssize_t>(sizeof header) &&
      header.magic == RankMemoryHeader::kMagic &&
      header.ranks == static_cast<std::uint32_t>(ranks) &&
      static_cast<std::size_t>(status.st_size) == RankMemoryBytes(ranks);
  if (good) return;
  throw Error(ErrorKind::kFailed, "what was given as the memory of " +
                                      std::to_string(ranks) +
                                      " ranks is not that");
}

}  // namespace

std::size_t RankMemoryBytes(int ranks) {
  return kStagingStart +
         static_cast<std::size_t>(ranks) * kLanes * 2 * kSegmentBytes;
}

RankMapping::RankMapping(int memory_fd, int ranks) : ranks_(ranks) {
  CheckMemory(memory_fd, ranks);
  void* start = ::mmap(nullptr, RankMemoryBytes(ranks), PROT_READ | PROT_WRITE,
                       MAP_SHARED, memory_fd, /*offset=*/0);
  if (start == MAP_FAILED) {
    ThrowSystemError("map the memory of the ranks of a trial");
  }
  start_ = static_cast<std::byte*>(start);
}

RankMapping::~RankMapping() {
  if (start_ != nullptr) ::munmap(start_, RankMemoryBytes(ranks_));
}

std::byte* RankMapping::Staging(int lane, int rank, int buffer) const {
  const std::size_t number = (std::size_t(lane) * ranks_ + rank) * 2 + buffer;
  return start_ + kStagingStart + number * kSegmentBytes;
}

}  // namespace dtrain
