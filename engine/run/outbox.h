#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/store.h"

namespace dtrain {

/// The next write transaction of a runner and the effects that follow it.
/// Metrics are batched for up to 100 ms; events of the search are written at
/// once. No effect is run before the records added ahead of it are written. A
/// write that another runner blocks is retried later, without waiting.
class Outbox {
 public:
  using Record = std::function<void(StoreWriter&)>;
  using Effect = std::function<void()>;

  enum class Urgency {
    kBatched,  // within 100 ms
    kUrgent,   // at once
    kDurable,  // at once, and on the disk before any effect
  };

  /// Transactions that wait for the disk; a benchmark compares their cost.
  enum class Sync { kNever, kWhereDurable, kAlways };

  explicit Outbox(Sync sync = Sync::kWhereDurable) : sync_(sync) {}

  void Add(Record record, Urgency urgency);
  /// Runs `effect` once everything added so far is recorded.
  void After(Effect effect);

  /// Writes the records if they are due, or with `all` in any case, and runs
  /// the effects, which may add to the outbox. `now` is monotonic. Throws
  /// Error(kStore).
  void Flush(Store& store, Duration now, bool all = false);

  /// Number of transactions so far.
  std::int64_t transactions() const { return transactions_; }
  bool empty() const { return records_.empty() && effects_.empty(); }
  /// True if a record is pending that the search depends on.
  bool urgent() const { return urgency_ != Urgency::kBatched; }
  /// Monotonic time at which `Flush` has something to do; none if empty.
  std::optional<Duration> due(Duration now) const;

 private:
  std::vector<Record> records_;
  std::vector<Effect> effects_;
  Urgency urgency_ = Urgency::kBatched;
  Sync sync_;
  std::int64_t transactions_ = 0;
  std::optional<Duration> last_flush_;
  std::optional<Duration> retry_at_;  // set if the write lock was held
};

}  // namespace dtrain
