// Collectives in shared memory.
//
// The ranks of a trial on one machine share a mapping (shared_memory.h) with
// two staging buffers per rank and channel, and a barrier per channel. A
// collective is a sequence of steps with a barrier after each: before it a rank
// writes only its own buffer, after it all may read that buffer. Because uses
// alternate between the two buffers, one barrier per step is enough: a rank
// that has passed the barrier fills its other buffer while slower ranks still
// read.
//
// The barrier counts arrivals. The last rank to arrive resets the counter and
// increments `completed`, which the others spin on for about the cost of a
// futex call and then sleep on. The first barrier of a call also publishes and
// compares what each rank called, so that a mismatch is an error on all ranks
// instead of a hang or garbage.
//
// All-reduce is a reduce-scatter and an all-gather per segment, pipelined: see
// ReduceAs. Values are combined in rank order, so results are bitwise identical
// on every rank and in every run.
#include "engine/ranks/shared_collectives.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/ranks/collective_call.h"

namespace dtrain {
namespace {

// The part of `bytes` that is in a segment; empty beyond their end.
template <typename Byte>
std::span<Byte> GetSegment(std::span<Byte> bytes, std::size_t segment) {
  const std::size_t start = std::min(segment * kSegmentBytes, bytes.size());
  return bytes.subspan(start, std::min(kSegmentBytes, bytes.size() - start));
}

void Move(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) {
    std::memmove(to, from.data(), from.size());
  }
}

}  // namespace

SharedCollectives::SharedCollectives(int memory_fd, int rank, int ranks,
                                     ChannelOptions options)
    : Collectives(rank, ranks),
      own_memory_(std::in_place, memory_fd, ranks),
      memory_(*own_memory_),
      channel_(options.channel),
      barrier_(memory_, channel_, rank, std::move(options.give_up)) {}

SharedCollectives::SharedCollectives(const SharedMemory& memory, int rank,
                                     ChannelOptions options)
    : Collectives(rank, memory.ranks()),
      memory_(memory),
      channel_(options.channel),
      barrier_(memory_, channel_, rank, std::move(options.give_up)) {}

void SharedCollectives::Reduce(const CollectiveCall& call,
                               std::span<std::byte> values) {
  switch (call.type) {
    case CollectiveCall::Type::kFloat:
      return ReduceAs<float>(call, values);
    case CollectiveCall::Type::kDouble:
      return ReduceAs<double>(call, values);
    case CollectiveCall::Type::kInt64:
      return ReduceAs<std::int64_t>(call, values);
    case CollectiveCall::Type::kBytes:
      break;
  }
}

// In each step a rank stages one segment, reduces the previous one and fetches
// the one before that, so one barrier per segment is enough. So are two
// buffers: a segment's buffer is staged again two steps later, after all ranks
// have reduced it, and its result is overwritten three steps later, after all
// have fetched it.
template <typename T>
void SharedCollectives::ReduceAs(const CollectiveCall& call,
                                 std::span<std::byte> bytes) {
  if (ranks() == 1) return barrier_.Begin(call);
  const std::span<T> values(reinterpret_cast<T*>(bytes.data()),
                            bytes.size() / sizeof(T));
  const AllReduction<T> reduction(memory_, channel_, rank(), uses_, values);
  const std::size_t segments = reduction.segments();
  uses_ += segments;
  for (std::size_t step = 0; step <= segments + 1; ++step) {
    if (step < segments) reduction.Stage(step);
    if (step >= 1 && step <= segments) {
      reduction.ReduceShare(step - 1, call.op);
    }
    if (step >= 2) reduction.Fetch(step - 2);
    if (step == 0) {
      barrier_.Begin(call);
    } else if (step <= segments) {
      barrier_.Wait();
    }
  }
}

void SharedCollectives::Exchange(const CollectiveCall& call,
                                 std::span<const std::byte> mine,
                                 std::span<const std::span<std::byte>> into) {
  const auto rank_number = static_cast<std::size_t>(rank());
  std::size_t longest = 0;
  for (const auto& place : into) longest = std::max(longest, place.size());
  // At least one segment: its barrier compares the calls.
  const std::size_t segments =
      std::max<std::size_t>((longest + kSegmentBytes - 1) / kSegmentBytes, 1);
  if (ranks() == 1) {
    barrier_.Begin(call);
    return Move(mine, into[0].data());
  }
  for (std::size_t segment = 0; segment < segments; ++segment) {
    const std::size_t use = uses_++;
    Move(GetSegment(mine, segment), Staging(rank(), use));
    if (segment == 0) {
      barrier_.Begin(call);
    } else {
      barrier_.Wait();
    }
    for (std::size_t rank = 0; rank < into.size(); ++rank) {
      if (rank == rank_number) continue;
      const std::span<std::byte> place = GetSegment(into[rank], segment);
      Move({Staging(static_cast<int>(rank), use), place.size()}, place.data());
    }
  }
  Move(mine, into[rank_number].data());
}

