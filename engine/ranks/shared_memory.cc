// The memory that the ranks of a trial on one machine share: the state, rounded
// up to pages, then two staging buffers for each rank and channel. It is a
// memfd that the launcher makes and passes to each rank, so it has no name that
// could be guessed or left behind, and its seals keep a rank from shrinking it
// under the others, which would end them by SIGBUS. A rank checks the header
// and the size before it maps the memory.

#include "engine/ranks/shared_memory.h"

#include <cassert>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/os/system_error.h"

namespace dtrain {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStagingStart =
    (sizeof(SharedMemoryState) + kPage - 1) / kPage * kPage;

void CheckMemory(int fd, int ranks) {
  struct stat status {};
  SharedMemoryHeader header;
  const ssize_t read = ::pread(fd, &header, sizeof header, /*offset=*/0);
  if (read < 0 || ::fstat(fd, &status) != 0) {
    ThrowSystemError("read the shared memory of a trial");
  }
  const bool good =
      read == static_cast<ssize_t>(sizeof header) &&
      header.magic == SharedMemoryHeader::kMagic &&
      header.ranks == static_cast<std::uint32_t>(ranks) &&
      static_cast<std::size_t>(status.st_size) == SharedMemoryBytes(ranks);
  if (good) return;
  throw Error(ErrorKind::kFailed,
              "the descriptor is not the shared memory of " +
                  std::to_string(ranks) + " ranks");
}

}  // namespace

std::size_t SharedMemoryBytes(int ranks) {
  return kStagingStart +
         static_cast<std::size_t>(ranks) * kChannels * 2 * kSegmentBytes;
}

UniqueFd MakeSharedMemory(int ranks) {
  assert(ranks >= 1 && ranks <= kMaxRanks);
  UniqueFd memory(
      ::memfd_create("dtrain-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) ThrowSystemError("create the shared memory of a trial");
  if (::ftruncate(memory.get(), SharedMemoryBytes(ranks)) != 0) {
    ThrowSystemError("resize the shared memory of a trial");
  }
  const SharedMemoryHeader header{.magic = SharedMemoryHeader::kMagic,
                                  .ranks = static_cast<std::uint32_t>(ranks)};
  if (::pwrite(memory.get(), &header, sizeof header, /*offset=*/0) !=
      static_cast<ssize_t>(sizeof header)) {
    ThrowSystemError("write the shared memory of a trial");
  }
  if (::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ThrowSystemError("seal the shared memory of a trial");
  }
  return memory;
}

SharedMemory::SharedMemory(int memory_fd, int ranks) : ranks_(ranks) {
  CheckMemory(memory_fd, ranks);
  void* start =
      ::mmap(nullptr, SharedMemoryBytes(ranks), PROT_READ | PROT_WRITE,
             MAP_SHARED, memory_fd, /*offset=*/0);
  if (start == MAP_FAILED) {
    ThrowSystemError("map the shared memory of a trial");
  }
  start_ = static_cast<std::byte*>(start);
}

SharedMemory::~SharedMemory() {
  if (start_ != nullptr) ::munmap(start_, SharedMemoryBytes(ranks_));
}

std::byte* SharedMemory::Staging(int channel, int rank, int buffer) const {
  const std::size_t number =
      (std::size_t(channel) * ranks_ + rank) * 2 + buffer;
  return start_ + kStagingStart + number * kSegmentBytes;
}

}  // namespace dtrain
