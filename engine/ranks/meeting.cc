#include "engine/ranks/meeting.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
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
