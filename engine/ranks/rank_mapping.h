#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/ranks/collective_call.h"
#include "engine/ranks/rank_memory.h"

namespace dtrain {

// How ranks' memory is laid out. All of it begins as zeros, but for the first
// header, and that is a good beginning: no rank has to wait for another one to
// set it up. What ranks write at one time lies in cache lines of its own.
inline constexpr std::size_t kCacheLine = 64;

/// Bytes that a rank stages at a time: of one buffer, of which it has two, so
/// that it fills one while the others read the other one.
inline constexpr std::size_t kSegmentBytes = std::size_t{1} << 19;

/// Written by MakeRankMemory, read by everyone.
struct RankMemoryHeader {
  static constexpr std::uint64_t kMagic = 0x31736b6e61727464;  // "dtranks1"

  std::uint64_t magic = 0;
  std::uint32_t ranks = 0;
};

/// Why the ranks end: the first one to fail says it.
struct RankFailure {
  enum State : std::uint32_t { kNone, kBeingWritten, kWritten };
  static constexpr std::size_t kReasonBytes = 1000;

  std::atomic<std::uint32_t> state;
  std::uint32_t rank;
  std::uint32_t reason_bytes;
  std::array<char, kReasonBytes> reason;
};

/// What one rank says to the others of one lane.
struct alignas(kCacheLine) RankSlot {
  /// How many meetings it has come to.
  std::atomic<std::uint64_t> meetings;
  /// What it calls: by turns, as a rank may begin its next call while another
  /// one still reads what this one was.
  std::array<CollectiveCall, 2> calls;
};

/// Where the ranks of one lane meet.
struct LaneState {
  /// Meetings held so far: the futex that ranks wait on. It wraps around.
  alignas(kCacheLine) std::atomic<std::uint32_t> held;
  std::atomic<std::uint32_t> sleepers;
  /// Ranks that have come to the meeting that is next.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived;
  std::array<RankSlot, kMaxRanks> slots;
};

struct RankMemoryState {
  RankMemoryHeader header;
  alignas(kCacheLine) RankFailure failure;
  std::array<LaneState, kLanes> lanes;
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free,
              "processes cannot share an atomic that takes a lock");

/// Size of the memory of `ranks` ranks.
std::size_t RankMemoryBytes(int ranks);

/// A process's view of ranks' memory. Movable; its functions may be called by
/// any thread.
class RankMapping {
 public:
  /// Maps the memory, which may then be closed. Throws Error(kFailed) if that
  /// fails or it is not the memory of `ranks` ranks.
  RankMapping(int memory_fd, int ranks);
  RankMapping(RankMapping&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), ranks_(other.ranks_) {}
  RankMapping& operator=(RankMapping&&) = delete;
  ~RankMapping();

  int ranks() const { return ranks_; }
  RankMemoryState& state() const {
    return *reinterpret_cast<RankMemoryState*>(start_);
  }
  /// kSegmentBytes that `rank` alone writes. REQUIRES: `buffer` is 0 or 1.
  std::byte* Staging(int lane, int rank, int buffer) const;

 private:
  std::byte* start_;
  int ranks_;
};

}  // namespace dtrain
