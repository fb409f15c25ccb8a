#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/store/store.h"

namespace dtrain {

/// What is to be recorded and what is to be done once it is: the next write
/// transaction of a runner. Metrics are gathered for up to 100 ms; events of
/// the search are written at once. Nothing is done before it is recorded, and
/// while another runner writes, this one goes on and tries again.
class Outbox {
 public:
  using Record = std::function<void(StoreWriter&)>;
  using Effect = std::function<void()>;

  enum class Urgency {
    kBatched,  // within 100 ms
    kUrgent,   // at once
    kDurable,  // at once, and on the disk before anything follows from it
  };

  /// When a transaction waits for the disk. A benchmark asks what that costs.
  enum class Sync { kNever, kWhereDurable, kAlways };

  explicit Outbox(Sync sync = Sync::kWhereDurable) : sync_(sync) {}

  void Add(Record record, Urgency urgency);
  /// Runs `effect` after all that was added so far is recorded.
  void After(Effect effect);

  /// Writes what is due and runs the effects. Effects may add to the outbox.
  /// `now` is monotonic; `all` writes what is not yet due too. Throws
  /// Error(kStore).
  void Flush(Store& store, Duration now, bool all = false);

  /// Transactions so far.
  std::int64_t transactions() const { return transactions_; }
  bool empty() const { return records_.empty() && effects_.empty(); }
  /// Something waits that must be recorded before the search goes on.
  bool urgent() const { return urgency_ != Urgency::kBatched; }
  /// When `Flush` has something to do, as a monotonic time; none if empty.
  std::optional<Duration> due(Duration now) const;

 private:
  std::vector<Record> records_;
  std::vector<Effect> effects_;
  Urgency urgency_ = Urgency::kBatched;
  Sync sync_;
  std::int64_t transactions_ = 0;
  std::optional<Duration> last_flush_;
  std::optional<Duration> retry_at_;  // the write lock was held by another
};

}  // namespace dtrain