std::byte* SharedCollectives::Staging(int rank, std::size_t use) const {
  return memory_.Staging(channel_, rank, static_cast<int>(use % 2));
}

namespace {

// memcpy must not be called with the null address of an empty span.
template <typename T>
void Copy(std::span<const T> from, T* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

}  // namespace

template <typename T>
AllReduction<T>::AllReduction(const SharedMemory& memory, int channel, int rank,
                              std::size_t first_use, std::span<T> values)
    : memory_(memory),
      channel_(channel),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(memory.ranks())),
      first_use_(first_use),
      values_(values) {
  if (values.empty()) return;
  // A share consists of whole cache lines.
  const std::size_t grain = kCacheLine / sizeof(T) * ranks_;
  const std::size_t most = kSegmentBytes / sizeof(T) / grain * grain;
  segments_ = (values.size() + most - 1) / most;
  const std::size_t even = (values.size() + segments_ - 1) / segments_;
  segment_ = (even + grain - 1) / grain * grain;
  share_ = segment_ / ranks_;
}

template <typename T>
std::span<T> AllReduction<T>::Slice(std::size_t start, std::size_t size) const {
  const std::size_t from = std::min(start, values_.size());
  return values_.subspan(from, std::min(size, values_.size() - from));
}

template <typename T>
std::span<T> AllReduction<T>::Share(std::size_t segment,
                                    std::size_t rank) const {
  return Slice(segment * segment_ + rank * share_, share_);
}

// The buffer in which `rank` stages the segment.
template <typename T>
T* AllReduction<T>::Staged(std::size_t segment, std::size_t rank) const {
  const auto buffer = static_cast<int>((first_use_ + segment) % 2);
  return reinterpret_cast<T*>(
      memory_.Staging(channel_, static_cast<int>(rank), buffer));
}

template <typename T>
void AllReduction<T>::Stage(std::size_t segment) const {
  T* const staged = Staged(segment, rank_);
  const std::size_t start = segment * segment_;
  // All but the own share, which this rank reduces from its own values.
  const std::size_t before = rank_ * share_;
  const std::size_t after = before + share_;
  Copy<T>(Slice(start, before), staged);
  Copy<T>(Slice(start + after, segment_ - after), staged + after);
}

template <typename T>
void AllReduction<T>::ReduceShare(std::size_t segment, ReduceOp op) const {
  const std::span<T> mine = Share(segment, rank_);
  std::array<const T*, kMaxRanks> sources;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    sources[rank] =
        rank == rank_ ? mine.data() : Staged(segment, rank) + rank_ * share_;
  }
  // The own staging buffer has a gap where the own share would be; the result
  // goes there, for the others to fetch.
  const std::span<T> result(Staged(segment, rank_) + rank_ * share_,
                            mine.size());
  Reduce<T>(std::span(sources).first(ranks_), op, result);
  Copy<T>(result, mine.data());
}

template <typename T>
void AllReduction<T>::Fetch(std::size_t segment) const {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    const std::span<T> share = Share(segment, rank);
    Copy<T>({Staged(segment, rank) + rank * share_, share.size()},
            share.data());
  }
}

template class AllReduction<float>;
template class AllReduction<double>;
template class AllReduction<std::int64_t>;

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// About the cost of sleeping and being woken.
constexpr microseconds kSpin{50};
// Interval at which a sleeping rank calls `give_up`.
constexpr long kSleepNanoseconds = 100'000'000;

