#include "engine/run/outbox.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

using std::chrono::milliseconds;

constexpr Duration kBatchTime = milliseconds(100);
constexpr Duration kRetryTime = milliseconds(2);
// Maximum number of batched records; more are written at once.
constexpr std::size_t kBatchRecords = 2000;

}  // namespace

void Outbox::Add(Record record, Urgency urgency) {
  records_.push_back(std::move(record));
  urgency_ = std::max(urgency_, urgency);
}

void Outbox::After(Effect effect) { effects_.push_back(std::move(effect)); }

std::optional<Duration> Outbox::due(Duration now) const {
  if (empty()) return std::nullopt;
  if (retry_at_) return *retry_at_;
  if (urgent() || records_.empty() || records_.size() >= kBatchRecords) {
    return now;
  }
  return last_flush_.value_or(now - kBatchTime) + kBatchTime;
}

void Outbox::Flush(Store& store, Duration now, bool all) {
  const std::optional<Duration> when = due(now);
  if (!when || (!all && now < *when)) return;
  if (!records_.empty()) {
    const auto write = [&](StoreWriter& writer) {
      for (const Record& record : records_) record(writer);
    };
    const bool durable =
        sync_ == Sync::kAlways ||
        (sync_ == Sync::kWhereDurable && urgency_ == Urgency::kDurable);
    if (!store.TryWrite(write, durable)) {
      retry_at_ = now + kRetryTime;
      return;
    }
    last_flush_ = now;
    ++transactions_;
  }
  retry_at_.reset();
  records_.clear();
  urgency_ = Urgency::kBatched;
  for (const Effect& effect : std::exchange(effects_, {})) effect();
}

}  // namespace dtrain
