#include "engine/ranks/shared_group.h"

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
std::span<Byte> SegmentOf(std::span<Byte> bytes, std::size_t segment) {
  const std::size_t start = std::min(segment * kSegmentBytes, bytes.size());
  return bytes.subspan(start, std::min(kSegmentBytes, bytes.size() - start));
}

void Move(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) {
    std::memmove(to, from.data(), from.size());
  }
}

}  // namespace

SharedGroup::SharedGroup(int memory_fd, int rank, int ranks,
                         GroupOptions options)
    : Collectives(rank, ranks),
      own_mapping_(std::in_place, memory_fd, ranks),
      mapping_(*own_mapping_),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {}

SharedGroup::SharedGroup(const RankMapping& mapping, int rank,
                         GroupOptions options)
    : Collectives(rank, mapping.ranks()),
      mapping_(mapping),
      lane_(options.lane),
      meeting_(mapping_, lane_, rank, std::move(options.give_up)) {}

void SharedGroup::Reduce(const CollectiveCall& call,
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

// In a step a rank stages one segment, reduces the one before and fetches the
// one before that, so one meeting a segment is enough. Two buffers are, too: a
// segment's is staged again two steps on, after all have reduced it; the result
// in it is written over three steps on, after all have fetched it.
template <typename T>
void SharedGroup::ReduceAs(const CollectiveCall& call,
                           std::span<std::byte> bytes) {
  if (ranks() == 1) return meeting_.Begin(call);
  const std::span<T> values(reinterpret_cast<T*>(bytes.data()),
                            bytes.size() / sizeof(T));
  const AllReduction<T> reduction(mapping_, lane_, rank(), uses_, values);
  const std::size_t segments = reduction.segments();
  uses_ += segments;
  for (std::size_t step = 0; step <= segments + 1; ++step) {
    if (step < segments) reduction.Stage(step);
    if (step >= 1 && step <= segments) {
      reduction.ReduceShare(step - 1, call.op);
    }
    if (step >= 2) reduction.Fetch(step - 2);
    if (step == 0) {
      meeting_.Begin(call);
    } else if (step <= segments) {
      meeting_.Meet();
    }
  }
}

void SharedGroup::Exchange(const CollectiveCall& call,
                           std::span<const std::byte> mine,
                           std::span<const std::span<std::byte>> into) {
  const auto rank_number = static_cast<std::size_t>(rank());
  std::size_t longest = 0;
  for (const auto& place : into) longest = std::max(longest, place.size());
  // One at least: it is where all learn of what the others call.
  const std::size_t segments =
      std::max<std::size_t>((longest + kSegmentBytes - 1) / kSegmentBytes, 1);
  if (ranks() == 1) {
    meeting_.Begin(call);
    return Move(mine, into[0].data());
  }
  for (std::size_t segment = 0; segment < segments; ++segment) {
    const std::size_t use = uses_++;
    Move(SegmentOf(mine, segment), Staging(rank(), use));
    if (segment == 0) {
      meeting_.Begin(call);
    } else {
      meeting_.Meet();
    }
    for (std::size_t rank = 0; rank < into.size(); ++rank) {
      if (rank == rank_number) continue;
      const std::span<std::byte> place = SegmentOf(into[rank], segment);
      Move({Staging(static_cast<int>(rank), use), place.size()}, place.data());
    }
  }
  Move(mine, into[rank_number].data());
}

std::byte* SharedGroup::Staging(int rank, std::size_t use) const {
  return mapping_.Staging(lane_, rank, static_cast<int>(use % 2));
}

namespace {

// An empty span may have no address, which memcpy must not be given.
template <typename T>
void Copy(std::span<const T> from, T* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

}  // namespace

template <typename T>
AllReduction<T>::AllReduction(const RankMapping& mapping, int lane, int rank,
                              std::size_t first_use, std::span<T> values)
    : mapping_(mapping),
      lane_(lane),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(mapping.ranks())),
      first_use_(first_use),
      values_(values) {
  if (values.empty()) return;
  // Whole cache lines for each share.
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

// Where `rank` stages the segment.
template <typename T>
T* AllReduction<T>::Staged(std::size_t segment, std::size_t rank) const {
  const auto buffer = static_cast<int>((first_use_ + segment) % 2);
  return reinterpret_cast<T*>(
      mapping_.Staging(lane_, static_cast<int>(rank), buffer));
}

template <typename T>
void AllReduction<T>::Stage(std::size_t segment) const {
  T* const staged = Staged(segment, rank_);
  const std::size_t start = segment * segment_;
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

// About what falling asleep and being woken would take.
constexpr microseconds kSpin{50};
// How long a rank sleeps before it asks whether to give up.
constexpr long kSleepNanoseconds = 100'000'000;

// Not FUTEX_*_PRIVATE: the ranks are processes.
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

Meeting::Meeting(const RankMapping& mapping, int lane, int rank,
                 std::function<bool()> give_up)
    : mapping_(mapping),
      lane_(mapping.state().lanes.at(static_cast<std::size_t>(lane))),
      slot_(lane_.slots.at(static_cast<std::size_t>(rank))),
      rank_(rank),
      give_up_(std::move(give_up)),
      // Who spins where CPUs are short keeps one from those it waits for.
      spins_(std::thread::hardware_concurrency() >=
             static_cast<unsigned>(mapping.ranks())) {}

void Meeting::Begin(const CollectiveCall& call) {
  const std::size_t turn = std::exchange(turn_, 1 - turn_);
  slot_.calls[turn] = call;
  Meet();
  Compare(turn);
}

void Meeting::Compare(std::size_t turn) {
  const CollectiveCall& first = lane_.slots[0].calls[turn];
  for (int rank = 1; rank < mapping_.ranks(); ++rank) {
    const CollectiveCall& other =
        lane_.slots[static_cast<std::size_t>(rank)].calls[turn];
    if (other == first) continue;
    const std::string difference = DescribeDifference(first, rank, other);
    // From here on they would take each other's bytes for something else.
    Abort(difference);
    throw Error(ErrorKind::kFailed, difference);
  }
}

void Meeting::Meet() {
  ThrowIfAborted();
  if (mapping_.ranks() == 1) return;
  // It stays as it is until this rank has come, too.
  const std::uint32_t held = lane_.held.load(std::memory_order_relaxed);
  slot_.meetings.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t before =
      lane_.arrived.fetch_add(1, std::memory_order_acq_rel);
  if (before + 1 < static_cast<std::uint32_t>(mapping_.ranks())) {
    Await(held);
    return;
  }
  lane_.arrived.store(0, std::memory_order_relaxed);
  // Stored before it looks for sleepers, who are counted before they look at
  // what is stored here: one of both sees the other.
  lane_.held.store(held + 1);
  if (lane_.sleepers.load() > 0) WakeAll(lane_.held);
}

void Meeting::Await(std::uint32_t held) {
  if (spins_ && Spin(held)) return;
  while (true) {
    lane_.sleepers.fetch_add(1);
    SleepWhile(lane_.held, held);
    lane_.sleepers.fetch_sub(1);
    if (lane_.held.load(std::memory_order_acquire) != held) return;
    ThrowIfAborted();
    if (give_up_ && give_up_()) Abort("gave up waiting for " + Missing());
    ThrowIfAborted();
  }
}

bool Meeting::Spin(std::uint32_t held) const {
  const auto end = steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (lane_.held.load(std::memory_order_acquire) != held) return true;
      Pause();
    }
  } while (steady_clock::now() < end);
  return false;
}

std::string Meeting::Missing() const {
  const auto mine = slot_.meetings.load(std::memory_order_relaxed);
  std::vector<std::string> missing;
  for (int rank = 0; rank < mapping_.ranks(); ++rank) {
    const RankSlot& slot = lane_.slots[static_cast<std::size_t>(rank)];
    if (slot.meetings.load(std::memory_order_relaxed) < mine) {
      missing.push_back(std::to_string(rank));
    }
  }
  return (missing.size() == 1 ? "rank " : "ranks ") + Join(missing, ", ");
}

void Meeting::Abort(std::string_view reason) {
  RankFailure& failure = mapping_.state().failure;
  std::uint32_t none = RankFailure::kNone;
  if (!failure.state.compare_exchange_strong(none,
                                             RankFailure::kBeingWritten)) {
    return;
  }
  const std::string_view text = reason.substr(0, RankFailure::kReasonBytes);
  std::ranges::copy(text, failure.reason.begin());
  failure.reason_bytes = static_cast<std::uint32_t>(text.size());
  failure.rank = static_cast<std::uint32_t>(rank_);
  failure.state.store(RankFailure::kWritten);
  for (LaneState& lane : mapping_.state().lanes) WakeAll(lane.held);
}

void Meeting::ThrowIfAborted() const {
  const RankFailure& failure = mapping_.state().failure;
  if (failure.state.load(std::memory_order_relaxed) == RankFailure::kNone) {
    return;
  }
  // A rank that is killed while it writes never ends that.
  const auto end = steady_clock::now() + milliseconds(500);
  while (failure.state.load() != RankFailure::kWritten) {
    if (steady_clock::now() > end) {
      throw Error(ErrorKind::kFailed, "a rank failed, and could not say why");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::string_view reason(failure.reason.data(), failure.reason_bytes);
  throw Error(ErrorKind::kFailed, "rank " + std::to_string(failure.rank) +
                                      " failed: " + ToValidUtf8(reason));
}

}  // namespace dtrain