// Not FUTEX_*_PRIVATE: the ranks are separate processes.
void SleepWhile(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{.tv_sec = 0, .tv_nsec = kSleepNanoseconds};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void WakeAll(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

SharedBarrier::SharedBarrier(const SharedMemory& memory, int channel, int rank,
                             std::function<bool()> give_up)
    : memory_(memory),
      channel_(memory.state().channels.at(static_cast<std::size_t>(channel))),
      own_(channel_.ranks.at(static_cast<std::size_t>(rank))),
      rank_(rank),
      give_up_(std::move(give_up)),
      // Do not spin if ranks outnumber CPUs: it starves the rank waited for.
      spins_(std::thread::hardware_concurrency() >=
             static_cast<unsigned>(memory.ranks())) {}

void SharedBarrier::Begin(const CollectiveCall& call) {
  const std::size_t turn = std::exchange(turn_, 1 - turn_);
  own_.calls[turn] = call;
  Wait();
  Compare(turn);
}

void SharedBarrier::Compare(std::size_t turn) {
  const CollectiveCall& first = channel_.ranks[0].calls[turn];
  for (int rank = 1; rank < memory_.ranks(); ++rank) {
    const CollectiveCall& other =
        channel_.ranks[static_cast<std::size_t>(rank)].calls[turn];
    if (other == first) continue;
    const std::string difference = DescribeDifference(first, rank, other);
    // From here on each would misread the other's bytes.
    Abort(difference);
    throw Error(ErrorKind::kFailed, difference);
  }
}

void SharedBarrier::Wait() {
  ThrowIfAborted();
  if (memory_.ranks() == 1) return;
  // It does not change before this rank arrives.
  const std::uint32_t completed =
      channel_.completed.load(std::memory_order_relaxed);
  own_.barriers.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t before =
      channel_.arrived.fetch_add(1, std::memory_order_acq_rel);
  if (before + 1 < static_cast<std::uint32_t>(memory_.ranks())) {
    Await(completed);
    return;
  }
  // Relaxed, because no rank arrives again before it has seen `completed`,
  // whose store below publishes this one.
  channel_.arrived.store(0, std::memory_order_relaxed);
  // This rank stores `completed`, then reads `sleepers`; a sleeper increments
  // `sleepers`, then reads `completed`: at least one of them sees the other.
  channel_.completed.store(completed + 1);
  if (channel_.sleepers.load() > 0) WakeAll(channel_.completed);
}

void SharedBarrier::Await(std::uint32_t completed) {
  if (spins_ && Spin(completed)) return;
  while (true) {
    channel_.sleepers.fetch_add(1);
    SleepWhile(channel_.completed, completed);
    channel_.sleepers.fetch_sub(1);
    if (channel_.completed.load(std::memory_order_acquire) != completed) return;
    ThrowIfAborted();
    if (give_up_ && give_up_()) Abort("gave up waiting for " + Missing());
    ThrowIfAborted();
  }
}

bool SharedBarrier::Spin(std::uint32_t completed) const {
  const auto end = steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (channel_.completed.load(std::memory_order_acquire) != completed)
        return true;
      Pause();
    }
  } while (steady_clock::now() < end);
  return false;
}

std::string SharedBarrier::Missing() const {
  const auto mine = own_.barriers.load(std::memory_order_relaxed);
  std::vector<std::string> missing;
  for (int rank = 0; rank < memory_.ranks(); ++rank) {
    const RankArrivals& arrivals =
        channel_.ranks[static_cast<std::size_t>(rank)];
    if (arrivals.barriers.load(std::memory_order_relaxed) < mine) {
      missing.push_back(std::to_string(rank));
    }
  }
  return (missing.size() == 1 ? "rank " : "ranks ") + Join(missing, ", ");
}

void SharedBarrier::Abort(std::string_view reason) {
  AbortRecord& record = memory_.state().abort;
  std::uint32_t none = AbortRecord::kNone;
  if (!record.state.compare_exchange_strong(none, AbortRecord::kBeingWritten)) {
    return;
  }
  const std::string_view text = reason.substr(0, AbortRecord::kReasonBytes);
  std::ranges::copy(text, record.reason.begin());
  record.reason_bytes = static_cast<std::uint32_t>(text.size());
  record.rank = static_cast<std::uint32_t>(rank_);
  record.state.store(AbortRecord::kWritten);
  for (ChannelState& channel : memory_.state().channels)
    WakeAll(channel.completed);
}

void SharedBarrier::ThrowIfAborted() const {
  const AbortRecord& record = memory_.state().abort;
  if (record.state.load(std::memory_order_relaxed) == AbortRecord::kNone) {
    return;
  }
  // A rank may have been killed while it wrote its reason.
  const auto end = steady_clock::now() + milliseconds(500);
  while (record.state.load() != AbortRecord::kWritten) {
    if (steady_clock::now() > end) {
      throw Error(ErrorKind::kFailed, "a rank failed without a reason");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::string_view reason(record.reason.data(), record.reason_bytes);
  throw Error(ErrorKind::kFailed, "rank " + std::to_string(record.rank) +
                                      " failed: " + ToValidUtf8(reason));
}

}  // namespace dtrain
