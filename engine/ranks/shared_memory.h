#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/os/unique_fd.h"
#include "engine/ranks/collective_call.h"

namespace dtrain {

/// Largest number of ranks of one trial on one machine.
inline constexpr int kMaxRanks = 64;

/// Independent channels of one trial: two threads of a rank that call
/// collectives concurrently need one each, and every rank uses the same channel
/// for the same purpose.
inline constexpr int kChannels = 2;

// Layout of the shared memory. Except for the first header it is valid when it
// is all zeros, so no rank waits for another one to initialize it. Fields that
// different ranks write concurrently are in separate cache lines.
inline constexpr std::size_t kCacheLine = 64;

/// Size of a staging buffer. Each rank has two of them in each channel, so that
/// it can fill one while others read the other.
inline constexpr std::size_t kSegmentBytes = std::size_t{1} << 19;

/// Written by MakeSharedMemory, read by every rank.
struct SharedMemoryHeader {
  static constexpr std::uint64_t kMagic = 0x31736b6e61727464;  // "dtranks1"

  std::uint64_t magic = 0;
  std::uint32_t ranks = 0;
};

/// The first failure of a rank.
struct AbortRecord {
  enum State : std::uint32_t { kNone, kBeingWritten, kWritten };
  static constexpr std::size_t kReasonBytes = 1000;

  std::atomic<std::uint32_t> state;
  std::uint32_t rank;
  std::uint32_t reason_bytes;
  std::array<char, kReasonBytes> reason;
};

/// The fields of a channel that one rank writes.
struct alignas(kCacheLine) RankArrivals {
  /// Number of barriers that the rank has reached.
  std::atomic<std::uint64_t> barriers;
  /// The rank's calls, alternately: it may begin its next call while another
  /// rank still compares this one.
  std::array<CollectiveCall, 2> calls;
};

/// State of the barrier of one channel.
struct ChannelState {
  /// Number of completed barriers: the futex that ranks wait on. It wraps
  /// around.
  alignas(kCacheLine) std::atomic<std::uint32_t> completed;
  std::atomic<std::uint32_t> sleepers;
  /// Number of ranks that have reached the current barrier.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  std::array<RankArrivals, kMaxRanks> ranks;
};

struct SharedMemoryState {
  SharedMemoryHeader header;
  alignas(kCacheLine) AbortRecord abort;
  std::array<ChannelState, kChannels> channels;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free,
              "processes cannot share an atomic that takes a lock");

/// Creates the memory that the `ranks` processes of a trial share, as an
/// unnamed file: close-on-exec, and sealed, so that no rank can shrink it. Each
/// rank opens its ProcessGroup with it. The file is sparse: it has room for the
/// gradients of 64 ranks, but only pages that are touched take memory. Each
/// start of a trial needs a new one, because ranks that died leave their state
/// in it. Throws Error(kFailed) with the system's message.
/// REQUIRES: 1 <= ranks <= kMaxRanks.
UniqueFd MakeSharedMemory(int ranks);

/// Size of the memory of `ranks` ranks.
std::size_t SharedMemoryBytes(int ranks);

/// A process's mapping of the memory. Movable. Thread-safe.
class SharedMemory {
 public:
  /// Maps the memory; the descriptor may be closed afterwards. Throws
  /// Error(kFailed) if that fails or it is not the memory of `ranks` ranks.
  SharedMemory(int memory_fd, int ranks);
  SharedMemory(SharedMemory&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), ranks_(other.ranks_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  int ranks() const { return ranks_; }
  SharedMemoryState& state() const {
    return *reinterpret_cast<SharedMemoryState*>(start_);
  }
  /// A buffer of kSegmentBytes that only `rank` writes. REQUIRES: `buffer` is 0
  /// or 1.
  std::byte* Staging(int channel, int rank, int buffer) const;

 private:
  std::byte* start_;
  int ranks_;
};

}  // namespace dtrain
